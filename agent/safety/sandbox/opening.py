"""The boundary of a new session, from the settings and the machine's abilities; bubblewrap and Seatbelt.

On macOS a Seatbelt profile, written from a policy, is applied by `sandbox-exec`. Only what the profile names
is allowed. Of two rules for one path the later counts, so outer folders come before inner ones. There are no
private mounts: a child writes its temporary files to `TMPDIR`, not to `/tmp`. The network is either the
machine's or none.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent.core.home import Home
from agent.core.net.exchange import outgoing_network
from agent.core.net.hosts import own_networks, services
from agent.safety.sandbox import limits
from agent.safety.sandbox.boundary import (
    BoundaryFolders,
    CommandReading,
    GuardedPathChanges,
    NetworkWish,
    SessionBoundary,
)
from agent.safety.sandbox.caches import WorkspaceCaches
from agent.safety.sandbox.filtered import FilteredNetwork, enter_arguments, nsenter_path, open_space
from agent.safety.sandbox.landlock import SCOPES_SINCE, Landlock, landlock_version, launcher_argv
from agent.safety.sandbox.layout import (
    NOTHING,
    SESSION_VARIABLES,
    MountPlace,
    covering,
    hidden_files,
    missing,
    open_anchors,
    places,
    shape_and_descriptors,
)
from agent.safety.sandbox.limits import closer, memory_file, rlimits, shell_limits
from agent.safety.sandbox.seccomp import program, supported
from agent.safety.scope import temporary_entry
from agent.workspace.placeholders import ReservedNames, hold, unmounted
from tools.kit.private_folders import PrivateFolder
from tools.results import ToolError
from tools.services.actions import RunCommand
from tools.services.sandbox import Sandbox, SandboxLimits, SandboxName, SandboxPolicy, Wrapped

if TYPE_CHECKING:
    from agent.core.config.schema import SandboxSettings

# Capabilities that root keeps, so that it can work in a workspace of other users. None of them extends
# beyond a mount; without user namespaces they would apply to the whole machine.
_KEPT_BY_ROOT = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID")
_SCOPES_SINCE = 6
_OF_THE_KERNEL = ("/proc/sys", "/proc/acpi", "/proc/fs")
"""Paths that root could write without capabilities. Bubblewrap itself covers `sysrq-trigger`, `irq`, `bus`.
"""

_ROOT = Path("/")
_CONSOLE = "/dev/console"
"""The path at which bubblewrap mounts the terminal of its output."""


class Bubblewrap:
    """The sandbox that starts programs through the bubblewrap program at `path`."""

    name: SandboxName = "bubblewrap"
    has_mounts = True
    can_protect_parts = True

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def path(self) -> str:
        """The path of the bubblewrap program."""
        return self._path

    def wrap(self, argv: Sequence[str], policy: SandboxPolicy) -> Wrapped:
        view = places(policy)
        try:
            anchors = open_anchors(view) if _binds_descriptors(self._path) else {}
            reserved = _create_placeholders(view, anchors)
        except OSError as error:
            raise ToolError(f"The sandbox cannot be drawn around {policy.workspace}: {error}.") from error
        shape, known = (None, ()) if not policy.waits else shape_and_descriptors(policy, view)
        clear = unmounted(hidden_files(view))
        filter_fd = memory_file(program(internet=True, unix=True), "hermes-filter")
        stage, fds = _stage(policy)
        links, more = _links(policy)
        join, leave = limits.prepare(policy.limits.processes)
        wrapped = [
            *join,
            *enter_arguments(policy.space),
            *links,
            self._path,
            *_namespaces(policy),
            *_mounts(view, anchors),
        ]
        wrapped += ["--seccomp", str(filter_fd), "--", *stage, *argv]

        forget = closer(*known)

        def ended() -> None:
            forget()
            clear()
            reserved.release()
            leave()

        return Wrapped(
            argv=wrapped,
            env={"TMPDIR": "/tmp"},
            unset=SESSION_VARIABLES,
            fds=(filter_fd, *fds, *more, *anchors.values()),
            terminal=_CONSOLE if policy.terminal else "",
            started=closer(filter_fd, *fds, *more, *anchors.values()),
            ended=ended,
            shape=shape,
            reserved=(reserved,),
        )


def _namespaces(policy: SandboxPolicy) -> list[str]:
    chosen = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--new-session"]
    if not policy.network and policy.space is None:
        chosen.append("--unshare-net")
    if policy.dies_with_parent:
        chosen.append("--die-with-parent")
    if os.geteuid() == 0:
        chosen += ["--cap-drop", "ALL"]
        for name in _KEPT_BY_ROOT:
            chosen += ["--cap-add", name]
    return chosen


@functools.cache
def _binds_descriptors(program: str) -> bool:
    """Return whether this bubblewrap can mount open descriptors, as it can since version 0.8.

    Blocks the first time. Raises `OSError` or `subprocess.TimeoutExpired`.
    """
    said = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=_PATIENCE, check=False)
    return "--bind-fd" in said.stdout + said.stderr


def _create_placeholders(view: list[MountPlace], anchors: Mapping[Path, int]) -> ReservedNames:
    try:
        return hold(missing(view))
    except OSError:
        closer(*anchors.values())()
        raise


def _mounts(view: Sequence[MountPlace], anchors: Mapping[Path, int]) -> list[str]:
    chosen = ["--ro-bind", "/", "/"]
    system = ["--dev", "/dev", "--proc", "/proc"]
    for name in _OF_THE_KERNEL if os.geteuid() == 0 else ():
        system += ["--ro-bind-try", name, name]
    covers: list[str] = []
    # If the workspace is the whole system, its devices and processes are mounted over it.
    for place in sorted(view, key=lambda place: place.path != _ROOT):
        path, source = str(place.path), str(place.source)
        if place.path != _ROOT:
            chosen += system
            system = []
        if place.path in anchors:
            chosen += ["--bind-fd", str(anchors[place.path]), path]
        elif place.kind == "write":
            chosen += ["--bind", source, path]
        elif place.kind == "read":
            chosen += ["--ro-bind", source, path]
        elif place.is_folder:
            chosen += ["--perms", "0755", "--tmpfs", path]
            covers.append(path)
        else:
            chosen += ["--ro-bind", str(NOTHING), path]
    chosen += system
    for path in covers:
        # Not until the visible paths inside it have been mounted.
        chosen += ["--remount-ro", path]
    return chosen


def _links(policy: SandboxPolicy) -> tuple[list[str], tuple[int, ...]]:
    """Return arguments to put before bubblewrap's that mount links over files, and their descriptors.

    Bubblewrap cannot do that itself.
    """
    if not policy.links:
        return [], ()
    return launcher_argv({"links": [(str(link), str(path)) for link, path in policy.links]})


def _stage(policy: SandboxPolicy) -> tuple[list[str], tuple[int, ...]]:
    """Return arguments to put directly before the command's, and their descriptors.

    They set limits and, with a network, deny access to abstract sockets of the host.
    """
    scope = policy.network and landlock_version() >= _SCOPES_SINCE
    if scope or policy.terminal:
        # Only a session leader can acquire a controlling terminal.
        session = bool(policy.terminal)
        return launcher_argv({"scope": scope, "session": session, "limits": rlimits(policy.limits)})
    return ["/bin/sh", "-c", shell_limits(policy.limits) + 'exec "$@"', "sh"], ()


PROGRAM = "/usr/bin/sandbox-exec"
_DEVICES = ("null", "zero", "random", "urandom", "tty", "ptmx", "dtracehelper")
_ALWAYS = """\
(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow ipc-posix-shm-read* (ipc-posix-name "apple.shm.notification_center"))
(allow pseudo-tty)
(allow file-map-executable)
(allow file-read*)"""
"""Rules that a shell and its programs always need: to start, to read, to end their children."""
_SERVICES = (
    "com.apple.system.opendirectoryd.libinfo",
    "com.apple.system.opendirectoryd.membership",
    "com.apple.system.notification_center",
    "com.apple.system.logger",
    "com.apple.logd",
)
"""System services for user names and logs. None of them starts programs or reveals secrets."""
_SERVICES_OF_NETWORK = (
    "com.apple.SystemConfiguration.configd",
    "com.apple.SystemConfiguration.DNSConfiguration",
    "com.apple.dnssd.service",
    "com.apple.trustd",
    "com.apple.trustd.agent",
)
_SOCKET_OF_NAMES = "/private/var/run/mDNSResponder"


class Seatbelt:
    """The sandbox of macOS: it starts commands through `program`, which applies a profile."""

    name: SandboxName = "seatbelt"
    has_mounts = False
    can_protect_parts = True

    def __init__(self, program: str = PROGRAM) -> None:
        self._program = program

    def wrap(self, argv: Sequence[str], policy: SandboxPolicy) -> Wrapped:
        # macOS counts the processes of a user, so a limit for one boundary would count the whole desktop.
        limits = shell_limits(replace(policy.limits, processes=0))
        stage = ["/bin/sh", "-c", limits + 'exec "$@"', "sh"]
        return Wrapped(
            argv=[self._program, "-p", profile(policy), *stage, *argv],
            env={"TMPDIR": str(policy.tmp)},
            unset=SESSION_VARIABLES,
            terminal=policy.terminal,
        )


def profile(policy: SandboxPolicy) -> str:
    """Return `policy` as a Seatbelt profile. Reads the disk to see which paths exist."""
    view = [place for place in places(policy) if place.path == place.source or place.kind != "write"]
    return "\n".join(
        (
            _ALWAYS,
            _rule("allow", "mach-lookup", (f'(global-name "{name}")' for name in _SERVICES)),
            *_devices(policy),
            *_places(view, policy),
            *_network(policy),
        )
    )


def _devices(policy: SandboxPolicy) -> Iterator[str]:
    found = [f"/dev/{name}" for name in _DEVICES]
    if policy.terminal:
        found.append(policy.terminal)
    yield _rule("allow", "file-write-data file-ioctl", (_literal(path) for path in found))
    yield _rule("allow", "file-write-data", ['(subpath "/dev/fd")'])


def _places(view: Sequence[MountPlace], policy: SandboxPolicy) -> Iterator[str]:
    for place in view:
        if place.kind == "write":
            yield _rule("allow", "file-read* file-write*", [_below(place.path)])
        elif place.kind == "read":
            yield _rule("allow", "file-read*", [_below(place.path)])
            yield _rule("deny", "file-write*", [_below(place.path)])
        else:
            yield _rule("deny", "file*", [_below(place.path)])
    # It may be inside a hidden folder of Hermes.
    yield _rule("allow", "file-read* file-write*", [_below(policy.tmp)])
    # Renaming a folder would move protected files inside it to a path without a rule.
    above = dict.fromkeys(folder for place in view if place.kind != "write" for folder in _way(place, view))
    if above:
        yield _rule("deny", "file-write-unlink", (_literal(folder) for folder in above))


def _way(place: MountPlace, view: Sequence[MountPlace]) -> Iterator[Path]:
    """Yield the parent folders of a mount that could be renamed because they are in a writable folder."""
    for folder in place.path.parents:
        over = covering(folder, view)
        if over is None or over.kind != "write":
            return
        yield folder


def _network(policy: SandboxPolicy) -> Iterator[str]:
    """Yield rules for the internet, if it is allowed, and for Unix sockets in writable folders."""
    if policy.network:
        yield _rule("allow", "mach-lookup", (f'(global-name "{name}")' for name in _SERVICES_OF_NETWORK))
        yield "(allow system-socket)"
        yield '(allow network-outbound (remote ip "*:*"))'
        yield '(allow network-bind network-inbound (local ip "*:*"))'
        yield f"(allow network-outbound {_literal(_SOCKET_OF_NAMES)})"
    own = [policy.workspace, policy.tmp, *policy.writable, *(policy.readable if policy.sockets else ())]
    yield _rule("allow", "network-outbound network-bind network-inbound", map(_below, own))


def _rule(verdict: str, operations: str, filters: Iterable[str]) -> str:
    return f"({verdict} {operations} {' '.join(filters)})"


def _literal(path: Path | str) -> str:
    return f"(literal {_quoted(str(path))})"


def _below(path: Path) -> str:
    return f"(subpath {_quoted(str(path))})"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class NoSandbox:
    """The absence of a sandbox: programs start without any restriction."""

    name: SandboxName = "none"
    has_mounts = False
    can_protect_parts = False

    def wrap(self, argv: Sequence[str], policy: SandboxPolicy) -> Wrapped:
        return Wrapped(argv=list(argv), terminal=policy.terminal)


SandboxMode = Literal["auto", "bubblewrap", "landlock", "seatbelt", "off"]
_PATIENCE = 10.0
_TRIAL = (
    'echo in > "$1/inside" && cat "$1/inside" && if (echo out > "$2/outside") 2>/dev/null; then exit 9; fi; '
    'if cat "$3/secret" 2>/dev/null; then exit 8; fi; '
    # A new process namespace numbers from 1 again, so this id means this process only in the same one.
    # On a system without such namespaces the name is empty.
    '{ space=$(readlink /proc/self/ns/pid 2>/dev/null) || [ -z "$5" ]; } || exit 6; '
    'if [ "$space" = "$5" ] && kill -0 "$4" 2>/dev/null; then exit 7; fi; exit 0'
)
_OWN_SPACE = Path("/proc/self/ns/pid")


_probing = threading.Lock()


def probe(mode: SandboxMode = "auto") -> Sandbox:
    """Return a working sandbox for `mode`, tested once in this process. Blocks for about 50 ms the first
    time.

    `auto` selects the first kind that works. If no kind that `mode` permits works, nothing is confined, which
    the status bar shows. Thread-safe; further callers wait for the test.
    """
    with _probing:
        return _probe(mode)


@functools.cache
def _probe(mode: SandboxMode) -> Sandbox:
    if mode == "off":
        return NoSandbox()
    for candidate in _candidates(mode):
        if is_effective(candidate):
            return candidate
    return NoSandbox()


def _candidates(mode: SandboxMode) -> Iterator[Sandbox]:
    if sys.platform == "darwin":
        if mode in ("auto", "seatbelt") and Path(PROGRAM).exists():
            yield Seatbelt()
    elif sys.platform.startswith("linux") and supported():
        yield from _of_linux(mode)


def _of_linux(mode: SandboxMode) -> Iterator[Sandbox]:
    program = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin")
    if mode in ("auto", "bubblewrap") and program is not None:
        yield Bubblewrap(program)
    if mode in ("auto", "landlock") and landlock_version() >= 1:
        yield Landlock(spaces=True)
        if landlock_version() >= SCOPES_SINCE:
            # Without namespaces, older versions do not restrict signals to other processes.
            yield Landlock(spaces=False)


def is_effective(sandbox: Sandbox) -> bool:
    """Return whether a test command works inside `sandbox` and cannot escape; False if it cannot be run."""
    try:
        with PrivateFolder("probe") as made:
            return _passes_test(sandbox, made.resolve())
    except (OSError, ToolError, subprocess.TimeoutExpired):
        return False


def _passes_test(sandbox: Sandbox, root: Path) -> bool:
    for name in ("work", "out", "hidden", "tmp"):
        (root / name).mkdir()
    (root / "hidden" / "secret").write_text("secret")
    policy = SandboxPolicy(
        workspace=root / "work",
        tmp=root / "tmp",
        readable=(root / "out",),
        hidden=(root / "hidden",),
    )
    said = [str(root / name) for name in ("work", "out", "hidden")]
    us = [str(os.getpid()), str(_OWN_SPACE.readlink()) if _OWN_SPACE.exists() else ""]
    code, output = _run(sandbox, policy, ["/bin/sh", "-c", _TRIAL, "sh", *said, *us])
    return code == 0 and output == b"in\n" and not (root / "out" / "outside").exists()


def _run(sandbox: Sandbox, policy: SandboxPolicy, argv: list[str]) -> tuple[int, bytes]:
    wrapped = sandbox.wrap(argv, policy)
    try:
        done = subprocess.run(
            wrapped.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin", **wrapped.env},
            cwd="/",
            pass_fds=wrapped.fds,
            timeout=_PATIENCE,
            start_new_session=True,
            check=False,
        )
        return done.returncode, done.stdout
    finally:
        wrapped.started()
        wrapped.ended()


def open_boundary(
    settings: SandboxSettings,
    home: Home,
    workspace: Path,
    scratch: Path,
    environ: Mapping[str, str],
    readable: Sequence[Path] = (),
    secrets: Mapping[str, str] | None = None,
) -> SessionBoundary:
    """Find a working sandbox and return the boundary of a session that uses it. Blocks; call it in a thread.

    `readable` are folders that commands may read, even below a private `/tmp`. `secrets` are values, by name,
    that are not sent through a filtered network.
    """
    sandbox = probe(settings.mode)
    filtered = None
    if settings.network == "filtered" and isinstance(sandbox, Bubblewrap) and not unfiltered(sandbox):
        filtered = FilteredNetwork(
            sandbox.path,
            secrets=secrets,
            network=outgoing_network(environ),
            services=services(settings.hosts),
            is_own=own_networks(settings.hosts).lists,
        )
    writable = [Path(path).expanduser() for path in settings.writable]
    boundary = SessionBoundary(
        sandbox,
        BoundaryFolders(
            workspace,
            scratch / "tmp",
            home,
            writable,
            [Path(path) for path in settings.hidden],
            [scratch, *readable, *_beside(workspace, writable)],
        ),
        network=settings.network,
        limits=SandboxLimits(data=settings.memory * 1_000_000),
        environ=environ,
        filtered=filtered,
        reads=CommandReading(
            _reader(workspace, scratch), _place_reader(workspace, home.root), _settings_reader(workspace)
        ),
        caches=WorkspaceCaches(
            home.sandbox_caches,
            workspace.resolve(),
            environ,
            Path.home(),
            lambda path: any(path.is_relative_to(each) for each in (workspace, *writable)),
        ),
    )
    boundary.clear_up()
    return boundary


def _beside(workspace: Path, writable: Sequence[Path]) -> list[Path]:
    """Return the entries of temporary folders that contain the workspace or the home, unless they are
    writable.

    Files next to a project must stay visible even where commands get a private `/tmp`.
    """
    found = (temporary_entry(str(path.resolve())) for path in (workspace, Path.home()))
    own = {path.resolve() for path in (workspace, *writable)}
    return [Path(entry) for entry in dict.fromkeys(found) if entry is not None and Path(entry) not in own]


def unfiltered(sandbox: Sandbox) -> str:
    """Return the reason why the network cannot be filtered in `sandbox`, as a clause; empty if it can."""
    if not isinstance(sandbox, Bubblewrap):
        return "only bubblewrap can do that"
    return "" if nsenter_path() is not None else "nsenter (of util-linux) is not installed"


def try_filter(mode: SandboxMode) -> str:
    """Return the reason why this machine's sandbox cannot filter the network, after opening one as a test.

    It is empty if that works. Blocks.
    """
    sandbox = probe(mode)
    if not isinstance(sandbox, Bubblewrap) or unfiltered(sandbox):
        return unfiltered(sandbox)
    try:
        opened = open_space(sandbox.path)
    except ToolError as error:
        return str(error)
    opened.close()
    return ""


def _place_reader(workspace: Path, own: Path) -> Callable[[str, Path], GuardedPathChanges]:
    def opens(command: str, cwd: Path) -> GuardedPathChanges:
        from agent.safety.permissions.policy import Protection, brings_files, folder_deletion_test
        from agent.safety.permissions.subjects import Setting

        setting = Setting(workspace, Path.home())
        named = Protection(setting, own).guarded_paths(RunCommand(tool="terminal", command=command, cwd=cwd))
        reading = setting.reading(command, cwd)
        return GuardedPathChanges(named, brings_files(reading), folder_deletion_test(reading))

    return opens


def _settings_reader(workspace: Path) -> Callable[[str, Path], bool]:
    """Return a function that tests whether a command may change git settings, by git or by other code."""

    def changes(command: str, cwd: Path) -> bool:
        from agent.safety.effects import effects_of
        from agent.safety.permissions.subjects import Setting
        from agent.safety.programs.table import programs

        reading = Setting(workspace, Path.home()).reading(command, cwd)
        found = [(each.name, effects_of(each, programs()).effect) for each in reading.commands]
        harmless = all(effect == "looks" or (effect == "edits" and name != "git") for name, effect in found)
        return not harmless or bool(reading.doubts)

    return changes


def _reader(workspace: Path, scratch: Path) -> Callable[[str, Path], NetworkWish]:
    def wish(command: str, cwd: Path) -> NetworkWish:
        from agent.safety.assessor import Assessor
        from agent.safety.places import Places

        user = Path.home()
        places = Places(home=str(user), guarded=(), secret=(), other_homes=(str(user.resolve()),))
        found = Assessor(places, workspace, scratch).assess(command, cwd)
        return NetworkWish(found.verdict.network, found.hosts)

    return wish

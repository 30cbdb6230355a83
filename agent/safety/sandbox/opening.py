"""The boundary of a new session, from the settings and the machine's abilities."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent.core.home import Home
from agent.core.net.exchange import way_out
from agent.core.net.hosts import own_networks, services
from agent.safety.sandbox import seatbelt
from agent.safety.sandbox.boundary import (
    BoundaryFolders,
    CommandReading,
    NetworkWish,
    Opened,
    SessionBoundary,
)
from agent.safety.sandbox.bubblewrap import Bubblewrap
from agent.safety.sandbox.caches import WorkspaceCaches
from agent.safety.sandbox.filtered import FilteredNetwork, entering, open_space
from agent.safety.sandbox.landlock import SCOPES_SINCE, Landlock, landlock_version
from agent.safety.sandbox.seccomp import supported
from agent.safety.scope import temporary_entry
from tools.results import ToolError
from tools.services.actions import RunCommand
from tools.services.sandbox import Sandbox, SandboxLimits, SandboxName, SandboxPolicy, Wrapped

if TYPE_CHECKING:
    from agent.core.config.schema import SandboxSettings


class NoSandbox:
    """The boundary that starts programs without any restriction."""

    name: SandboxName = "none"
    has_mounts = False
    lays_read_only = False

    def wrap(self, argv: Sequence[str], policy: SandboxPolicy) -> Wrapped:
        return Wrapped(argv=list(argv), terminal=policy.terminal)


SandboxMode = Literal["auto", "bubblewrap", "landlock", "seatbelt", "off"]
_PATIENCE = 10.0
_TRIAL = (
    'echo in > "$1/inside" && cat "$1/inside" && if (echo out > "$2/outside") 2>/dev/null; then exit 9; fi; '
    'if cat "$3/secret" 2>/dev/null; then exit 8; fi; '
    # A process space of its own counts from the start again: our number names us only in the same space.
    # A system without such spaces has an empty name for its own.
    '{ space=$(readlink /proc/self/ns/pid 2>/dev/null) || [ -z "$5" ]; } || exit 6; '
    'if [ "$space" = "$5" ] && kill -0 "$4" 2>/dev/null; then exit 7; fi; exit 0'
)
_OWN_SPACE = Path("/proc/self/ns/pid")


@functools.cache
def probe(mode: SandboxMode = "auto") -> Sandbox:
    """Return a working sandbox for `mode`, tested once in this process. Blocks for some 50 ms the first time.

    `auto` selects the first kind that works. If a requested kind does not work, nothing is
    confined, which the status bar shows.
    """
    if mode == "off":
        return NoSandbox()
    for candidate in _candidates(mode):
        if holds(candidate):
            return candidate
    return NoSandbox()


def _candidates(mode: SandboxMode) -> Iterator[Sandbox]:
    if sys.platform == "darwin":
        if mode in ("auto", "seatbelt") and Path(seatbelt.PROGRAM).exists():
            yield seatbelt.Seatbelt()
    elif sys.platform.startswith("linux") and supported():
        yield from _of_linux(mode)


def _of_linux(mode: SandboxMode) -> Iterator[Sandbox]:
    program = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin")
    if mode in ("auto", "bubblewrap") and program is not None:
        yield Bubblewrap(program)
    if mode in ("auto", "landlock") and landlock_version() >= 1:
        yield Landlock(spaces=True)
        if landlock_version() >= SCOPES_SINCE:
            # Without namespaces, older versions leave signals to everybody open.
            yield Landlock(spaces=False)


def holds(sandbox: Sandbox) -> bool:
    """Return whether a test command works inside `sandbox` and cannot escape; False if it cannot be run."""
    try:
        with tempfile.TemporaryDirectory(prefix="hermes-probe-", ignore_cleanup_errors=True) as made:
            return _holds(sandbox, Path(made).resolve())
    except (OSError, ToolError, subprocess.TimeoutExpired):
        return False


def _holds(sandbox: Sandbox, root: Path) -> bool:
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
    """Find a working sandbox and combine it with the session's policy. Blocks; use it in a thread.

    `readable` are folders that commands may read, even below a private `/tmp`. `secrets` are values, by name,
    that are not sent through a filtered network.
    """
    sandbox = probe(settings.mode)
    filtered = None
    if settings.network == "filtered" and isinstance(sandbox, Bubblewrap) and not unfiltered(sandbox):
        filtered = FilteredNetwork(
            sandbox.path,
            secrets=secrets,
            network=way_out(environ),
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
    """Return the entries of temporary folders that hold the workspace or the home, unless they are writable.

    What is beside a project is the machine's and not of a private `/tmp`, wherever the project is.
    """
    found = (temporary_entry(str(path.resolve())) for path in (workspace, Path.home()))
    own = {path.resolve() for path in (workspace, *writable)}
    return [Path(entry) for entry in dict.fromkeys(found) if entry is not None and Path(entry) not in own]


def unfiltered(sandbox: Sandbox) -> str:
    """Return why the network cannot be filtered in `sandbox`, as a clause; empty if it can."""
    if not isinstance(sandbox, Bubblewrap):
        return "only bubblewrap can do that"
    return "" if entering() is not None else "nsenter (of util-linux) is not installed"


def try_filter(mode: SandboxMode) -> str:
    """Return why the network of this machine's sandbox cannot be filtered, after opening it once.

    The result is a clause; empty if it can. Blocks.
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


def _place_reader(workspace: Path, own: Path) -> Callable[[str, Path], Opened]:
    def opens(command: str, cwd: Path) -> Opened:
        from agent.safety.permissions.defaults import Protection, brings_files, deletes_folders
        from agent.safety.permissions.subjects import Setting

        setting = Setting(workspace, Path.home())
        named = Protection(setting, own).guarded_paths(RunCommand(tool="terminal", command=command, cwd=cwd))
        reading = setting.reading(command, cwd)
        return Opened(named, brings_files(reading), deletes_folders(reading))

    return opens


def _settings_reader(workspace: Path) -> Callable[[str, Path], bool]:
    """Return a test whether a command may change git settings, by git or by running other code."""

    def changes(command: str, cwd: Path) -> bool:
        from agent.safety.effects import deed
        from agent.safety.permissions.subjects import Setting
        from agent.safety.programs.table import programs

        reading = Setting(workspace, Path.home()).reading(command, cwd)
        found = [(each.name, deed(each, programs()).effect) for each in reading.commands]
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

"""The boundary of one session: the machine's sandbox with the policy for this workspace."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from agent.core.home import Home, from_home, private_folder
from agent.errors import HermesError
from agent.safety.sandbox import secrets
from agent.safety.sandbox.caches import WorkspaceCaches
from agent.safety.sandbox.filtered import VARIABLES, FilteredNetwork, refusal_text
from agent.safety.sandbox.landlock import own_files
from agent.safety.sandbox.layout import PRIVATE_TMP, GuardedFinder, found_in, shape_of
from agent.safety.sandbox.repository import CommandCopies, SettingsCopies, repository_of
from agent.workspace.placeholders import RESTING, ReservedNames, hold, remove_abandoned
from tools.kit.children import kill_group, start_child
from tools.kit.lazy_pattern import lazy_pattern
from tools.results import DeniedError, ToolError
from tools.services.actions import Action, ReachHost, RunCommand
from tools.services.sandbox import (
    Need,
    NetworkMode,
    PermitHost,
    Sandbox,
    SandboxLimits,
    SandboxName,
    SandboxPolicy,
    Wrapped,
)
from tools.terminal.environment import child_environment

_TAIL = 20_000
"""The number of characters at the end of the output that are searched."""
_LONGEST = 200
_READ_ONLY = lazy_pattern(r"read-only file system|\bEROFS\b", re.IGNORECASE)
_DENIED = lazy_pattern(
    r"permission denied|operation not permitted|\b(?:EACCES|EPERM)\b|PermissionError", re.IGNORECASE
)
_LEAKS = lazy_pattern(r"LeakSanitizer has encountered a fatal error")
"""The message of LeakSanitizer when it cannot trace its own process; it does not mention the refusal."""
_ACROSS = lazy_pattern(r"\bEXDEV\b|cross-device link", re.IGNORECASE)
_BUSY = lazy_pattern(r"device or resource busy|\bEBUSY\b", re.IGNORECASE)
_OFFLINE = lazy_pattern(
    r"network is unreachable|could ?n[o']t resolve host|name or service not known|"
    r"temporary failure in name resolution|ENETUNREACH|EAI_AGAIN|no address associated with hostname|"
    r"failed to resolve|address family not supported|unable to resolve host|nodename nor servname",
    re.IGNORECASE,
)
_FILTERED = (
    "The network is filtered: names are resolved by the proxy that the variables http_proxy and https_proxy "
    "name, and only programs that use it reach a host."
)
_MISSING = lazy_pattern(
    r"no such file|not found|does not exist|\bENOENT\b|FileNotFound|is empty|unexpected end|invalid format"
    r"|(?:cannot|can't|could ?n[o']t|unable to|failed to) (?:open|read|access|find|load)|error in libcrypto",
    re.IGNORECASE,
)
_NOT_MADE = lazy_pattern(
    r"(?=.*(?:\bENOENT\b|no such file)).*(?:\bmkdir\b|cannot (?:create|make|touch)|could ?n[o']t create)",
    re.IGNORECASE,
)
_WRITES = lazy_pattern(
    r"(?:cannot|can't|could ?n[o']t) (?:create|make|touch|remove|move|write)", re.IGNORECASE
)
_ONLY_THESE = "Only the workspace and /tmp can be written, and secrets cannot be read."
_NO_RIGHTS = (
    "Commands inside cannot trace programs (debuggers, strace, perf), make namespaces or containers, or "
    "change owners, limits and the machine."
)
_NO_LEAKS = (
    "Programs cannot be traced inside, which LeakSanitizer needs; with ASAN_OPTIONS=detect_leaks=0 the "
    "program runs without it."
)
_TWO_MOUNTS = (
    "/tmp is a mount of its own inside, so no file can be renamed from it into the workspace; with TMPDIR "
    "set to a folder in the workspace the program can."
)
_WAY_OUT = " If it has to be, run the command again by the terminal with outside=true; a person is asked."
_HIDDEN = lazy_pattern(r"(\S+) is there, but hidden from commands")
_CLOSED = lazy_pattern(r"(\S+) is read-only to commands")
_PATH = lazy_pattern(r"(?<![\w.~/-])~?/[^\s'\"‘’:;,)\]]+")


def explain(
    output: str,
    writable: Sequence[Path],
    hidden: Sequence[Path],
    network: bool,
    *,
    filtered: bool = False,
    command: str = "",
    failed: bool = True,
) -> str:
    """Return a note about what the boundary refused and how to continue; empty if nothing indicates a
    refusal.

    `network` is true if the command had the network, `filtered` if it had a proxy, `failed` if its exit code
    was not 0. If it did not fail, only lines that name a path count. Reads the disk.
    """
    lines = output[-_TAIL:].splitlines()
    for line in reversed(lines):
        named = _paths_in(line)
        if place := _shut(line, named, hidden):
            return _hidden_sentence(line, place)
        if _READ_ONLY.search(line) or (_NOT_MADE.search(line) and _closed_to(named, writable)):
            if failed or _closed_to(named, writable):
                return _read_only_sentence(line, named, writable)
        elif (failed or _WRITES.search(line)) and _DENIED.search(line) and _is_beyond(line, writable, hidden):
            return _sentence(line, _ONLY_THESE if named else _NO_RIGHTS)
        if failed and _LEAKS.search(line):
            return _sentence(line, _NO_LEAKS)
        if failed and _ACROSS.search(line):
            return _sentence(line, _TWO_MOUNTS)
        if failed and not network and _OFFLINE.search(line):
            return _sentence(line, _FILTERED if filtered else "The network is off.")
    text = "\n".join(lines)
    for found, place in _signs(text, hidden, command):
        start = text.rfind("\n", 0, found.end()) + 1
        return _hidden_sentence(text[start:].partition("\n")[0], place)
    if failed or not output.strip():
        for path in _paths_in(command):
            if (place := _within(path, hidden)) and os.path.lexists(path):
                return _hidden_sentence("", place)
    return ""


def _paths_in(line: str) -> list[Path]:
    found = (
        Path(match).expanduser()
        for match in _PATH.findall(line.replace("$HOME/", "~/").replace("file://", " "))
    )
    return [path for path in found if path != Path("/")]


def _within(path: Path, places: Sequence[Path]) -> Path | None:
    return next((place for place in places if path.is_relative_to(place)), None)


def _shut(line: str, named: Sequence[Path], hidden: Sequence[Path]) -> Path | None:
    """Return the hidden path, existing outside the sandbox, that a line of output reports as missing or
    denied; None without one.
    """
    if not (_MISSING.search(line) or _DENIED.search(line)):
        return None
    found = (place for path in named if os.path.lexists(path) and (place := _within(path, hidden)))
    return next(found, None)


def _closed_to(named: Sequence[Path], writable: Sequence[Path]) -> bool:
    return any(_within(path, writable) is None and path.parts[1:2] != ("proc",) for path in named)


def _signs(text: str, hidden: Sequence[Path], command: str) -> Iterator[tuple[re.Match[str], Path]]:
    """Yield each message in an output that a hidden file may have caused, with that file's path.

    Only files that exist outside of the sandbox are included.
    """
    for said, names, run in _rows():
        # The message comes first: most outputs have none, and there are many hidden files.
        if not (found := said.search(text)) or not run.search(command):
            continue
        for name in names:
            suffix = f"/{name.lstrip('/')}"
            place = next((each for each in hidden if str(each).endswith(suffix)), None)
            if name.startswith("/"):
                place = Path(name)
            if place is not None and place.exists():
                yield found, place
                break


@functools.cache
def _rows() -> tuple[tuple[re.Pattern[str], tuple[str, ...], re.Pattern[str]], ...]:
    from tools.kit.yaml_text import load_table

    rows = load_table(Path(__file__).with_name("hidden_signs.yaml"))["signs"]
    return tuple(
        (
            re.compile(str(row["said"]).replace(" |", "|"), re.IGNORECASE),
            tuple(row["places"].split()),
            re.compile(row.get("run", "")),
        )
        for row in rows
    )


def withheld_clause(note: str) -> str:
    """Return the restriction that blocked the command, as a clause for a question; empty if unknown.

    `note` is the result of `explain`.
    """
    for said, clause in ((_HIDDEN, "{} is hidden inside"), (_CLOSED, "{} is read-only inside")):
        if found := said.search(note):
            return clause.format(found[1])
    return "the network is off inside" if "The network is off." in note else ""


def explain_guarded(output: str, guarded: Sequence[Path], workspace: Path) -> str:
    """Return sentences about a guarded path that a program could not change and about how to continue; empty
    if the output shows none.
    """
    names = {_place_text(path, workspace): path.name for path in guarded}
    for line in reversed(output[-_TAIL:].splitlines()):
        if any(said.search(line) for said in (_READ_ONLY, _BUSY, _DENIED)):
            told = [shown for shown in names if shown in line] or [
                shown for shown, name in names.items() if name in line
            ]
            if told:
                return (
                    f"{max(told, key=len)} runs something later, so programs cannot change it. "
                    "If it has to be changed, use write_file or patch; a person is asked."
                )
    return ""


def _place_text(path: Path, workspace: Path) -> str:
    return str(path.relative_to(workspace)) if path.is_relative_to(workspace) else str(path)


def _is_beyond(line: str, writable: Sequence[Path], hidden: Sequence[Path]) -> bool:
    """Return whether a line of output names a path blocked by the boundary.

    If it names no path, it must contain "operation not permitted".
    """
    named = [Path(match).expanduser() for match in _PATH.findall(line)]
    named = [path for path in named if path != Path("/") and not path.is_relative_to("/bin")]
    if not named:
        return "operation not permitted" in line.lower()
    return any(
        any(path.is_relative_to(secret) for secret in hidden)
        or not any(path.is_relative_to(folder) for folder in writable)
        for path in named
    )


def _hidden_sentence(line: str, place: Path) -> str:
    about = f"The sandbox did not allow this: {_short(line)!r}. " if line else ""
    return (
        f"{about}{from_home(place)} is there, but hidden from commands, as keys and logins are: do not work "
        f"around it by switching something off.{_WAY_OUT}"
    )


def _read_only_sentence(line: str, named: Sequence[Path], writable: Sequence[Path]) -> str:
    closed = [path for path in named if _within(path, writable) is None]
    if not closed:
        return _sentence(line, _ONLY_THESE)
    return _sentence(
        line,
        f"{from_home(closed[-1])} is read-only to commands: only the workspace, its caches and /tmp can be "
        "written, and what the person adds to `sandbox.writable` in the settings.",
    )


def _sentence(line: str, what: str) -> str:
    return f"The sandbox did not allow this: {_short(line)!r}. {what}{_WAY_OUT}"


def _short(line: str) -> str:
    line = " ".join(line.split())
    return line[:_LONGEST] + "…" if len(line) > _LONGEST else line


NetworkReach = Literal["open", "filtered", "closed"]
"""The hosts that can be reached. `open`: every host. `filtered`: listed hosts; any other is asked about
separately. `closed`: none.
"""
_REACH: dict[NetworkMode, NetworkReach] = {
    "on": "open",
    "filtered": "filtered",
    "ask": "closed",
    "off": "closed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryCoverage:
    """The protection that a boundary gives against programs inside it."""

    level: SandboxName = "none"
    network: NetworkReach = "open"
    guards_places: bool = False
    """True if programs cannot change guarded files: existing ones are read-only, new ones are removed."""

    @property
    def is_closed(self) -> bool:
        """Return whether programs can only write in the workspace and allowed folders, cannot change guarded
        files, and cannot reach all hosts.
        """
        return self.level != "none" and self.guards_places and self.network != "open"


NO_COVERAGE = BoundaryCoverage()
"""The protection without a boundary, or for commands on another machine."""


def coverage_of(sandbox: Sandbox, network: NetworkMode, *, steps: bool) -> BoundaryCoverage:
    """Return the protection by `sandbox`; `steps` is true if file changes are recorded, so that undo works.

    Landlock alone cannot exclude a part of a writable folder.
    """
    if sandbox.name == "none":
        return NO_COVERAGE
    return BoundaryCoverage(
        level=sandbox.name, network=_REACH[network], guards_places=sandbox.can_protect_parts and steps
    )


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NetworkWish:
    """The network access that a command needs, as far as its text shows."""

    reaches: bool
    hosts: frozenset[str] = frozenset()
    """The hosts it names."""


@dataclass(frozen=True, slots=True)
class GuardedPathChanges:
    """The guarded paths that a command changes, as far as its text shows."""

    named: tuple[Path, ...] = ()
    """The guarded paths it names; the user is asked before it runs."""
    versions: bool = False
    """True if it makes git put other file versions into the work tree, including guarded files."""
    deletes: Callable[[Path], bool] = lambda path: False
    """A function that returns whether it deletes a folder with its content."""


@dataclass(frozen=True, slots=True)
class BoundaryFolders:
    """The folders of one boundary, and the user's changes to what is accessible."""

    workspace: Path
    tmp: Path
    """The private temporary folder, created on first use."""
    home: Home
    writable: Iterable[Path] = ()
    hidden: Iterable[Path] = ()
    """Further paths that commands cannot read; like `writable`, from the user's settings."""
    readable: Iterable[Path] = ()
    """Folders of Hermes that commands may read."""


@dataclass(frozen=True, slots=True)
class CommandReading:
    """Functions that find out from the text of a command, and its folder, what it needs."""

    network: Callable[[str, Path], NetworkWish] = lambda command, cwd: NetworkWish(True)
    """A function for the network access it needs; used only if the network is filtered or asked for."""
    guarded_changes: Callable[[str, Path], GuardedPathChanges] = lambda command, cwd: GuardedPathChanges()
    changes_settings: Callable[[str, Path], bool] = lambda command, cwd: True
    """A function that returns whether it may change git settings, so that it gets copies of them."""


class SessionBoundary:
    """The application of `sandbox` to the commands of one workspace.

    `filtered` is the network for mode `filtered`; without it that mode becomes `ask`. `caches` are those of
    package managers, to which commands may write.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        folders: BoundaryFolders,
        *,
        network: NetworkMode = "on",
        filtered: FilteredNetwork | None = None,
        environ: Mapping[str, str] = os.environ,
        limits: SandboxLimits | None = None,
        reads: CommandReading | None = None,
        caches: WorkspaceCaches | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._workspace = folders.workspace.resolve()
        self._tmp = folders.tmp
        self._home = folders.home
        self._mode: NetworkMode = "ask" if network == "filtered" and filtered is None else network
        self.filtered = filtered if self._mode == "filtered" else None
        """The filtered network, if commands use it."""
        real = _Resolver()
        self._writable = tuple(real(path) for path in folders.writable)
        self._hidden = tuple(dict.fromkeys(real(path) for path in self._secrets(environ, folders.hidden)))
        self._readable = tuple(real(path) for path in folders.readable)
        self._limits = limits or SandboxLimits()
        self._reads = reads or CommandReading()
        self.settings = SettingsCopies(folders.tmp.parent / "settings")
        """The copies of git's settings that commands write."""
        self._caches = caches if sandbox.name != "none" else None
        self._open_names: set[Path] = set()
        """Names that must stay free and cannot be reserved, in repositories where commands have worked."""
        self._finders = [GuardedFinder(root) for root in dict.fromkeys((self._workspace, *self._writable))]

    @property
    def level(self) -> SandboxName:
        return self._sandbox.name

    @property
    def network(self) -> NetworkMode:
        return self._mode

    def coverage(self, *, steps: bool) -> BoundaryCoverage:
        """Return the protection by the boundary; `steps` is true if file changes are recorded."""
        return coverage_of(self._sandbox, self._mode, steps=steps)

    def guarded_paths(self, command: str, cwd: Path) -> tuple[Path, ...]:
        if not self._sandbox.can_protect_parts:
            return ()
        opened = self._reads.guarded_changes(command, cwd)
        files = found_in(self._finders)
        # A mount on a path would prevent its parent folder from being deleted in that view.
        gone = (path for path in (*files.read_only, *files.pinned) if any(map(opened.deletes, path.parents)))
        brought = (path for path in files.read_only if opened.versions and ".git" not in path.parts)
        return tuple(dict.fromkeys((*opened.named, *gone, *brought)))

    @property
    def is_ready(self) -> bool:
        ready = self._caches is None or self._caches.is_ready
        return ready and (self.filtered is None or self.filtered.is_open)

    def prepare(self) -> None:
        if self._caches is not None and not self._caches.is_ready:
            try:
                self._caches.prepare()
            except (HermesError, OSError) as error:
                log.warning("package managers have no caches of their own: %s", error)
                self._caches = None
        if self.filtered is not None:
            self.filtered.space()

    def recheck(self) -> None:
        if self._caches is not None:
            self._caches.recheck()

    def close(self) -> None:
        """Close the network and release the caches."""
        if self.filtered is not None:
            self.filtered.close()
        if self._caches is not None:
            self._caches.close()

    def clear_up(self) -> None:
        """Remove placeholder files left by a killed process, including resting ones. Blocks briefly."""
        roots = tuple(f"{str(root).rstrip('/')}/" for root in (self._workspace, *self._writable))
        within = [path for path in self._hidden if str(path).startswith(roots)]
        gaps = {above for path in within for above in (path, *path.parents) if str(above).startswith(roots)}
        deepest_first = sorted(gaps, key=lambda path: len(path.parts), reverse=True)
        resting = self._tmp.parent.glob(RESTING)
        remove_abandoned((*repository_of(self._workspace).guarded, *deepest_first, *resting))

    def needs_git_copies(self, command: str, cwd: Path) -> bool:
        return self._sandbox.can_protect_parts and self._reads.changes_settings(command, cwd)

    def _copy_settings(self, need: Need) -> CommandCopies | None:
        """Return copies of git's settings for one start of a command; None if it gets no copies."""
        if not need.needs_git_copies or not self._sandbox.can_protect_parts:
            return None
        own = repository_of(self._workspace).guarded
        nested = (path for path in found_in(self._finders).read_only if ".git" in path.parts)
        files = [path for path in dict.fromkeys((*own, *nested)) if not _lies_in(path, need.guarded_paths)]
        return self.settings.copies_for(files)

    def policy(self, need: Need) -> SandboxPolicy:
        """Return the policy for the next start of a command with these needs.

        Reads the disk each time, because repositories and guarded files change.
        """
        private_folder(self._tmp)
        repository = repository_of(self._workspace)
        user = Path.home()
        files = found_in(self._finders)
        caches = self._own_caches()
        return SandboxPolicy(
            workspace=self._workspace,
            tmp=self._tmp.resolve(),
            writable=(
                *self._writable,
                *self._own_caches()[:1],
                *(
                    path
                    for path in (*repository.store, *files.pinned)
                    if not self._may_go(path, need.guarded_paths)
                ),
                *need.write,
            ),
            readable=(*self._readable, *caches[1:], *repository.alternates, *need.read, *own_files()),
            # Missing paths need no placeholder: files to be hidden at the start exist.
            hidden=(*self._hidden, *(path for path in need.hide if os.path.lexists(path))),
            protected=tuple(
                path
                for path in (*repository.guarded, *files.read_only, *secrets.start_up(user))
                if os.path.lexists(path) and not _lies_in(path, need.guarded_paths)
            ),
            network=not need.offline and (self._mode == "on" or (self._mode == "ask" and need.network)),
            space=None if self.filtered is None else self.filtered.space(),
            terminal=need.terminal,
            sockets=need.sockets,
            dies_with_parent=need.dies_with_parent,
            waits=need.waits,
            limits=self._limits,
        )

    def _may_go(self, path: Path, opened: Sequence[Path]) -> bool:
        """Return whether a path in the workspace may be deleted, so that nothing may be mounted over it."""
        return path.is_relative_to(self._workspace) and any(path.is_relative_to(each) for each in opened)

    def wrap(self, argv: Sequence[str], need: Need) -> Wrapped:
        if self._sandbox.name == "none":
            return Wrapped(argv=list(argv), terminal=need.terminal)
        gaps = self._fill_gaps(need.guarded_paths)
        filtered = self.filtered
        copies = self._copy_settings(need)
        try:
            policy = self.policy(need)
            wrapped = self._sandbox.wrap(argv, policy if copies is None else copies.within(policy))
        except BaseException:
            self.settings.release(copies)
            gaps.release()
            raise
        number = filtered.register(need.hosts, need.permit) if filtered is not None and need.counts else 0

        def ended() -> None:
            wrapped.ended()
            self.settings.release(copies)
            gaps.release()
            self._free_names()
            if filtered is not None:
                filtered.unregister(number)

        variables = self._folder_variables()
        env = {**variables, **wrapped.env, **({} if filtered is None else VARIABLES)}
        shape = None if wrapped.shape is None else (wrapped.shape, variables)
        return replace(wrapped, env=env, ended=ended, shape=shape, reserved=(gaps, *wrapped.reserved))

    def withdraw(self, wrapped: Wrapped) -> None:
        for each in wrapped.reserved:
            each.withdraw(self._tmp.parent)

    def restore(self, wrapped: Wrapped) -> bool:
        return all(each.restore() for each in wrapped.reserved)

    def still_fits(self, wrapped: Wrapped, need: Need, pid: int) -> bool:
        if wrapped.shape is None or not self.restore(wrapped):
            return False
        self._free_names()
        shape = shape_of(self.policy(need))
        return (shape, self._folder_variables()) == wrapped.shape and shape.is_mounted(pid)

    def mark_working(
        self, permit: PermitHost | None = None, hosts: frozenset[str] = frozenset()
    ) -> Callable[[], None]:
        self.settings.refresh()
        if self.filtered is None:
            return _nothing
        return partial(self.filtered.unregister, self.filtered.register(hosts, permit))

    def _fill_gaps(self, opened: Sequence[Path]) -> ReservedNames:
        """Create read-only placeholders for missing files from which git would run programs; return them."""
        if not self._sandbox.can_protect_parts:
            # This sandbox could not prevent changes of a placeholder.
            return ReservedNames()
        self._free_names()
        try:
            repository = repository_of(self._workspace)
            self._open_names.update(repository.open_names())
            folders, files = repository.gaps()
            return hold(
                [path for path in folders if not _lies_in(path, opened)],
                {path: content for path, content in files.items() if not _lies_in(path, opened)},
            )
        except OSError:
            # If Hermes cannot create the placeholders, a command cannot create the files either.
            return ReservedNames()

    def _free_names(self) -> None:
        """Delete files that commands created under guarded names for which no placeholder is possible."""
        for path in self._open_names:
            with suppress(OSError):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
                log.warning("a command made %s, which has git work elsewhere; it was removed", path)

    def lets_write(self, path: Path) -> bool:
        """Return whether commands can change `path`, which must be resolved."""
        roots = (self._workspace, self._tmp.resolve(), *self._writable, *repository_of(self._workspace).store)
        return self.level == "none" or any(path.is_relative_to(root) for root in roots)

    def private_files(self) -> tuple[Path, ...]:
        return () if self.level == "none" else tuple(secrets.in_workspace(self._workspace))

    def locate(self, path: str) -> str:
        folder = next((root for root in PRIVATE_TMP if Path(path).is_relative_to(root)), None)
        if not self._sandbox.has_mounts or folder is None:
            return path
        plain = Path(os.path.normpath(path))
        shown = (self._workspace, *self._writable, *self._readable, *self._hidden)
        if not plain.is_relative_to(folder) or any(plain.is_relative_to(each) for each in shown):
            return path
        own = private_folder(self._tmp) / plain.relative_to(folder)
        return path if os.path.lexists(path) and not os.path.lexists(own) else str(own)

    def path_in_sandbox(self, path: Path) -> Path:
        own = self._tmp.resolve()
        if not self._sandbox.has_mounts or not path.is_relative_to(own):
            return path
        return PRIVATE_TMP[0] / path.relative_to(own)

    def asks_for_network(self, command: str, cwd: Path) -> bool:
        return self._mode == "ask" and self.level != "none" and self._reads.network(command, cwd).reaches

    def hosts_named(self, command: str, cwd: Path) -> frozenset[str]:
        return frozenset() if self.filtered is None else self._reads.network(command, cwd).hosts

    def refusal(self, output: str, *, network: bool, command: str = "", failed: bool = True) -> str:
        if self.level == "none":
            return ""
        if failed and (told := self.guarded_refusal(output)):
            return f"{told} A command that has to, such as one of git, can be run again with outside=true."
        anyway = (Path("/tmp"), Path("/var/tmp"), Path("/dev"))
        writable = (self._workspace, *self._writable, *self._own_caches()[:1], *anyway)
        is_open = self._mode == "on" or (self._mode == "ask" and network)
        return explain(
            output,
            writable,
            self._hidden,
            is_open,
            filtered=self._mode == "filtered",
            command=command,
            failed=failed,
        )

    def withheld_clause(self, note: str) -> str:
        return withheld_clause(note)

    def hosts_refused(self, since: float) -> str:
        return "" if self.filtered is None else refusal_text(self.filtered.refused(since))

    def guarded_refusal(self, output: str) -> str:
        return explain_guarded(output, self.closed_places() or (), self._workspace)

    def closed_places(self) -> tuple[Path, ...] | None:
        """Return guarded paths that are read-only for new commands; None if the sandbox cannot do that."""
        if not self._sandbox.can_protect_parts:
            return None
        return (*found_in(self._finders).read_only, *repository_of(self._workspace).guarded)

    def _own_caches(self) -> tuple[Path, ...]:
        """Return the folder of private caches, which is writable, and the user's caches, which are readable;
        empty if not ready.
        """
        ready = self._caches is not None and self._caches.is_ready
        return (self._caches.folder, *self._caches.shown) if self._caches is not None and ready else ()

    def _folder_variables(self) -> dict[str, str]:
        """Return variables that make programs use the private caches; empty if these are not ready."""
        if self._caches is None or not self._caches.is_ready:
            return {}
        return self._caches.variables(proxied=self.filtered is not None)

    def _secrets(self, environ: Mapping[str, str], more: Iterable[Path]) -> Iterable[Path]:
        yield self._home.root
        for user in dict.fromkeys((Path.home(), Path(environ.get("HOME") or Path.home()))):
            yield from secrets.in_home(user)
        yield from secrets.of_session(environ)
        yield from secrets.of_system()
        yield from more


def _lies_in(path: Path, opened: Sequence[Path]) -> bool:
    """Return whether one of `opened` is `path`, contains it, or is inside it."""
    return any(path.is_relative_to(each) or each.is_relative_to(path) for each in opened)


def _nothing() -> None:
    pass


class _Resolver:
    """A function that resolves paths, and resolves a parent folder that many of them share only once."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def __call__(self, path: Path) -> Path:
        path = path.expanduser()
        if not path.is_absolute() or path.name in ("", ".."):
            return path.resolve()
        folder = str(path.parent)
        real = self._folders.get(folder)
        if real is None:
            real = self._folders[folder] = os.path.realpath(folder)
        place = path if real == folder else Path(real, path.name)
        return place.resolve() if place.is_symlink() else place


def steps_over(action: Action) -> str | None:
    """Return how the action leaves the sandbox, as a clause for the user; None if it stays inside.

    The user is asked each time; an earlier permission does not count.
    """
    if isinstance(action, RunCommand) and action.outside:
        because = f": {action.because}" if action.because else ""
        return f"runs outside the sandbox, with all your rights{because}"
    return None


def widens(action: Action) -> str | None:
    """Return the additional access that the action gets in the sandbox, as a clause; None if it gets none.

    The user may allow it permanently.
    """
    if isinstance(action, RunCommand) and action.network and not action.outside:
        return "runs in the sandbox with the network on"
    return None


_SECONDS = 20.0
_MOST_BYTES = 20_000_000
_ID = re.compile(rb"^([0-9a-f]{40}|[0-9a-f]{64})\t", re.MULTILINE)
_REMOTE = lazy_pattern(r"(?:https?|ssh|git)://.+|[\w.-]+@[\w.-]+:.+")


async def ask_remote(boundary: SessionBoundary, environ: Mapping[str, str], address: str) -> list[str]:
    """Return the ids of the refs in the repository at `address`; empty if it is unreachable or untrusted."""
    try:
        if _REMOTE.fullmatch(address) is None and await asyncio.to_thread(_is_in_reach, boundary, address):
            return []
        return await _remote_ids(boundary, environ, address)
    except (OSError, ToolError, TimeoutError):
        return []


def _is_in_reach(boundary: SessionBoundary, address: str) -> bool:
    """Return whether `address` is a local repository that commands of the session may have changed."""
    path = Path(address.removeprefix("file://"))
    return not path.is_absolute() or boundary.lets_write(path.resolve())


async def _remote_ids(boundary: SessionBoundary, environ: Mapping[str, str], address: str) -> list[str]:
    argv = ["git", "-c", "protocol.ext.allow=never", "ls-remote", "--", address]
    need = Need(permit=_nobody, dies_with_parent=True)
    wrapped = await asyncio.to_thread(boundary.wrap, argv, need)
    variables = child_environment(environ)
    variables = {name: text for name, text in variables.items() if name not in wrapped.unset}
    try:
        process = await start_child(
            wrapped.argv, cwd="/", env={**variables, "GIT_ASKPASS": "false", **wrapped.env}, fds=wrapped.fds
        )
    except OSError:
        await asyncio.to_thread(wrapped.ended)
        raise
    finally:
        wrapped.started()
    output = bytearray()
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_SECONDS):
            while len(output) < _MOST_BYTES and (piece := await process.stdout.read(65_536)):
                output += piece
    finally:
        kill_group(process.pid)
        await process.wait()
        await asyncio.to_thread(wrapped.ended)
    return [each.decode() for each in _ID.findall(bytes(output))]


async def _nobody(action: ReachHost) -> object:
    raise DeniedError("Nobody is asked about a host for this.")

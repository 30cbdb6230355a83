"""The permissions in force: read again when their files change, and never loosened by a mistake in a file."""

from __future__ import annotations

import os
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from agent.core.config import settings_file, trust
from agent.core.config.problem import SettingProblem
from agent.core.event_data import VerdictPart
from agent.core.home import Home
from agent.core.messages import Mode, ModeName, canonical, stricter
from agent.safety import rules
from agent.safety.assessor import Assessor
from agent.safety.effects import effects_of
from agent.safety.guarded import guard, guarded_reason
from agent.safety.hardline import Hardline
from agent.safety.permissions.file import PermissionFile, parse_file
from agent.safety.permissions.subjects import (
    KNOWN_TOOLS,
    Origin,
    PermissionRule,
    RuleFindings,
    RuleSet,
    RuleSubject,
    Setting,
)
from agent.safety.places import Places, absolute, cached_paths, joined
from agent.safety.programs.table import programs
from agent.safety.read_only_commands import programs_that_look
from agent.safety.reader.expansion import Command, Reading
from agent.safety.reader.tree import GLOBS, UNKNOWN, literal, pattern, words
from agent.safety.rules import DELETERS, OWNERS, SEVERITY, WRITERS, Judge, ProgramCall, UndoCoverage, Verdict
from agent.safety.sandbox.boundary import NO_COVERAGE, BoundaryCoverage, steps_over, widens
from agent.safety.scope import Scope, is_secret
from agent.safety.typed_input import as_command, follows
from agent.workspace.checkpoints.git_settings import known_commands, may_go, passes
from tools.services.actions import (
    Action,
    ChangeFiles,
    ChangeSettings,
    DeletePath,
    Fetch,
    ReadPath,
    RunCommand,
    RunScript,
    SearchWeb,
    SendInput,
    SetGitSettings,
    SpawnAgent,
    WritePath,
)

PLAN = "plan mode only reads; leave it with /mode to make changes"
OFF = "actions that need approval are switched off"
STAYS = "no request leaves this machine in this mode"
_EDITS = ("changes files of the workspace, which undo brings back",)


class Defaults:
    """The verdicts of the modes where no rule decides, for one workspace.

    `assessor` judges commands, `scope` files. `guarded` is true if guarded files are protected from scripts
    in the sandbox.
    """

    def __init__(
        self, setting: Setting, scratch: Path | None, assessor: Assessor, scope: Scope, *, guarded: bool
    ) -> None:
        self._setting = setting
        self._scratch = scratch
        self._assessor = assessor
        self._scope = scope
        self._guarded = guarded

    def verdict(self, mode: Mode, action: Action) -> Verdict:
        """Return the verdict that the mode has for an action.

        In mode `deny` this asks about every effect; the decider turns asking into denying.
        """
        if (
            isinstance(action, ReadPath)
            and self._needs_no_permission(action.path)
            and not is_secret(str(action.path))
        ):
            return Verdict("allow", ("reading inside the workspace",))
        if isinstance(action, RunCommand):
            return self._command(mode, action)
        if isinstance(action, (Fetch, SearchWeb)) and mode in ("plan", "deny"):
            return Verdict("deny", (PLAN if mode == "plan" else OFF, STAYS))
        if mode == "yolo" and not isinstance(action, ChangeSettings):
            return Verdict("allow", ("yolo mode lets everything pass that nothing forbids",))
        declared = action.effect
        looks = isinstance(action, (ReadPath, SpawnAgent)) or (declared and declared.is_looking)
        if mode == "plan" and not looks:
            return Verdict("deny", (PLAN,))
        found = self._by_effect(action)
        if mode != "normal" and found.kind == "allow":
            return Verdict("ask", self._why(action), found.parts)
        return found

    def _command(self, mode: Mode, action: RunCommand) -> Verdict:
        assessment = self._assessor.assess(action.command, action.cwd)
        verdict = assessment.verdict
        if verdict.kind == "hardline":
            return verdict
        if mode == "yolo":
            return Verdict("allow", ("yolo mode lets everything pass that nothing forbids",), verdict.parts)
        if verdict.kind == "allow" and assessment.is_read_only:
            return verdict
        if mode == "plan":
            return Verdict("deny", (PLAN, *(verdict.reasons if verdict.kind == "ask" else ())), verdict.parts)
        if mode != "normal" and verdict.kind == "allow":
            return Verdict("ask", self._why(action), verdict.parts)
        return verdict if verdict.reasons or verdict.kind == "allow" else Verdict("ask", self._why(action))

    def _by_effect(self, action: Action) -> Verdict:
        """Return the verdict of mode `normal` on any action except a command."""
        if action.effect is not None:
            return Verdict(action.effect.default, (action.effect.why,))
        match action:
            case WritePath():
                reason = self._scope.write(str(action.path))
                return Verdict("ask", (reason,)) if reason else Verdict("allow", _EDITS)
            case DeletePath():
                reason = self._scope.delete(str(action.path), recursive=True)
                return Verdict("ask", (reason,)) if reason else Verdict("allow", _EDITS)
            case SpawnAgent():
                return Verdict("allow", ("what another agent does is asked for by itself",))
            case RunScript() if action.sandboxed and not self._guarded:
                return Verdict("ask", ("could change what runs something later, and nothing would undo it",))
            case RunScript() if action.sandboxed:
                return Verdict("allow", ("it runs in the sandbox; its calls are asked for by themselves",))
            case Fetch() if _is_listed(action.url):
                return Verdict("allow", ("reads from a host on the list",))
            case SendInput():
                return self._typed(action)
            case _:
                return Verdict("ask", self._why(action))

    def _typed(self, action: SendInput) -> Verdict:
        """Judge typed input. It always needs permission, because the program's state is unknown."""
        typed = self._assessor.assess(as_command(action, self._setting.home), self._setting.workspace).verdict
        if typed.kind == "hardline":
            return typed
        reasons = typed.reasons if typed.kind == "ask" else ()
        return Verdict("ask", ("types into a running program", *reasons), typed.parts)

    def _why(self, action: Action) -> tuple[str, ...]:
        """Return reasons why the action needs permission, for the user."""
        outside = "" if self._inside(action) else ", outside the workspace"
        if action.effect is not None:
            return (action.effect.why,)
        match action:
            case RunCommand():
                return (f"runs a command{outside}",)
            case ReadPath():
                if is_secret(str(action.path)):
                    return (f"reads secrets{outside}",)
                return (f"reads a file or folder{outside}",)
            case WritePath():
                return (f"{'creates' if action.creates else 'changes'} a file{outside}",)
            case DeletePath():
                return (f"deletes a file{outside}",)
            case Fetch():
                return ("reaches the network",)
            case ChangeSettings():
                return ("changes Hermes' own settings",)
            case SpawnAgent():
                return ("starts another agent",)
            case SendInput():
                return ("types into a running program",)
            case RunScript():
                return (
                    "runs a program outside of the sandbox" if not action.sandboxed else "runs a program",
                )
            case _:
                return (f"is an action of {action.tool} the gate does not know",)

    def _needs_no_permission(self, path: Path) -> bool:
        """Return whether reading this path needs no permission."""
        folders = (self._setting.workspace, self._scratch)
        return any(folder is not None and path.is_relative_to(folder) for folder in folders)

    def _inside(self, action: Action) -> bool:
        path = getattr(action, "path", None) or getattr(action, "cwd", None)
        return path is None or path.is_relative_to(self._setting.workspace)


def _is_listed(address: str) -> bool:
    """Return whether an address uses https on its default port to a listed host."""
    try:
        parts = urlsplit(address)
        return parts.scheme == "https" and rules.is_known(parts.hostname or "") and parts.port in (None, 443)
    except ValueError:
        return False


_WRITERS = (
    WRITERS
    | DELETERS
    | OWNERS
    | words("touch mkdir rmdir dd curl wget tar unzip patch ed ex vi vim nano shred")
)
_WHOLE = DELETERS | words("mv rsync rmdir")
"""Programs that affect everything inside a folder."""
_NOWHERE = Places("/")
_PLACERS = words("cp mv ln install rsync scp")
"""Programs that can put a file into a folder under its own name."""
_GIT_ASKS = words("--get --get-all --get-regexp --list -l --show-origin get list")


_GIT_BRINGS = words(
    "checkout switch restore reset pull merge rebase cherry-pick revert stash am apply submodule worktree "
    "sparse-checkout bisect read-tree checkout-index"
)


def brings_files(reading: Reading) -> bool:
    """Return whether a command makes git write other versions of files into the work tree.

    Git would stop half-way if it could not write one of them. So it may write guarded files, which are
    checked afterwards.
    """
    return any(
        command.name == "git" and not _GIT_BRINGS.isdisjoint(command.arguments)
        for command in reading.commands
    )


def folder_deletion_test(reading: Reading) -> Callable[[Path], bool]:
    """Return a function that tests whether the command deletes a folder with its content, by name or glob."""
    found = [(each.cwds, effects_of(each, programs())) for each in reading.commands if each.name in DELETERS]
    named = [absolute(joined(cwd, path)) for cwds, does in found for path in does.deletes for cwd in cwds]
    places = [tuple(map(pattern, path.split("/")[1:])) for path in named if UNKNOWN not in path]

    def deletes(folder: Path) -> bool:
        names = folder.parts[1:]
        return any(
            len(each) == len(names)
            and all(one.fullmatch(name) for one, name in zip(each, names, strict=True))
            for each in places
        )

    return deletes


class Protection:
    """The guarded files and folders of one workspace. `own` is Hermes's home folder."""

    def __init__(self, setting: Setting, own: Path | None) -> None:
        self._setting = setting
        self._own = own

    def reason(self, action: Action) -> str | None:
        """Return why the action needs permission in every mode, as a clause for the user; or None."""
        setting = self._setting
        if isinstance(action, (RunCommand, SendInput)):
            return next((reason for reason, _ in self._command(action)), None)
        return guarded_reason(action, setting.workspace, setting.home, own=self._own)

    def guarded_paths(self, action: Action) -> tuple[Path, ...]:
        """Return the guarded paths that the action is known to change. Permission for it covers them."""
        if isinstance(action, (RunCommand, SendInput)):
            return tuple(Path(literal(path)) for _, path in self._command(action))
        writes = action.writes() if isinstance(action, ChangeFiles) else (action,)
        paths = (
            each.path for each in writes if isinstance(each, (WritePath, DeletePath)) and self.reason(each)
        )
        return tuple(paths)

    def _command(self, action: RunCommand | SendInput) -> Iterator[tuple[str, str]]:
        """Yield a reason and the marked path for each guarded file that a command changes."""
        setting = self._setting
        text = action.command if isinstance(action, RunCommand) else follows(action, setting.home)
        cwd = action.cwd if isinstance(action, RunCommand) else setting.workspace
        reading = setting.reading(text, cwd)
        guarded = guard(setting.workspace, setting.home, self._own)
        for command in reading.commands:
            if command.name == "git" and _sets(command):
                yield from (
                    ("changes settings of Git, which can run programs", f"{each}/.git")
                    for each in (*command.cwds, setting.workspace)
                )
            if keys := _known_settings(command):
                named = ", ".join(f"git-config({key})" for key in keys)
                yield from ((f"sets {named}, and hooks", f"{each}/.git") for each in command.cwds)
        touched = (("changes", path, cwds, False) for path, cwds in reading.writes)
        for does, word, cwds, whole in chain(touched, _writes(reading.commands)):
            for folder in cwds:
                path = joined(folder, word)
                # If the folder is unknown, the known names count.
                path = path if path.startswith("/") else f"/{path}"
                if reason := guarded.reason(does, path, whole=whole):
                    yield reason, path


Written = tuple[str, str, tuple[str, ...], bool]
"""A verb, a path as written, its possible current folders, and whether everything inside is affected."""


def _writes(commands: tuple[Command, ...]) -> Iterator[Written]:
    for command in commands:
        if command.name in _WRITERS and not (command.name in ("sed", "perl") and not _in_place(command)):
            whole = command.name in _WHOLE
            does = "deletes" if command.name in DELETERS else "changes"
            for word in command.arguments:
                if not word.startswith("-"):
                    yield does, word, command.cwds, whole
                if "=" in word and (rest := word.partition("=")[2]):
                    yield does, rest, command.cwds, whole
        if command.name in _PLACERS:
            for path in _landings(command):
                yield "changes", path, command.cwds, True


def _landings(command: Command) -> Iterator[str]:
    """Yield the paths that copied or moved files get if the target is a folder."""
    line = ProgramCall(command.name, command.arguments, "/", _NOWHERE)
    operands = line.operands("tS")
    target = line.value("t", "target-directory")
    for option, following in pairwise(command.arguments):
        if re.fullmatch(r"-[A-Za-su-z]+t", option):
            target = following
    if target is None and len(operands) > 1:
        target = operands.pop()
    folder = f"{target.rstrip('/')}/" if target else ""
    for source in operands if target else ():
        name = source.rstrip("/").rpartition("/")[2]
        if name not in ("", ".", ".."):
            yield folder + name


def _known_settings(command: Command) -> tuple[str, ...]:
    """Return Git settings that a known command makes without naming them: `git lfs install --local`."""
    if not command.name.startswith("git"):
        return ()
    words = (*command.name.split("-", 1), *command.arguments)
    said = [word for word in words if not word.startswith("-")]
    for known, keys in known_commands().items():
        options = {word for word in known if word.startswith("-")}
        if said[: len(known) - len(options)] == [*known[: len(known) - len(options)]] and options <= {*words}:
            return keys
    return ()


def _in_place(command: Command) -> bool:
    return any(
        word.startswith(("-i", "--in-place")) or (word[:1] == "-" and "i" in word)
        for word in command.arguments
    )


def _sets(command: Command) -> bool:
    """Return whether a `git config` command changes a setting in a way that needs permission."""
    arguments = [word for word in command.arguments if word]
    if "config" not in arguments:
        return False
    rest = arguments[arguments.index("config") + 1 :]
    rest = rest[1:] if rest[:1] == ["--local"] else rest
    operands = [word for word in rest if not word.startswith("-")]
    gone = {"--unset", "--unset-all", "unset"}
    if gone & set(rest) and len(keys := [word for word in operands if word != "unset"]) == 1:
        return not may_go(keys[0])
    if len(operands) == 2 and not set(rest) - {*operands, "--add", "--replace-all"} and passes(*operands):
        return False
    writes = {
        "--unset",
        "--unset-all",
        "--add",
        "--edit",
        "-e",
        "--replace-all",
        "--remove-section",
        "set",
        "unset",
    }
    return bool(writes & set(rest)) or (len(operands) >= 2 and not _GIT_ASKS & set(rest))


USER: Origin = "permissions.yaml"
PROJECT: Origin = ".hermes/permissions.yaml"

_SETTLED = 0.1
"""Seconds after which a change to a file certainly shows in its times."""

Stamp = tuple[int, ...] | None
Signature = tuple[Stamp, ...]


@dataclass(frozen=True, slots=True)
class PermissionPolicy:
    """The content of the permission files, as it applies to one user interface."""

    rules: RuleSet
    mode: Mode | None = None
    """The mode in the user's file; None if it names none."""
    project_mode: Mode | None = None
    """The mode requested by a trusted project; it counts only if stricter than the user's."""
    floor: Mode | None = None
    """The most permissive mode that applies because of a mistake in the user's file or a group chat."""
    problems: tuple[SettingProblem, ...] = ()
    project: str = "none"
    """The state of the project's file: `trusted`, `untrusted`, or `none` without a file."""

    def opens(self, action: Fetch) -> bool:
        """Return whether the user's file permits an address that is otherwise never requested."""
        return any(
            rule.verdict == "allow" and rule.origin == USER and rule.subject.opens(action)
            for rule in self.rules.rules
        )

    def mode_from(self, configured: Mode, chosen: Mode | None = None) -> Mode:
        """Return the mode in force: the session's, else the files', else `configured`; limited by `floor`."""
        mode = self.mode or configured
        if self.project_mode is not None:
            mode = stricter(mode, self.project_mode)
        mode = chosen or mode
        return stricter(mode, self.floor) if self.floor is not None else mode


class Permissions:
    """The permissions of one workspace and user interface, kept up to date. Thread-safe.

    Each use checks whether the files changed, without reading them. If a file has a mistake, its new rules
    that ask and deny are added to its previous ones, and nothing it allows counts.
    """

    def __init__(
        self,
        home: Home,
        workspace: Path,
        surface: str = "",
        tools: Iterable[str] = (),
        person: Path | None = None,
        project: Path | None = None,
        allow: Iterable[str] = (),
    ) -> None:
        """Set up the permissions. `project` is the original folder if `workspace` is a copy of it. `allow`
        are rules that allow in addition to those of the files. Raises `ValueError` for an invalid rule.
        """
        self._home = home
        self._surface = surface
        self._workspace = project or workspace
        self._root = trust.project_root(self._workspace)
        self.setting = Setting(workspace, person or Path.home(), KNOWN_TOOLS | frozenset(tools))
        self._given = tuple(
            PermissionRule(text, "allow", RuleSubject(text, self.setting), "the job", 0) for text in allow
        )
        self._strict: dict[Origin, tuple[PermissionRule, ...]] = {}
        """The rules that ask or deny, from the last state of each file that had no mistakes."""
        self._lock = threading.Lock()
        self._signature: Signature | None = None
        self._policy: PermissionPolicy | None = None

    @property
    def stale(self) -> bool:
        """Return whether the next call of `current` has to read files."""
        return self._policy is None or self._signature is None or self._signature != self._signature_now()

    @property
    def last(self) -> PermissionPolicy | None:
        """Return the policy that was read last; None if none was read yet."""
        return self._policy

    def current(self) -> PermissionPolicy:
        """Return the policy in force, read again if a file changed. Never raises for a file's content."""
        policy = self._policy
        if policy is not None and not self.stale:
            return policy
        with self._lock:
            now = time.time_ns()
            signature = self._signature_now()
            self._policy = policy = self._read()
            # A second change within one tick of the file system's clock would not be noticed.
            fresh = any(stamp is not None and now - stamp[0] < _SETTLED * 1e9 for stamp in signature)
            self._signature = None if fresh else signature
            return policy

    def files(self) -> tuple[PermissionFile, PermissionFile]:
        """Read and return the user's and the project's file as they are now, whether in force or not."""
        return self._user_file(), self._project_file()[0]

    def _signature_now(self) -> Signature:
        ours = (self._home.permissions, self._home.trust)
        return tuple(_stamp(path) for path in (*ours, *trust.watched_paths(self._root)))

    def _read(self) -> PermissionPolicy:
        own = self._user_file()
        project, state = self._project_file()
        rules = (*self._in_force(own, USER), *self._in_force(project, PROJECT, widens=state == "trusted"))
        here = [rule for rule in rules if rule.surface in ("", *self._surfaces())] + list(self._given)
        floor: Mode | None = None
        if not own.readable and USER not in self._strict:
            floor = "careful"  # its denials are unknown
        elif not own.sound:
            floor = "normal"
        if self._surface.endswith(".group") and self._surface not in own.modes:
            # Other members of a group read along, and may influence the agent.
            floor = "careful"
        problems = (*own.problems, *project.problems)
        mode, wanted = self._mode_of(own), self._mode_of(project) if state == "trusted" else None
        return PermissionPolicy(RuleSet(here, self.setting), mode, wanted, floor, problems, state)

    def _mode_of(self, file: PermissionFile) -> Mode | None:
        for each in self._surfaces():
            if (mode := file.modes.get(each)) is not None:
                return mode
        return file.mode

    def _surfaces(self) -> tuple[str, ...]:
        """Return the user interface and its kinds, most specific first: `gateway.slack`, `gateway`."""
        parts = self._surface.split(".")
        return tuple(".".join(parts[:end]) for end in range(len(parts), 0, -1))

    def _in_force(
        self, file: PermissionFile, origin: Origin, *, widens: bool = True
    ) -> tuple[PermissionRule, ...]:
        if file.sound:
            rules = file.rules
            self._strict[origin] = tuple(rule for rule in rules if rule.verdict != "allow")
        else:
            rules = (*self._strict.get(origin, ()), *file.rules)
            widens = False
        if widens:
            return tuple(rules)
        strict = (rule for rule in rules if rule.verdict != "allow")
        # The user must not be addressed with the words of a project's author.
        return tuple(replace(rule, reason="") if origin == PROJECT else rule for rule in strict)

    def _user_file(self) -> PermissionFile:
        try:
            content = settings_file.read_file(self._home.permissions)
        except settings_file.UnreadableSettingsError as error:
            return _unreadable(USER, str(error))
        if content is None and self._home.permissions.is_symlink():
            # The denying rules may be at the link's target.
            return _unreadable(USER, "it is a link that leads nowhere")
        return PermissionFile() if content is None else parse_file(content, USER, self.setting)

    def _project_file(self) -> tuple[PermissionFile, str]:
        try:
            project = trust.read_project(self._home, self._workspace)
        except settings_file.UnreadableSettingsError as error:
            return _unreadable(PROJECT, str(error)), "untrusted"
        if project is None or project.permissions is None:
            return PermissionFile(), "none"
        file = parse_file(project.permissions, PROJECT, self.setting)
        return file, "trusted" if trust.is_trusted(self._home, project) else "untrusted"


def _unreadable(origin: Origin, reason: str) -> PermissionFile:
    return PermissionFile(problems=(SettingProblem(origin, f"it is not read: {reason}."),), readable=False)


def _stamp(path: Path) -> Stamp:
    """Return values that change with a file, first the newest of its times in nanoseconds; None if it is
    missing.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - as cheap as it gets
    except OSError:
        return None
    newest = max(status.st_mtime_ns, status.st_ctime_ns)
    return newest, status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev, status.st_mode


Granted = Callable[[Action], str | None]
"""A function that returns why an earlier permission allows an action; None if none does."""

_PASSES_PLAIN: tuple[Mode, ...] = ("normal", "deny")
_NAMED = 3
"""The number of files that a reason names."""
_NO_GRANTS: tuple[Mode, ...] = ("plan", "deny")
"""Modes in which earlier permissions do not count."""


class AgentFolders(NamedTuple):
    """The folders in which an agent may work, and Hermes's home folder, in which it may not."""

    workspace: Path
    scratch: Path | None = None
    own: Path | None = None
    """Hermes's home folder."""


class Decider:
    """The part of the gate that decides about actions of one session without asking the user. Thread-safe.

    `mode` comes from the settings; `chosen` is a mode for this session that overrides settings and files.
    `coverage` is the protection by the boundary, `undo` the files that checkpoints can restore.
    """

    def __init__(
        self,
        folders: AgentFolders,
        places: Places,
        *,
        mode: ModeName,
        chosen: ModeName | None,
        permissions: Permissions | None,
        coverage: BoundaryCoverage = NO_COVERAGE,
        undo: UndoCoverage | None = None,
    ) -> None:
        workspace, scratch, own = folders
        self.permissions = permissions
        self._configured: Mode = canonical(mode)
        self._chosen: Mode | None = None if chosen is None else canonical(chosen)
        self._leader: Decider | None = None
        self._workspace = workspace
        self._places = places
        self._hardline = Hardline(places)
        setting = permissions.setting if permissions is not None else Setting(workspace, Path(places.home))
        self._empty = PermissionPolicy(RuleSet((), setting))
        self._protection = Protection(setting, own)
        undo = undo or UndoCoverage()
        self._assessor = Assessor(places, workspace, scratch, own, coverage, undo)
        scope = Scope(places, workspace, scratch, own, undo, own_tmp=coverage.level != "none")
        self._defaults = Defaults(setting, scratch, self._assessor, scope, guarded=coverage.guards_places)

    @property
    def policy(self) -> PermissionPolicy:
        """The permissions in force; reads their files again if these have changed."""
        return self._empty if self.permissions is None else self.permissions.current()

    @property
    def mode(self) -> Mode:
        """The mode in force."""
        return self.policy.mode_from(self._configured, self.chosen_mode)

    @property
    def chosen_mode(self) -> Mode | None:
        """The mode chosen for the session; None if none was chosen."""
        return self._chosen if self._leader is None else self._leader.chosen_mode

    def choose(self, name: ModeName) -> None:
        """Choose a mode for the rest of the session."""
        self._chosen = canonical(name)

    def follow(self, leader: Decider) -> None:
        """Use the mode chosen in the decider `leader` from now on."""
        self._leader = leader

    def guards(self, action: Action) -> str | None:
        """Return why the user must be asked each time, despite grants; None if grants count."""
        if isinstance(action, ChangeFiles):
            return next(filter(None, map(self._protection.reason, action.writes())), None)
        if isinstance(action, SetGitSettings) and action.effect is not None:
            return action.effect.why
        return steps_over(action) or self._protection.reason(action)

    def programs_that_look(self, action: RunCommand) -> frozenset[str] | None:
        """Return the names of the programs in a command that certainly changes no file; None if it may."""
        return programs_that_look(self._assessor, action.command, action.cwd, self._places.home)

    def places(self, action: Action) -> tuple[Path, ...]:
        """Return the guarded paths that permission for the action covers; a folder includes its content."""
        return (Path("/"),) if steps_over(action) else self._protection.guarded_paths(action)

    def decide(self, action: Action, granted: Granted) -> tuple[Verdict, Judge]:
        """Return the verdict and the name of what made it. `granted` returns why an earlier permission covers
        an action, or None.
        """
        with cached_paths():
            if isinstance(action, ChangeFiles):
                return self._restoring(action)
            if isinstance(action, SetGitSettings) and len(action.keys) > 1:
                found = [self.decide(each, granted) for each in action.singles()]
                return max(found, key=lambda each: SEVERITY.index(each[0].kind))
            return self._decide(action, granted)

    def _restoring(self, action: ChangeFiles) -> tuple[Verdict, Judge]:
        """Return the strictest verdict on the files to restore. Grants for single files do not count."""
        found = [(*self._decide(each, _nothing_granted), each.path) for each in action.writes()]
        if not found:
            return Verdict("allow", ("nothing would change",)), "mode"
        kind = SEVERITY[max(SEVERITY.index(verdict.kind) for verdict, _, _ in found)]
        strictest = [each for each in found if each[0].kind == kind]
        judge: Judge = "rule" if any(judge == "rule" for _, judge, _ in strictest) else strictest[0][1]
        named: dict[str, list[Path]] = {}
        for verdict, _, path in strictest:
            for reason in verdict.reasons:
                named.setdefault(reason, []).append(path)
        said = (
            reason if len(paths) == len(found) else f"{reason} ({_some(paths)})"
            for reason, paths in named.items()
        )
        why = (action.why,) if kind == "ask" else ()
        return Verdict(kind, tuple(dict.fromkeys((*why, *said)))), judge

    def _decide(self, action: Action, granted: Granted) -> tuple[Verdict, Judge]:
        if reasons := self._forbidden_reasons(action):
            return Verdict("hardline", reasons), "rule"
        policy = self.policy
        mode = policy.mode_from(self._configured, self.chosen_mode)
        found = policy.rules.findings(action)
        if found.denied:
            return Verdict("deny", found.denied, found.parts), "rule"
        default = self._defaults.verdict(mode, action)
        if default.kind == "hardline":
            return default, "rule"
        if default.kind == "deny":
            return default, "mode"
        if isinstance(action, SetGitSettings) and (allowed := policy.rules.allowed(action, None)):
            return Verdict("allow", allowed), "rule"
        guarded = self.guards(action)
        may_grant = mode not in _NO_GRANTS and not guarded
        wider = widens(action)
        if guarded or wider or found.doubtful or (found.asked and mode != "yolo"):
            if may_grant and (reason := granted(action)):
                return Verdict("allow", (reason,)), "grant"
            said = default if not guarded or isinstance(action, RunCommand) else Verdict("ask")
            if isinstance(action, RunCommand) and not said.parts:
                said = replace(said, parts=self._assessor.assess(action.command, action.cwd).verdict.parts)
            return _ask_verdict(mode, found, guarded or wider, said), "rule"
        if default.kind == "allow":
            return default, "mode"
        if may_grant and (reason := granted(action)):
            return Verdict("allow", (reason,)), "grant"
        if mode != "plan" or isinstance(action, ReadPath):
            plain = self._is_plain if mode in _PASSES_PLAIN else None
            if allowed := policy.rules.allowed(action, plain):
                return Verdict("allow", allowed), "rule"
        if mode == "deny":
            return Verdict("deny", (OFF, *default.reasons), default.parts), "mode"
        return default, "mode"

    def _is_plain(self, command: Command) -> bool:
        """Return whether one command on its own needs no permission."""
        words = (command.word, *command.arguments)
        if any(mark in word for word in words for mark in (*GLOBS, UNKNOWN)):
            return False
        text = shlex.join(words)
        return all(self._assessor.assess(text, Path(cwd)).verdict.kind == "allow" for cwd in command.cwds)

    def _forbidden_reasons(self, action: Action) -> tuple[str, ...]:
        """Return the reasons why the action is forbidden in every mode; empty if it is not."""
        places = self._places
        match action:
            case RunCommand():
                return self._hardline.check(action.command, action.cwd)
            case SendInput():
                return self._hardline.check(follows(action, Path(places.home)), self._workspace)
            case ReadPath() if places.hides(str(action.path)):
                return ("it holds keys or stored conversations",)
            case WritePath():
                loss = places.wreck(str(action.path))
                return (f"it would overwrite {loss}",) if loss else ()
            case DeletePath():
                loss = places.disaster(str(action.path)) or places.wreck(str(action.path))
                return (f"it would delete {loss}",) if loss else ()
            case _:
                return ()


def _nothing_granted(_: Action) -> None:
    return None


def _some(paths: Sequence[Path]) -> str:
    shown = ", ".join(str(path) for path in paths[:_NAMED])
    return shown if len(paths) <= _NAMED else f"{shown} and {len(paths) - _NAMED:,} more"


def _ask_verdict(mode: Mode, found: RuleFindings, guarded: str | None, default: Verdict) -> Verdict:
    """Return a verdict that asks, or denies in mode `deny`, with all reasons, those of the rules first."""
    asked = found.asked if mode != "yolo" else ()
    doubts = default.reasons if default.kind == "ask" else ()
    reasons = (*((guarded,) if guarded else ()), *found.doubtful, *asked, *doubts)
    parts = _merged(found.parts, default.parts)
    if mode == "deny":
        return Verdict("deny", (OFF, *reasons), parts)
    return Verdict("ask", tuple(dict.fromkeys(reasons)), parts)


def _merged(one: Sequence[VerdictPart], other: Sequence[VerdictPart]) -> tuple[VerdictPart, ...]:
    """Merge two verdicts on the parts of a command; the stricter one counts for each part."""
    found: dict[str, VerdictPart] = {part.text: part for part in other}
    for part in one:
        known = found.get(part.text)
        if known is None or SEVERITY.index(part.kind) >= SEVERITY.index(known.kind):
            found[part.text] = part
    return tuple(found.values())

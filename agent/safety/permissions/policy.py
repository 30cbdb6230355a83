"""The permissions in force: read again when the files change, and never loosened by a mistake in a file."""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from agent.core.config import settings_file, trust
from agent.core.config.problem import SettingProblem
from agent.core.event_data import VerdictPart
from agent.core.home import Home
from agent.core.messages import Mode, ModeName, canonical, stricter
from agent.safety.assessor import Assessor
from agent.safety.hardline import Hardline
from agent.safety.permissions.defaults import OFF, Defaults, Protection
from agent.safety.permissions.file import PermissionFile, parse_file
from agent.safety.permissions.rules import Origin, PermissionRule, RuleFindings, RuleSet
from agent.safety.permissions.subjects import KNOWN_TOOLS, RuleSubject, Setting
from agent.safety.places import Places, cached_paths
from agent.safety.reader.state import Command
from agent.safety.reader.tree import GLOBS, UNKNOWN
from agent.safety.sandbox.boundary import NO_COVERAGE, BoundaryCoverage, steps_over, widens
from agent.safety.scope import Scope
from agent.safety.typed_input import follows
from agent.safety.verdict import SEVERITY, Judge, UndoCoverage, Verdict
from tools.services.actions import (
    Action,
    ChangeFiles,
    DeletePath,
    Fetch,
    ReadPath,
    RunCommand,
    SendInput,
    SetGitSettings,
    WritePath,
)

USER: Origin = "permissions.yaml"
PROJECT: Origin = ".hermes/permissions.yaml"

_SETTLED = 0.1
"""Seconds after which a change of a file certainly shows in its times."""

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
    """Set while the user's file has a mistake: modes more permissive than this do not apply."""
    problems: tuple[SettingProblem, ...] = ()
    project: str = "none"
    """`trusted`, `untrusted` or `none`, as for settings."""

    def opens(self, action: Fetch) -> bool:
        """Return whether the user's file allows an address that is otherwise never requested."""
        return any(
            rule.verdict == "allow" and rule.origin == USER and rule.subject.opens(action)
            for rule in self.rules.rules
        )

    def mode_from(self, configured: Mode, chosen: Mode | None = None) -> Mode:
        """Return the mode in force: chosen for the session, else from the files, else from the settings."""
        mode = self.mode or configured
        if self.project_mode is not None:
            mode = stricter(mode, self.project_mode)
        mode = chosen or mode
        return stricter(mode, self.floor) if self.floor is not None else mode


class Permissions:
    """The permissions of one workspace and user interface, kept up to date. Thread-safe.

    Each use checks whether the files changed, without reading them. If one has a mistake, its new rules that
    ask and deny are added to its previous ones, and nothing it allows counts.
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
        """Set up the permissions. `project` is the folder of the project file if `workspace` is a copy of it.

        `allow` are rules that allow in addition to those of the files. Raises `ValueError` for an invalid
        rule.
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
        """The asking and denying rules of each file's last correct state."""
        self._lock = threading.Lock()
        self._signature: Signature | None = None
        self._policy: PermissionPolicy | None = None

    @property
    def stale(self) -> bool:
        """Return whether the next call of `current` has to read files."""
        return self._policy is None or self._signature is None or self._signature != self._look()

    @property
    def last(self) -> PermissionPolicy | None:
        """Return the policy that was read last; None before the first reading."""
        return self._policy

    def current(self) -> PermissionPolicy:
        """Return the current policy. Never raises, whatever a file contains."""
        policy = self._policy
        if policy is not None and not self.stale:
            return policy
        with self._lock:
            now = time.time_ns()
            signature = self._look()
            self._policy = policy = self._read()
            # A second change within one tick of the file system's clock would not show.
            fresh = any(stamp is not None and now - stamp[0] < _SETTLED * 1e9 for stamp in signature)
            self._signature = None if fresh else signature
            return policy

    def files(self) -> tuple[PermissionFile, PermissionFile]:
        """Read the user's and the project's file as they are now, in force or not."""
        return self._user_file(), self._project_file()[0]

    def _look(self) -> Signature:
        ours = (self._home.permissions, self._home.trust)
        return tuple(_stamp(path) for path in (*ours, *trust.watched_paths(self._root)))

    def _read(self) -> PermissionPolicy:
        own = self._user_file()
        project, state = self._project_file()
        rules = (*self._in_force(own, USER), *self._in_force(project, PROJECT, widens=state == "trusted"))
        here = [rule for rule in rules if rule.surface in ("", *self._surfaces())] + list(self._given)
        floor: Mode | None = None
        if not own.readable and USER not in self._strict:
            floor = "careful"  # what it denies is not known
        elif not own.sound:
            floor = "normal"
        if self._surface.endswith(".group") and self._surface not in own.modes:
            # Others read along, and may talk it into something.
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
        """Return the user interface and its kinds, narrowest first: `gateway.slack`, `gateway`."""
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
        # A stranger's words do not speak to the person who is asked.
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
"""A function returning why an earlier permission allows an action; None if none does."""

_PASSES_PLAIN: tuple[Mode, ...] = ("normal", "deny")
_NAMED = 3
"""The number of files a reason names."""
_NO_GRANTS: tuple[Mode, ...] = ("plan", "deny")
"""Modes in which earlier permissions do not count."""


class AgentFolders(NamedTuple):
    """The folders that are an agent's own to work in, and the home of Hermes, which is not."""

    workspace: Path
    scratch: Path | None = None
    own: Path | None = None
    """The home of Hermes."""


class Decider:
    """Decides about actions of one session without asking the user. Thread-safe.

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
        """The permissions in force."""
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
        """Use the mode chosen in `leader` from now on."""
        self._leader = leader

    def guards(self, action: Action) -> str | None:
        """Return why the user must be asked each time, despite grants; None if that is not needed."""
        if isinstance(action, ChangeFiles):
            return next(filter(None, map(self._protection.reason, action.writes())), None)
        if isinstance(action, SetGitSettings) and action.effect is not None:
            return action.effect.why
        return steps_over(action) or self._protection.reason(action)

    def places(self, action: Action) -> tuple[Path, ...]:
        """Return the guarded paths that permission for the action covers; a folder covers its content."""
        return (Path("/"),) if steps_over(action) else self._protection.guarded_paths(action)

    def decide(self, action: Action, granted: Granted) -> tuple[Verdict, Judge]:
        """Return the verdict and who made it. `granted` returns why an earlier permission applies to an
        action.
        """
        with cached_paths():
            if isinstance(action, ChangeFiles):
                return self._restoring(action)
            if isinstance(action, SetGitSettings) and len(action.keys) > 1:
                found = [self.decide(each, granted) for each in action.singles()]
                return max(found, key=lambda each: SEVERITY.index(each[0].kind))
            return self._decide(action, granted)

    def _restoring(self, action: ChangeFiles) -> tuple[Verdict, Judge]:
        """Return the strictest verdict on the files to restore; grants for single files do not add up."""
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
        """Return whether one command, judged alone, needs no permission."""
        words = (command.word, *command.arguments)
        if any(mark in word for word in words for mark in (*GLOBS, UNKNOWN)):
            return False
        text = shlex.join(words)
        return all(self._assessor.assess(text, Path(cwd)).verdict.kind == "allow" for cwd in command.cwds)

    def _forbidden_reasons(self, action: Action) -> tuple[str, ...]:
        """Return why the action is forbidden in every mode; empty if it is not."""
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
    """Return a verdict that asks, with all reasons, those of the rules first."""
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

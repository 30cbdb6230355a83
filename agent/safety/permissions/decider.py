"""The verdict on an action: hardline, rules, self-protection, grants and the mode, in that order."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from agent.core.event_data import VerdictPart
from agent.core.modes import Mode, ModeName, canonical
from agent.safety.assessor import Assessor
from agent.safety.hardline import Hardline
from agent.safety.path_cache import cached_paths
from agent.safety.permissions.defaults import OFF, Defaults
from agent.safety.permissions.policy import PermissionPolicy, Permissions
from agent.safety.permissions.protection import Protection
from agent.safety.permissions.rules import RuleFindings, RuleSet
from agent.safety.permissions.subjects import Setting
from agent.safety.places import Places
from agent.safety.reader.marks import GLOBS, UNKNOWN
from agent.safety.reader.reading import Command
from agent.safety.sandbox.coverage import NO_COVERAGE, BoundaryCoverage
from agent.safety.sandbox.leave import steps_over, widens
from agent.safety.scope import Scope
from agent.safety.typed_input import follows
from agent.safety.undo import UndoCoverage
from agent.safety.verdict import SEVERITY, Judge, Verdict
from tools.services.actions import (
    Action,
    ChangeFiles,
    DeletePath,
    ReadPath,
    RunCommand,
    SendInput,
    SetGitSettings,
    WritePath,
)

Granted = Callable[[Action], str | None]
"""Why an action is allowed by what a person has said before; None when it is not."""

_PASSES_PLAIN: tuple[Mode, ...] = ("normal", "deny")
_NAMED = 3
"""Files a reason names."""
_NO_GRANTS: tuple[Mode, ...] = ("plan", "deny")
"""Modes in which what was allowed before is not allowed any more."""


class Decider:
    """Decides for one session. Asks nobody. May be used from several threads.

    `mode` is the one from the settings; `chosen` is one for this session and goes
    before settings and files. `own` is the home of Hermes. `coverage` is what the boundary holds back, `undo`
    what checkpoints bring back.
    """

    def __init__(
        self,
        workspace: Path,
        scratch: Path | None,
        places: Places,
        *,
        mode: ModeName,
        chosen: ModeName | None,
        own: Path | None,
        permissions: Permissions | None,
        coverage: BoundaryCoverage = NO_COVERAGE,
        undo: UndoCoverage | None = None,
    ) -> None:
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
        return self.policy.mode_from(self._configured, self.chosen)

    @property
    def chosen(self) -> Mode | None:
        """The mode that was chosen for the session; None if none was."""
        return self._chosen if self._leader is None else self._leader.chosen

    def choose(self, name: ModeName) -> None:
        """Choose a mode for the rest of the session."""
        self._chosen = canonical(name)

    def follow(self, leader: Decider) -> None:
        """From now on the mode that is chosen in `leader` counts here."""
        self._leader = leader

    def guards(self, action: Action) -> str | None:
        """Why the action is asked each time anew, whatever was granted; None if it is not."""
        if isinstance(action, ChangeFiles):
            return next(filter(None, map(self._protection.reason, action.writes())), None)
        if isinstance(action, SetGitSettings) and action.effect is not None:
            return action.effect.why
        return steps_over(action) or self._protection.reason(action)

    def places(self, action: Action) -> tuple[Path, ...]:
        """The guarded places that a yes to the action is a yes to; a folder stands for all below it."""
        return (Path("/"),) if steps_over(action) else self._protection.named(action)

    def decide(self, action: Action, granted: Granted) -> tuple[Verdict, Judge]:
        """The verdict and who gives it. `granted` tells why a yes from before lets it pass."""
        with cached_paths():
            if isinstance(action, ChangeFiles):
                return self._restoring(action)
            if isinstance(action, SetGitSettings) and len(action.keys) > 1:
                found = [self.decide(each, granted) for each in action.singles()]
                return max(found, key=lambda each: SEVERITY.index(each[0].kind))
            return self._decided(action, granted)

    def _restoring(self, action: ChangeFiles) -> tuple[Verdict, Judge]:
        """The strictest of the verdicts on each file; what was granted for single files does not add up."""
        found = [(*self._decided(each, _nothing_granted), each.path) for each in action.writes()]
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

    def _decided(self, action: Action, granted: Granted) -> tuple[Verdict, Judge]:
        if reasons := self._forbidden(action):
            return Verdict("hardline", reasons), "rule"
        policy = self.policy
        mode = policy.mode_from(self._configured, self.chosen)
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
            return _asked(mode, found, guarded or wider, said), "rule"
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
        """Whether one part of a command, taken by itself, needs no yes."""
        words = (command.word, *command.arguments)
        if any(mark in word for word in words for mark in (*GLOBS, UNKNOWN)):
            return False
        text = shlex.join(words)
        return all(self._assessor.assess(text, Path(cwd)).verdict.kind == "allow" for cwd in command.cwds)

    def _forbidden(self, action: Action) -> tuple[str, ...]:
        """Why no mode lets the action pass; empty when it is no such thing."""
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


def _asked(mode: Mode, found: RuleFindings, guarded: str | None, default: Verdict) -> Verdict:
    """The verdict on what must not pass silently: every reason there is, the rules' own first."""
    asked = found.asked if mode != "yolo" else ()
    doubts = default.reasons if default.kind == "ask" else ()
    reasons = (*((guarded,) if guarded else ()), *found.doubtful, *asked, *doubts)
    parts = _merged(found.parts, default.parts)
    if mode == "deny":
        return Verdict("deny", (OFF, *reasons), parts)
    return Verdict("ask", tuple(dict.fromkeys(reasons)), parts)


def _merged(one: Sequence[VerdictPart], other: Sequence[VerdictPart]) -> tuple[VerdictPart, ...]:
    """Parts of a command by what they would run; of two opinions the stricter one stands."""
    found: dict[str, VerdictPart] = {part.text: part for part in other}
    for part in one:
        known = found.get(part.text)
        if known is None or SEVERITY.index(part.kind) >= SEVERITY.index(known.kind):
            found[part.text] = part
    return tuple(found.values())

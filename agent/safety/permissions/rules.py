"""Rules, and the verdict of a set of rules on an action."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent.core.event_data import VerdictPart
from agent.safety.permissions.certainty import Certainty
from agent.safety.permissions.subjects import RuleSubject, Setting, speller
from agent.safety.places import absolute, joined
from agent.safety.reader.state import Command, Reading
from agent.safety.reader.tree import GLOBS, UNKNOWN, literal, words
from tools.services.actions import Action, RunCommand

RuleVerdict = Literal["allow", "ask", "deny"]
Origin = Literal["permissions.yaml", ".hermes/permissions.yaml", "the job"]

_NEUTRAL = words("cd pushd popd true false : test [ [[ pwd exit return wait sleep echo printf")
"""Builtins that change nothing outside their shell."""
_TRANSPARENT = words("sh bash dash zsh time timeout nice nohup command stdbuf")
"""Programs that only run another one, which is judged separately."""
_SINKS = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """One rule of a permissions file."""

    text: str
    """`tool(pattern)` as written."""
    verdict: RuleVerdict
    subject: RuleSubject
    origin: Origin
    line: int
    reason: str = ""
    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = ()
    surface: str = ""
    """The profile it belongs to; empty for all."""

    @property
    def place(self) -> str:
        """Return file and line of the rule, for the user."""
        return f"{self.origin} line {self.line}" if self.line else self.origin

    def because(self, certainty: Certainty = Certainty.YES) -> str:
        """Return why the rule applies, as a clause for the user."""
        clause = self.reason or f"the rule `{self.text}` says {self.verdict}"
        return f"{'perhaps ' if certainty is Certainty.MAYBE else ''}{clause} ({self.place})"


@dataclass(frozen=True, slots=True)
class RuleFindings:
    """The findings of the rules on one action."""

    denied: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    parts: tuple[VerdictPart, ...] = ()
    """The parts of a command that rules ask about or deny."""
    doubtful: tuple[str, ...] = ()
    """Why a deny rule may apply; such an action is asked about in every mode."""


UNCLEAR = "does not say what it does, so a rule that denies may be about it"


class RuleSet:
    """The rules in force. Of all matching ones the strictest decides, whatever their order is."""

    def __init__(self, rules: Iterable[PermissionRule], setting: Setting) -> None:
        self.rules = tuple(rules)
        self._setting = setting
        self._strict = tuple(rule for rule in self.rules if rule.verdict != "allow")
        self._mild = tuple(rule for rule in self.rules if rule.verdict == "allow")

    def findings(self, action: Action) -> RuleFindings:
        """Return the rules that ask about or deny the action."""
        denied: list[str] = []
        asked: list[str] = []
        doubtful: list[str] = []
        parts: list[VerdictPart] = []
        spell = speller()
        unclear = action.effect.is_unclear if action.effect is not None else None
        if unclear is not None and unclear(action) and any(rule.verdict == "deny" for rule in self._strict):
            doubtful.append(UNCLEAR)
        for rule in self._strict:
            hit = rule.subject.touches(action, spell)
            if hit.certainty is Certainty.NO:
                continue
            because = rule.because(hit.certainty)
            certain = hit.certainty is Certainty.YES
            target = asked if rule.verdict == "ask" else denied if certain else doubtful
            target.append(because)
            if hit.part:
                kind = "deny" if target is denied else "ask"
                parts.append(VerdictPart(literal(hit.part), kind, because))
        return RuleFindings(tuple(denied), tuple(asked), tuple(parts), tuple(doubtful))

    def allowed(self, action: Action, plain: Callable[[Command], bool] | None = None) -> tuple[str, ...]:
        """Return why the rules allow the action; empty if they do not, or allow only a part of it.

        `plain` tells whether a part of a command needs no permission, so that no rule must allow it.
        """
        if self._mild and isinstance(action, RunCommand):
            return self._allowed_command(action, plain)
        return tuple(rule.because() for rule in self._mild if rule.subject.covers(action))

    def _allowed_command(
        self, action: RunCommand, plain: Callable[[Command], bool] | None
    ) -> tuple[str, ...]:
        """Return why the rules allow every part of a command; empty if one part is not allowed."""
        whole = tuple(rule.because() for rule in self._mild if rule.subject.covers(action))
        if whole:
            return whole
        reading = self._setting.reading(action.command, action.cwd)
        if not reading.is_known or not reading.commands or any(_poisons(name) for name in reading.assigned):
            return ()
        allowing = {
            command: [rule for rule in self._mild if rule.subject.allows(command)]
            for command in reading.commands
        }
        if not reading.writes and not any(allowing.values()):
            return ()
        reasons: dict[str, None] = {}
        for path, cwd in ((each.path, cwd) for each in reading.writes for cwd in each.cwds):
            if path in _SINKS:
                continue
            writing = self._writers(path, cwd)
            if not writing:
                return ()
            reasons.update((rule.because(), None) for rule in writing)
        for command in reading.commands:
            if not all(self._inside(cwd) for cwd in command.cwds):
                return ()
            reasons.update((rule.because(), None) for rule in allowing[command])
            if allowing[command] or command.name in _NEUTRAL or _is_transparent(command, reading):
                continue
            if plain is None or not plain(command):
                return ()
        return tuple(reasons)

    def _inside(self, cwd: str) -> bool:
        folder = str(self._setting.workspace).rstrip("/")
        return UNKNOWN not in cwd and f"{absolute(cwd)}/".startswith(f"{folder}/")

    def _writers(self, path: str, cwd: str) -> list[PermissionRule]:
        """Return the rules that allow writing to a marked path."""
        if UNKNOWN in path or UNKNOWN in cwd or any(mark in path for mark in GLOBS):
            return []
        target = Path(absolute(joined(cwd, path)))
        return [rule for rule in self._mild if rule.subject.writes(target)]


def _poisons(name: str) -> bool:
    """Return whether setting a variable may change programs. Environment variables are in capitals."""
    return name != name.lower() or name.endswith("_proxy")


def _is_transparent(command: Command, reading: Reading) -> bool:
    """Return whether the program only runs another one, which is judged as a separate part."""
    if command.name not in _TRANSPARENT or command.word != command.name:
        return False
    place = reading.commands.index(command)
    return place + 1 < len(reading.commands)

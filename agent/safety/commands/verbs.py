"""Programs with subcommands, as tables: which words only look, and what the others do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.safety.commands.call import Call, Opinion, ask, fine
from agent.safety.shell.marks import UNKNOWN


@dataclass(frozen=True, slots=True)
class Verbs:
    """What the subcommands of one program do.

    `harmless` and `effects` are regular expressions over the first words that
    are no options, joined by blanks; the one that fits the longest beginning
    decides (`config view` against `config`), and of equal ones the effect.
    """

    harmless: str
    reason: str
    """Why a harmless one is."""
    effects: Sequence[tuple[str, str]] = ()
    """(expression, reason to ask)."""
    valued: frozenset[str] = frozenset()
    """Options before the subcommand that take a separate value."""
    dangerous: frozenset[str] = field(default_factory=frozenset)
    """Options that ask whatever the subcommand is."""
    otherwise: str = ""
    """Reason for all other subcommands; empty when they are not known."""
    bare: bool = True
    """Whether the program without a subcommand is harmless."""
    inside: bool = False
    """Whether it must run in the workspace to be harmless."""

    def __call__(self, call: Call) -> Opinion:
        if option := call.flag(*self.dangerous):
            return ask(f"may run or reach something else ({option.partition('=')[0]})")
        words = self.words(call)
        said = " ".join(words)
        if not said:
            looks = self.bare or call.tells("--version", "--help", "-h", "-V")
            return fine(self.reason) if looks else ask(f"is not known to be harmless: {call.name}")
        plain = re.match(rf"(?:{self.harmless})(?:\s|$)", said)
        for expression, reason in self.effects:
            found = re.match(rf"(?:{expression})(?:\s|$)", said)
            if found and (plain is None or found.end() >= plain.end()):
                return ask(reason)
        if UNKNOWN in words[0]:
            return ask("does something that is not known here")
        if plain or call.tells("--help", "--version"):
            if self.inside and not call.inside and not call.ground.private(call.cwd):
                return ask("works outside of the workspace")
            return fine(self.reason)
        if self.otherwise:
            return ask(self.otherwise)
        return ask(f"is not known to be harmless: {call.name} {' '.join(words[:2])}".replace(UNKNOWN, "…"))

    def words(self, call: Call) -> list[str]:
        """The arguments that are no options."""
        found: list[str] = []
        skip = False
        for argument in call.arguments:
            if skip:
                skip = False
            elif argument.startswith("-"):
                skip = argument in self.valued
            else:
                found.append(argument)
        return found

"""The reading of a shell text: programs with their arguments, and files that are opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from agent.safety.reader import marks


class Command(NamedTuple):
    """One program that would be started. All texts are marked (see `agent.safety.reader.marks`)."""

    name: str
    """The program without its folder."""
    arguments: tuple[str, ...]
    word: str
    """The program as it is called, folder included."""
    cwds: tuple[str, ...]
    """The folders it may run in."""

    @property
    def text(self) -> str:
        """As a person would read it."""
        return " ".join(marks.literal(word) for word in (self.name, *self.arguments))


class Touched(NamedTuple):
    """A file that the shell itself would open, as a marked path, and the folders it may be seen from."""

    path: str
    cwds: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """Everything that was read of a shell text. A key of caches, by identity."""

    commands: tuple[Command, ...] = ()
    writes: tuple[Touched, ...] = ()
    reads: tuple[Touched, ...] = ()
    doubts: tuple[str, ...] = ()
    """What was not understood, as clauses for a person. A program in another language is no doubt."""
    assigned: frozenset[str] = frozenset()
    """Variables that are set and may reach programs; these may behave differently because of them."""
    bomb: str = ""
    """The name of a function that starts itself without end, if there is one."""
    complete: bool = True
    """False when it is too long or too broken to be read to its end."""

    @property
    def known(self) -> bool:
        """Whether nothing in it is hidden."""
        return self.complete and not self.doubts

"""What a shell text would do, as rules see it: programs with their arguments, files it reads and writes.

Rules never look at the text itself. It is followed by the interpreter of
`agent.safety.shell`, so quotes, variables, wrappers and inner shells are gone
by the time a pattern is compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from agent.safety.shell import marks
from agent.safety.shell.recording import Assigned, Opened, Remark, Start, record


class Command(NamedTuple):
    """One program that would be started. All texts are marked (see `agent.safety.shell.marks`)."""

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
    """Everything a shell text would do, as far as it can be known. A key of caches, by identity."""

    commands: tuple[Command, ...] = ()
    writes: tuple[Touched, ...] = ()
    reads: tuple[Touched, ...] = ()
    doubts: tuple[str, ...] = ()
    """What cannot be known. A program in another language is no doubt: a rule names its interpreter."""
    assigned: frozenset[str] = frozenset()
    """Variables that are set; programs may behave differently because of them."""
    complete: bool = True
    """False when it is too involved to be followed to its end."""

    @property
    def known(self) -> bool:
        """Whether nothing in it is hidden."""
        return self.complete and not self.doubts


@lru_cache(maxsize=32)
def read(text: str, cwd: str, home: str) -> Reading:
    """Follow a shell text that starts in `cwd`. Never raises; takes time in proportion to its length."""
    recording = record(text, cwd, home)
    # There are many events, so they are told apart here instead of being shown to a judge.
    commands: dict[Command, None] = {}
    writes: dict[Touched, None] = {}
    reads: dict[Touched, None] = {}
    doubts: dict[str, None] = {}
    names: set[str] = set()
    for event in recording.events:
        if isinstance(event, Start):
            name, arguments, cwds, word, _ = event
            commands[Command(name, arguments, word or name, cwds)] = None
        elif isinstance(event, Opened):
            (writes if event.writes else reads)[Touched(event.path, event.cwds)] = None
        elif isinstance(event, Assigned):
            names.add(event.name)
        elif isinstance(event, Remark) and event.method == "doubt":
            doubts[event.text] = None
        elif isinstance(event, Remark) and event.method == "bomb":
            doubts["it starts itself without end"] = None
    return Reading(
        tuple(commands),
        tuple(writes),
        tuple(reads),
        tuple(doubts),
        frozenset(names),
        not recording.tangled and not recording.fault,
    )

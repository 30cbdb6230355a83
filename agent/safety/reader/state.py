"""The state of a shell at one point of a script: its variables, functions and current folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from agent.safety.reader import tree
from agent.safety.reader.tree import UNKNOWN

if TYPE_CHECKING:
    from tree_sitter import Node

    from agent.safety.reader.tree import ParsedText


MOST_FOLDERS = 4
"""The number of possible folders of a command; with more, none is known."""

Value = str | tuple[str, ...]
"""The value of a variable, or of an array."""


class TooMuchError(Exception):
    """The text is longer or more complex than the limit for reading."""


@dataclass(slots=True)
class State:
    """The state of one shell; subshells work on a copy."""

    cwds: tuple[str, ...]
    variables: dict[str, Value] = field(default_factory=dict)
    functions: dict[str, tuple[ParsedText, Node]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Contents of files written by the script, by their paths as written."""
    positional: tuple[str, ...] | None = None
    """The values of `$1` and so on; None if unknown."""

    def copy(self) -> State:
        """Return a copy of the state for a subshell."""
        return State(
            self.cwds,
            dict(self.variables),
            dict(self.functions),
            dict(self.aliases),
            self.files,
            self.positional,
        )

    def get(self, name: str) -> Value | None:
        """Return the value of a variable set by the script or by every shell; None for any other."""
        if name in self.variables:
            return self.variables[name]
        if name == "PWD" and len(self.cwds) == 1:
            return self.cwds[0]
        return " \t\n" if name == "IFS" else None

    def go(self, folders: tuple[str, ...]) -> None:
        """Change the current folder to one of several possible ones."""
        self.cwds = folders if len(folders) <= MOST_FOLDERS else (UNKNOWN,)

    @contextmanager
    def perhaps(self) -> Iterator[None]:
        """Treat changes of the state inside this block as possible: afterwards both states are."""
        before = self.copy()
        yield
        for name in before.variables.keys() | self.variables.keys():
            if before.variables.get(name) != self.variables.get(name):
                self.variables[name] = UNKNOWN
        self.functions = before.functions | self.functions
        self.go(tuple(dict.fromkeys((*before.cwds, *self.cwds))))


class Command(NamedTuple):
    """One program that would be started. All texts are marked (see `agent.safety.reader.tree`)."""

    name: str
    """The program without its folder."""
    arguments: tuple[str, ...]
    word: str
    """The program as called, folder included."""
    cwds: tuple[str, ...]
    """The folders it may run in."""

    @property
    def text(self) -> str:
        """The command as a text for people, without marks."""
        return " ".join(tree.literal(word) for word in (self.name, *self.arguments))


class Touched(NamedTuple):
    """A file that the shell would open, as a marked path, and the possible current folders."""

    path: str
    cwds: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """All findings in a shell text. Serves as a key of caches, by identity."""

    commands: tuple[Command, ...] = ()
    writes: tuple[Touched, ...] = ()
    reads: tuple[Touched, ...] = ()
    doubts: tuple[str, ...] = ()
    """What was not understood, as clauses for the user. A program in another language is not a doubt."""
    assigned: frozenset[str] = frozenset()
    """Variables that are set and may change how programs behave."""
    bomb: str = ""
    """The name of a function that starts itself endlessly, if there is one."""
    complete: bool = True
    """False if it is too long or too broken to be read to its end."""

    @property
    def is_known(self) -> bool:
        """Return whether everything in the text was understood."""
        return self.complete and not self.doubts

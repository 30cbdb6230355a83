"""The view that builtins and programs have of the reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from agent.safety.programs.table import Program
from agent.safety.reader.expansion import Expansion
from agent.safety.reader.reading import Command, Touched
from agent.safety.reader.state import State

if TYPE_CHECKING:
    from tree_sitter import Node


class ShellReader(Protocol):
    """The reader of one script, at the place it has come to. What it finds is collected in its tables."""

    state: State
    commands: dict[Command, None]
    writes: dict[Touched, None]
    doubts: dict[str, None]
    assigned: set[str]

    def run(self, text: str, stdin: str | None = None) -> str | None:
        """Read a script that would run here and now; its output where that is known."""
        ...

    def start(self, words: Sequence[str], stdin: str | None = None) -> str | None:
        """Read a command line that would run here and now; its output where that is known."""
        ...

    def started(self, program: Program, arguments: Sequence[str], stdin: str | None) -> str | None:
        """Read what a program of the table runs."""
        ...

    def apart(self, what: str | Sequence[str]) -> None:
        """Read a script or a command line that a program starts in a shell of its own."""
        ...

    def call(self, name: str, arguments: Sequence[str], stdin: str | None) -> str | None:
        """Read a function that was defined before."""
        ...

    def inside(self, folder: str) -> ShellReader:
        """A reader for what runs in a container."""
        ...

    def record(self, name: str, arguments: Sequence[str], word: str = "") -> None:
        """A program would be started."""
        ...

    def doubt(self, clause: str) -> None:
        """Note what is not understood."""
        ...

    def step(self) -> None:
        """Count one piece of work. Raises `TooMuchError`."""
        ...

    def expansion(self) -> Expansion:
        """Expands words as they stand here."""
        ...

    def text(self, node: Node) -> str:
        """What is written where a node stands."""
        ...

    def look_inside(self, node: Node) -> str | None:
        """Read what is started inside words."""
        ...

"""A patch as data, whatever notation it was written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tools.results import ToolError

Kind = Literal[" ", "+", "-"]
"""A line of a hunk is kept, added or removed."""


class PatchError(ToolError):
    """A patch that cannot be read or does not fit. Nothing was written."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a hunk."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """One change within a file. `number` counts from 1 over the whole patch, for messages."""

    number: int
    lines: tuple[Line, ...]
    hints: tuple[str, ...] = ()
    """Lines above the change, outermost first: `@@ class Account`."""
    at_end: bool = False
    """The change touches the end of the file."""
    old_start: int | None = None
    """Line number of the first old line, from 1, as far as the patch knows it."""
    final_newline: bool | None = None
    """Whether the file is to end in a newline, if the patch says so."""

    @property
    def old(self) -> list[str]:
        """The lines to be found in the file."""
        return [line.text for line in self.lines if line.kind != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that are there afterwards."""
        return [line.text for line in self.lines if line.kind != "-"]


@dataclass(frozen=True, slots=True)
class AddFile:
    path: str
    content: str


@dataclass(frozen=True, slots=True)
class UpdateFile:
    """Change a file; with `move_to` it also gets that name."""

    path: str
    hunks: tuple[Hunk, ...]
    move_to: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteFile:
    path: str


Operation = AddFile | UpdateFile | DeleteFile

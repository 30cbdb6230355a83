"""A patch as data, whatever notation it was written in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tools.results import ToolError

Kind = Literal[" ", "+", "-"]
"""A line of a hunk is kept, added or removed."""


class PatchError(ToolError):
    """A patch that cannot be read or does not fit. Nothing was written."""


@dataclass(frozen=True, slots=True)
class PatchLine:
    """One line of a hunk."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class PatchHunk:
    """One change within a file. `number` counts from 1 over the whole patch, for messages."""

    number: int
    lines: tuple[PatchLine, ...]
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
    executable: bool | None = None
    """Whether the file is to be a program; None leaves it to the user's defaults."""


@dataclass(frozen=True, slots=True)
class UpdateFile:
    """Change a file; with `move_to` it also gets that name."""

    path: str
    hunks: tuple[PatchHunk, ...]
    move_to: str | None = None
    other_names: tuple[str, ...] = ()
    """What the file may be called where `path` does not exist; it is not moved then."""
    executable: bool | None = None
    """Whether the file is to be a program; None leaves it as it is."""

    @property
    def may_create(self) -> bool:
        """Whether it only brings content into a file that was empty, so that the file may be missing."""
        return bool(self.hunks) and all(hunk.old_start == 0 and not hunk.old for hunk in self.hunks)


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Delete a file. `hunks`, if there are any, say what has to be all of its content."""

    path: str
    hunks: tuple[PatchHunk, ...] = ()


def content_of(hunks: Sequence[PatchHunk]) -> str:
    """The whole content of a file that consists of what `hunks` add."""
    lines = [line for hunk in hunks for line in hunk.new]
    ends_open = bool(hunks) and hunks[-1].final_newline is False
    return "\n".join(lines) + ("" if ends_open or not lines else "\n")


Operation = AddFile | UpdateFile | DeleteFile

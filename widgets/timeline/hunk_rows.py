"""The hunks of a file, each of which is taken or left."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message

from widgets.rows.row_list import RowList
from widgets.rows.row_text import spread
from widgets.timeline.diff_rows import DiffRows
from widgets.timeline.side_by_side import HunkStart, LinePair
from widgets.transcript.diff_reader import DiffFile, DiffHunk


class HunkRows(DiffRows):
    """A diff in which every hunk has a row that says whether it is taken; what is left is dim."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "turn", "Take or leave the hunk", id="hunks.toggle"),
        Binding("t", "choose(True)", "Take all hunks", id="hunks.all"),
        Binding("x", "choose(False)", "Leave all hunks", id="hunks.none"),
        Binding("right_square_bracket", "step(1)", "Next hunk", id="hunks.next"),
        Binding("left_square_bracket", "step(-1)", "Previous hunk", id="hunks.previous"),
    ]

    class Chosen(Message):
        """Other hunks are taken now."""

        def __init__(self, taken: frozenset[int]) -> None:
            super().__init__()
            self.taken = taken

    def __init__(self, taken: Collection[int], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.taken = frozenset(taken)
        """The numbers of the hunks that are taken, from 1."""
        self._places: dict[int, int] = {}
        self._counted: DiffFile | None = None

    @property
    def numbers(self) -> list[int]:
        """The numbers of all hunks."""
        return list(self._numbers().values())

    def begins(self, start: HunkStart) -> bool:
        return True

    def start(self, start: HunkStart, width: int) -> Text:
        taken = start.number in self.taken
        sign, word = ("✓", "taken") if taken else ("○", "left")
        left = Text(f" {sign} hunk {start.number:,} of {len(self._numbers()):,} · {word}")
        left.stylize(self.ink("accent" if taken else "dim", bold=taken))
        hunk = self.file.parts[start.hunk]
        lines = hunk.lines if isinstance(hunk, DiffHunk) else ()
        right = Text()
        for sign, shown, role in (("+", "+", "added"), ("-", "−", "removed")):
            if count := sum(line.sign == sign for line in lines):
                right.append(f" {shown}{count:,}", self.ink(role if taken else "dim"))
        return spread(left, right.append(" "), width)

    def row(self, number: int, width: int) -> list[Text]:
        rows = super().row(number, width)
        part = self.parts[number]
        if isinstance(part, LinePair) and self._number(number) not in self.taken:
            for row in rows:
                row.stylize(self.ink("dim"))
        return rows

    # Keys

    def action_turn(self) -> None:
        if self.cursor is not None and (number := self._number(self.cursor)):
            self._take(self.taken ^ {number})

    def action_choose(self, take: bool) -> None:
        if self._numbers():
            self._take(frozenset(self.numbers if take else ()))

    def action_step(self, direction: int) -> None:
        starts = [at for at, part in enumerate(self.parts) if isinstance(part, HunkStart)]
        here = -1 if self.cursor is None else self.cursor
        ahead = [at for at in starts if (at - here) * direction > 0]
        if ahead:
            self.move_to(min(ahead, key=lambda at: abs(at - here)))

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        """A click on the row of a hunk, or enter there, is the same as the key."""
        event.stop()
        if isinstance(self.parts[event.index], HunkStart):
            self.action_turn()

    def _take(self, taken: frozenset[int]) -> None:
        self.taken = taken
        self.repaint()
        self.post_message(self.Chosen(taken))

    def _number(self, row: int) -> int:
        """The number of the hunk that a row belongs to; 0 where it is of none."""
        part = self.parts[row]
        if isinstance(part, HunkStart):
            return part.number
        return self._numbers().get(part.hunk, 0) if isinstance(part, LinePair) else 0

    def _numbers(self) -> dict[int, int]:
        """The numbers of hunks by their place in the file."""
        if self._counted is not self.file:
            places = (at for at, part in enumerate(self.file.parts) if isinstance(part, DiffHunk))
            self._places = {at: number for number, at in enumerate(places, 1)}
            self._counted = self.file
        return self._places

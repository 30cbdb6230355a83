"""The items of a document in their order, added at both ends and dropped from the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.strip import Strip

from widgets.transcript.items import AnswerItem, Fold, Item, UserItem, first_fold
from widgets.transcript.pieces import Part


class Entry:
    """An item at its place in the document."""

    __slots__ = ("age", "chosen", "closed", "gap", "heights", "item", "live", "open", "parts")

    def __init__(self, item: Item, gap: bool, age: int = 0) -> None:
        self.item = item
        self.gap = gap
        """Whether an empty row stands above it."""
        self.age = age
        """How often everything had been folded or unfolded when this was last brought up to date."""
        self.chosen: Fold | None = None
        """How much of it a person wants to see; None: what suits it."""
        self.parts: list[Part] | None = None
        """None until somebody looks."""
        self.heights: list[int] = []
        """Rows of its parts: as drawn, or estimated."""
        self.open = False
        """Whether it is an answer that is still being written."""
        self.live: Sequence[Strip] = ()
        """Rows of the last part while it is still being written."""
        self.closed = 0
        """How many parts of an answer that is being written are complete."""

    @property
    def fold(self) -> Fold:
        """How much of it is shown."""
        return self.chosen or first_fold(self.item)

    def guess(self, room: int) -> int:
        """Its height as long as nobody has looked at it, by its length; `room` is the columns of a row."""
        match self.item:
            case AnswerItem(text=text) | UserItem(text=text):
                return 2 + len(text) // room
            case _:
                return 1 + self.gap


class Entries:
    """Entries by index. What is appended counts on from 0, what is prepended down from the first."""

    def __init__(self) -> None:
        self._below: list[Entry] = []
        self._above: list[Entry] = []
        """Those above `_middle`, the nearest first."""
        self._middle = 0

    @property
    def first(self) -> int:
        """The index of the first one."""
        return self._middle - len(self._above)

    @property
    def stop(self) -> int:
        """The index behind the last one."""
        return self._middle + len(self._below)

    def __len__(self) -> int:
        return len(self._above) + len(self._below)

    def __getitem__(self, index: int) -> Entry:
        at = index - self._middle
        return self._below[at] if at >= 0 else self._above[~at]

    def __iter__(self) -> Iterator[Entry]:
        yield from reversed(self._above)
        yield from self._below

    def append(self, entry: Entry) -> None:
        """Add one at the end."""
        self._below.append(entry)

    def prepend(self, entry: Entry) -> None:
        """Add one above the first."""
        self._above.append(entry)

    def drop(self) -> None:
        """Take the first away; the indices of the others stay."""
        if not self._above:
            half = (len(self._below) + 1) // 2
            self._above, self._below = self._below[half - 1 :: -1], self._below[half:]
            self._middle += half
        self._above.pop()

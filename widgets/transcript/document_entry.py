"""One item of a document, with what is known of how it looks."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from widgets.transcript.items import AnswerItem, Fold, Item, UserItem, first_fold
from widgets.transcript.part_types import Part


class DocumentEntry:
    """An item at its place in the document."""

    __slots__ = ("age", "chosen", "closed", "gap", "heights", "item", "live", "open", "parts", "written")

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
        self.written: tuple[Item, Fold | None, int] | None = None
        """What the archive holds of it; None: nothing."""

    @property
    def state(self) -> tuple[Item, Fold | None, int]:
        """What can change of it and must outlast its being put away."""
        return self.item, self.chosen, self.age

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

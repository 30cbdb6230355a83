"""The rows of a document that are in sight: a place that stays, or the end that is followed."""

from __future__ import annotations

from itertools import islice

from widgets.transcript.document import Document
from widgets.transcript.row_positions import PlacedRow, RowPosition, RowRun, above, below, height


class Viewport:
    """A window of `height` rows on a document.

    It holds on to the place of its first row, so whatever changes above or below
    moves nothing in sight, or it follows the end. It follows whenever the last
    row is in sight.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._top = RowPosition(0, 0, 0)
        self.height = 0
        self.following = True
        self.at_start = False
        """Whether the first row is wanted, while items from before still come in above it."""

    @property
    def top(self) -> RowPosition:
        """The place of the first row."""
        return self._top

    def runs(self) -> list[RowRun]:
        """The rows in sight, part by part."""
        document = self._document
        while not self.following:
            self._top = document.start if self.at_start else document.valid(self._top)
            runs = below(document.runs_down(self._top), self.height + 1)
            if height(runs) > self.height:
                return below(runs, self.height)
            if not (self.at_start and document.more()):
                self.to_end()
        runs = above(document.runs_up(document.end), self.height)
        self._top = runs[0].place if runs else document.end
        return runs

    def rows(self) -> list[PlacedRow]:
        """The rows in sight."""
        return [row for run in self.runs() for row in run.rows()]

    def scroll(self, rows: int) -> None:
        """Move by some rows, down if positive."""
        document = self._document
        self.rows()
        walk = document.down(self._top) if rows > 0 else document.up(self._top)
        passed = list(islice(walk, rows + 1 if rows > 0 else -rows))
        if passed:
            self.to(passed[-1].place)

    def to(self, place: RowPosition) -> None:
        """Put a place at the top, or as near to it as the end allows."""
        self._top = place
        self.following = self.at_start = False

    def to_start(self) -> None:
        """Go to the first row, and stay there while items from before come in."""
        self.to(self._document.start)
        self.at_start = True

    def to_share(self, share: float) -> None:
        """Go to a share of the whole, from 0 to 1."""
        if not share:
            self.to_start()
            return
        total = self._document.heights.total
        self.to(self._document.place_at(int(share * max(total - self.height, 0))))

    def to_end(self) -> None:
        """Go to the end and follow it."""
        self.following, self.at_start = True, False

    def reveal(self, place: RowPosition, rows: int = 0) -> None:
        """Bring a place into sight, with `rows` rows from it on; 0: to the end of its item."""
        document = self._document
        shown = self.rows()
        self.at_start = False
        wanted = 0
        for row in islice(document.down(place), self.height):
            if row.place.item != place.item or (rows and wanted == rows):
                break
            wanted += 1
        at = next((at for at, row in enumerate(shown) if row.place == place), None)
        if at is not None and at + wanted <= len(shown):
            return
        if at is None and place < self._top:
            self.to(place)
            return
        before = list(islice(document.up(place), self.height - wanted))
        self.to(before[-1].place if before else place)

    def hold(self) -> None:
        """Stay here while something changes in sight."""
        self.rows()
        self.following = self.at_start = False

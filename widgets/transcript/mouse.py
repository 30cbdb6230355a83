"""The mouse on a document: wheel, scrollbar, clicks."""

from __future__ import annotations

from textual import events
from textual.widget import Widget

from widgets.transcript.document import Document
from widgets.transcript.items import Fold
from widgets.transcript.navigator import SHIFT, Navigator
from widgets.transcript.painting import SCROLLBAR
from widgets.transcript.picture import DocumentPicture

WHEEL = 3
"""Rows of one notch of the mouse wheel."""


class DocumentMouse:
    """Turns events of the mouse over a widget into ways of its navigator."""

    def __init__(
        self, document: Document, picture: DocumentPicture, navigator: Navigator, widget: Widget
    ) -> None:
        self._document = document
        self._picture = picture
        self._navigator = navigator
        self._widget = widget
        self.on_scrollbar = False
        """Whether it is over the scrollbar, or holds it."""

    @property
    def dragging(self) -> bool:
        """Whether it holds the scrollbar."""
        return self.on_scrollbar and self._widget.app.mouse_captured is self._widget

    def wheel(self, event: events.MouseEvent, step: int, *, sideways: bool) -> None:
        """One notch, down or right if `step` is positive."""
        event.stop()
        if not sideways:
            self._navigator.scroll(step * WHEEL)
        elif event.y < len(rows := self._picture.rows):
            self._navigator.shift_code(rows[event.y].place.item, step * SHIFT)

    def down(self, event: events.MouseDown) -> None:
        """A button goes down."""
        if event.button == 1 and self._is_over_scrollbar(event):
            self.on_scrollbar = True
            self._widget.capture_mouse()
            self._drag(event)

    def move(self, event: events.MouseMove) -> None:
        """It moves, with a button or without."""
        widget = self._widget
        if widget.app.mouse_captured is widget:
            self._drag(event)
            return
        self.on_scrollbar = self._is_over_scrollbar(event)
        selects = event.button == 1 and widget.text_selection is not None
        if selects and event.y in (0, widget.size.height - 1):
            self._navigator.scroll(-1 if event.y == 0 else 1)

    def up(self) -> None:
        """A button comes up."""
        self.on_scrollbar = False
        self._widget.release_mouse()

    def click(self, event: events.Click) -> bool:
        """A click gives its item the keys, and opens or folds it. False where it means nothing."""
        rows = self._picture.rows
        selects = self._widget.text_selection is not None
        if selects or self._is_over_scrollbar(event) or event.y >= len(rows):
            return False
        place = rows[event.y].place
        start = self._document.start_of(place.item)
        if place < start:
            return False
        self._navigator.focused = place.item
        closed = self._document.entry(place.item).fold is not Fold.OPEN
        # The head folds and unfolds; a row below it only opens, for its text is there to be selected.
        if event.chain == 1 and (place == start or closed):
            self._navigator.toggle(place.item, further=place != start)
        return True

    def _is_over_scrollbar(self, event: events.MouseEvent) -> bool:
        size = self._widget.size
        return event.x >= size.width - SCROLLBAR and self._document.heights.total > size.height

    def _drag(self, event: events.MouseEvent) -> None:
        share = max(event.y, 0) / max(self._widget.size.height - 1, 1)
        self._navigator.jump_to_share(min(share, 1.0))

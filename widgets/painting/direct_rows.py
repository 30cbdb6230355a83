"""Rows put on the terminal in the turn of the event loop in which they are made, past Textual's frames.

Such a frame takes four turns of the loop and a walk over all rows of all widgets it touches: more than
half of what a picture of streaming text costs. Where nothing covers a widget its rows alone decide what
is seen in its place, so they may go out at once; a frame of Textual that comes later asks the widget
for the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.errors import NoWidget
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from widgets.painting.row_encoder import RowEncoder

BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"
"""What is between is shown at once; terminals that do not know it pass over it."""


class DirectRows:
    """The way to the terminal for the rows of one widget, open while the widget is in sight and uncovered."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self.write: Callable[[str], None] | None = None
        """What takes bytes to the terminal in the order of Textual's own; None: there is no direct way."""
        self._place: Region | None = None
        """Where on the screen the widget is, as of the last layout; None: not in full, or covered."""
        self._watches = self._known = False
        self._ink: RowEncoder | None = None

    def put(self, rows: Iterable[tuple[int, Strip]]) -> bool:
        """Put whole rows of the widget on the terminal, each by its number; False if only a frame can."""
        widget, write = self._widget, self.write
        if write is None or not widget.screen.is_active:
            return False
        place = self._looked_up()
        if place is None or place.size != widget.size:
            return False
        ink = self._ink = self._ink or RowEncoder(widget.app.console)
        left, top = place.x + 1, place.y + 1
        lines = [f"\x1b[{top + y};{left}H{ink.written(strip)}" for y, strip in rows]
        # Back to where input methods show what is being typed.
        x, y = widget.screen.outer_size.clamp_offset(widget.app.cursor_position)
        write("".join([BEGIN, *lines, f"\x1b[{y + 1};{x + 1}H", END]))
        return True

    def _looked_up(self) -> Region | None:
        if not self._watches:
            self._watches = True
            signal = self._widget.screen.screen_layout_refresh_signal
            signal.subscribe(self._widget, self._laid_out, immediate=True)
        if not self._known:
            self._known, self._place = True, uncovered(self._widget)
        return self._place

    def _laid_out(self, _screen: object) -> None:
        """Where things are has changed: look again when it matters."""
        self._known = False


def uncovered(widget: Widget) -> Region | None:
    """Where on its screen a widget without children is; None unless all of it is in sight, with nothing else.

    What lies below it counts as something else too, if it is none of its ancestors.
    """
    screen = widget.screen
    try:
        place = screen.find_widget(widget)
    except NoWidget:
        return None
    if not place.region or place.visible_region != place.region:
        return None
    around = set(widget.ancestors_with_self)
    for other in screen.walk_children(Widget):
        if other not in around and _touches(other, place.region):
            return None
    return place.region


def _touches(widget: Widget, region: Region) -> bool:
    try:
        seen = widget.screen.find_widget(widget).visible_region
    except NoWidget:  # it is not displayed
        return False
    return bool(seen) and seen.overlaps(region)

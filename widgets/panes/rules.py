"""Lines between regions, and the one that can be dragged."""

from __future__ import annotations

from collections.abc import Collection

from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.message import Message
from textual.strip import Strip

from themes.skin import Skin
from widgets.painting.filtered_rows import DrawnRow
from widgets.palette import Palette
from widgets.rows.row_text import fit, to_strip


class RegionRule(DrawnRow):
    """A line across. `joint` is the column where the line between the regions meets it, or None."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "RegionRule { height: 1; }"

    def __init__(
        self, *, mark: str = "─", background: str = "background", id: str | None = None, classes: str = ""
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.palette = Palette(Skin())
        self.joint: int | None = None
        self.hint = Text()
        """Words that lie on the line for a while."""
        self._mark = mark
        self._background = background

    def use(self, palette: Palette) -> None:
        """Draw in the colours of another skin."""
        self.palette = palette
        self.refresh()

    def join(self, joint: int | None) -> None:
        """Meet another line at this column."""
        if joint != self.joint:
            self.joint = joint
            self.refresh()

    def say(self, hint: Text) -> None:
        """Put words on the line; an empty text takes them off."""
        self.hint = hint
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        style = self.palette.style("rule", self._background)
        cells = ["─"] * width
        if self.joint is not None and 0 <= self.joint < width:
            cells[self.joint] = self._mark
        line = Text("".join(cells), style)
        if self.hint and width > 4:
            hint = fit(self.hint, width - 4)
            line = Text.assemble(line[:2], hint, line[2 + hint.cell_len :])
        return to_strip(line, width, style, self.app.console)


class Divider(DrawnRow):
    """The line down between conversation and panes; dragging it moves it."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "Divider { width: 1; height: 1fr; }"

    class Dragged(Message):
        """The mouse holds the line at `screen_x`; `done` when it lets go."""

        def __init__(self, screen_x: int, done: bool) -> None:
            super().__init__()
            self.screen_x = screen_x
            self.done = done

    def __init__(self) -> None:
        super().__init__()
        self.palette = Palette(Skin())
        self._joints: frozenset[int] = frozenset()
        self._held = False

    def use(self, palette: Palette) -> None:
        """Draw in the colours of another skin."""
        self.palette = palette
        self.refresh()

    def join(self, joints: Collection[int]) -> None:
        """Meet lines to the right at these rows."""
        if (new := frozenset(joints)) != self._joints:
            self._joints = new
            self.refresh()

    def render_line(self, y: int) -> Strip:
        style = self.palette.style("accent" if self._held else "rule")
        return Strip([Segment("├" if y in self._joints else "│", style)], 1)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self.capture_mouse()
        self._held = True
        self.refresh()
        event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._held:
            self.post_message(self.Dragged(event.screen_x, done=False))
            event.stop()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._held:
            self.release_mouse()
            self._held = False
            self.refresh()
            self.post_message(self.Dragged(event.screen_x, done=True))
            event.stop()

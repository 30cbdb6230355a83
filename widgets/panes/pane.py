"""Panes of the workbench, the bar between them, and rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from themes.states import glyph
from widgets.painting.filtered_rows import DrawnRow
from widgets.rows.row_list import Draw, RowList
from widgets.rows.row_text import fit, one_line, spread, to_strip


@dataclass(frozen=True, slots=True)
class Summary:
    """A short summary of a pane: `TODO 3/5 ▶ Use Decimal…`."""

    title: str
    figure: str
    note: str = ""
    """The current activity; cut first if there is too little room."""
    alerts: int = 0
    """The number of things that wait for the user, shown as `◆1`."""


EVERY_PANE = "jkgG move · ? keys · / filter · y copy · nN match · space fold · <> width · esc back"


class Pane(RowList):
    """A side pane: a list of rows under a title row with a figure at its right end."""

    DEFAULT_CLASSES = "pane"

    FLEXIBLE: ClassVar[bool] = False
    """Whether the pane takes the height that others leave."""
    KEYS: ClassVar[str] = "⏎ open · "
    """Hints for the pane's own keys, shown below the panes before those of every pane."""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "fold", "Fold", id="pane.fold")]

    class Reshaped(Message):
        """The pane wants another height, was hidden or shown, or its summary changed."""

        def __init__(self, pane: Pane) -> None:
            super().__init__()
            self.pane = pane

        @property
        def control(self) -> Pane:
            return self.pane

    class FoldAsked(Message):
        """The user folded or unfolded the pane."""

        def __init__(self, pane: Pane) -> None:
            super().__init__()
            self.pane = pane

        @property
        def control(self) -> Pane:
            return self.pane

    def __init__(
        self,
        name: str,
        draw: Draw,
        *,
        title: str,
        search_text: Callable[[int], str],
        empty: str,
        follow: bool = False,
    ) -> None:
        super().__init__(
            draw,
            search_text=search_text,
            empty=empty,
            follow=follow,
            background="surface",
        )
        self.label = name
        """The name of the pane in `PaneBar` messages and in the stored state."""
        self.title = title
        self.folded = False
        self.jump_key = ""
        """In jump mode, the key that focuses this pane."""
        self.over = False
        """Whether the pane covers the conversation until esc."""

    @property
    def vacant(self) -> bool:
        """True if there is nothing to show and no room is needed."""
        return False

    def wake(self) -> None:
        """Show the current content, because the user opens the pane."""

    def wanted_lines(self, width: int) -> int:
        """Return how many lines the content needs at `width` cells; 1 for the hint of an empty pane."""
        return max(self.count, 1)

    def figure(self) -> str:
        """Return the count shown at the right end of the title row; empty if there is none."""
        return str(self.count) if self.count else ""

    def summary(self) -> Summary:
        """Return a short summary of the pane."""
        return Summary(self.title, self.figure())

    def heading(self, width: int) -> Text:
        left = Text(" ", self.ink("text"))
        if self.jump_key:
            left.append(f" {self.jump_key} ", self.palette.style("background", "accent", bold=True))
            left.append(" ")
        if self.folded and not self.over:
            left.append("▸ ", self.ink("dim"))
        left.append(self.title, self.ink("accent" if self.has_focus else "dim", bold=True))
        return spread(left, self.title_end().append(" "), width)

    def title_end(self) -> Text:
        """Return the text at the right end of the title row."""
        if self.over:
            return Text(f"{self.figure()}  esc back", self.ink("dim"))
        if self.needle:
            return Text(f"{self.shown_count} of {self.count}", self.ink("dim"))
        return Text(self.figure(), self.ink("dim"))

    def reshaped(self) -> None:
        """Notify the workbench that height or summary may have changed."""
        if self.is_running:
            self.post_message(self.Reshaped(self))

    def action_fold(self) -> None:
        if not self.over:
            self.post_message(self.FoldAsked(self))

    def on_click(self, event: events.Click) -> None:
        if event.y == 0:
            self.action_fold()
            event.stop()
            event.prevent_default()


GAP = 2
NOTE_CELLS = 6
"""The minimum width at which a note is shown."""


class BarPart(NamedTuple):
    """One pane in the bar. `name` is reported when it is chosen; `key` is its letter in jump mode."""

    name: str
    summary: Summary
    key: str = ""


class PaneBar(DrawnRow, can_focus=True):
    """A bar such as `TODO 3/5 ▶ Use Decimal…  AGENTS 2 ◆1  LOG 31`; every part opens its pane."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "PaneBar { height: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1)", "Left", show=False, id="bar.left"),
        Binding("right,l", "move(1)", "Right", show=False, id="bar.right"),
        Binding("enter", "open", "Open", id="bar.open"),
    ]

    class Chosen(Message):
        """Request to open the pane `name`."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.parts: tuple[BarPart, ...] = ()
        self._cursor = 0

    def show(self, parts: Sequence[BarPart]) -> None:
        """Show these panes, in this order."""
        if (new := tuple(parts)) != self.parts:
            self.parts = new
            self._cursor = min(self._cursor, max(len(new) - 1, 0))
            self.refresh()

    def action_move(self, by: int) -> None:
        if self.parts:
            self._cursor = (self._cursor + by) % len(self.parts)
            self.refresh()

    def action_open(self) -> None:
        if self.parts:
            self.post_message(self.Chosen(self.parts[self._cursor].name))

    def on_click(self, event: events.Click) -> None:
        for index, (part, start, text) in enumerate(self._place_parts()):
            if start <= event.x < start + text.cell_len:
                self._cursor = index
                self.post_message(self.Chosen(part.name))
                event.stop()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def render_line(self, y: int) -> Strip:
        base = self.palette.style("text")
        line = Text(style=base)
        if y == 0:
            for _part, start, text in self._place_parts():
                line.append(" " * (start - line.cell_len)).append_text(text)
        return to_strip(line, self.size.width, base, self.app.console)

    def _place_parts(self) -> list[tuple[BarPart, int, Text]]:
        """Return the parts with their first cells. Notes use spare room; parts without room are dropped."""
        texts = [self._text(index) for index in range(len(self.parts))]
        notes = [Text(one_line(part.summary.note, 200), self.palette.style("dim")) for part in self.parts]
        spare = self.size.width - 2 - sum(text.cell_len for text in texts) - GAP * (len(texts) - 1)
        placed: list[tuple[BarPart, int, Text]] = []
        x = 1
        for part, text, note in zip(self.parts, texts, notes, strict=True):
            if note.cell_len and spare - 1 >= min(note.cell_len, NOTE_CELLS):
                note = fit(note, spare - 1)
                spare -= note.cell_len + 1
                head, badge = self._split(part, text)
                text = Text.assemble(head, " ", note, badge)
            if x + text.cell_len > self.size.width:
                break
            placed.append((part, x, text))
            x += text.cell_len + GAP
        return placed

    def _split(self, part: BarPart, text: Text) -> tuple[Text, Text]:
        """Split the text into the part before its `◆` badge, and the badge."""
        at = len(text.plain) - len(_badge(part.summary))
        return text[:at], text[at:]

    def _text(self, index: int) -> Text:
        part = self.parts[index]
        lit = self.has_focus and index == self._cursor
        text = Text()
        if part.key:
            text.append(f" {part.key} ", self.palette.style("background", "accent", bold=True)).append(" ")
        text.append(part.summary.title, self.palette.style("accent" if lit else "dim", bold=True))
        if part.summary.figure:
            text.append(f" {part.summary.figure}", self.palette.style("text"))
        text.append(_badge(part.summary), self.palette.style("warning", bold=True))
        if lit:
            text.stylize("reverse")
        return text


def _badge(summary: Summary) -> str:
    return f" {glyph('needs you')}{summary.alerts}" if summary.alerts else ""


class RegionRule(DrawnRow):
    """A horizontal line. `joint` is the column where the divider meets it, or None."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "RegionRule { height: 1; }"

    def __init__(
        self, *, mark: str = "─", background: str = "background", id: str | None = None, classes: str = ""
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.joint: int | None = None
        self.hint = Text()
        """Text that is shown on the line for a while."""
        self._mark = mark
        self._background = background

    def join(self, joint: int | None) -> None:
        """Set the column where the divider meets the line."""
        if joint != self.joint:
            self.joint = joint
            self.refresh()

    def show_hint(self, hint: Text) -> None:
        """Show a text on the line; an empty text removes it."""
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
    """The vertical line between conversation and panes; it can be dragged."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "Divider { width: 1; height: 1fr; }"

    class Dragged(Message):
        """The divider was dragged to `screen_x`; `done` once the mouse button is released."""

        def __init__(self, screen_x: int, done: bool) -> None:
            super().__init__()
            self.screen_x = screen_x
            self.done = done

    def __init__(self) -> None:
        super().__init__()
        self._joints: frozenset[int] = frozenset()
        self._held = False

    def join(self, joints: Collection[int]) -> None:
        """Set the rows where horizontal lines meet the divider from the right."""
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

"""The side panes in one line, for screens too narrow to show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from themes.skin import Skin
from widgets.painting.filtered_rows import DrawnRow
from widgets.palette import Palette
from widgets.rows.row_text import fit, one_line, to_strip

if TYPE_CHECKING:
    from widgets.panes.pane import Summary

GAP = 2
NOTE_CELLS = 6
"""The least of a note that is worth showing."""


class BarPart(NamedTuple):
    """One pane in the bar. `name` comes back when it is chosen; `key` is its letter in jump mode."""

    name: str
    summary: Summary
    key: str = ""


class PaneBar(DrawnRow, can_focus=True):
    """`TODO 3/5 ▶ Use Decimal…  AGENTS 2 ◆1  LOG 31`; every part opens its pane."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "PaneBar { height: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1)", "Left", show=False, id="bar.left"),
        Binding("right,l", "move(1)", "Right", show=False, id="bar.right"),
        Binding("enter", "open", "Open", id="bar.open"),
    ]

    class Chosen(Message):
        """The person wants to see the pane `name`."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.palette = Palette(Skin())
        self.parts: tuple[BarPart, ...] = ()
        self._cursor = 0

    def use(self, palette: Palette) -> None:
        """Draw in the colours of another skin."""
        self.palette = palette
        self.refresh()

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
        for index, (part, start, text) in enumerate(self._placed()):
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
            for _part, start, text in self._placed():
                line.append(" " * (start - line.cell_len)).append_text(text)
        return to_strip(line, self.size.width, base, self.app.console)

    def _placed(self) -> list[tuple[BarPart, int, Text]]:
        """Parts with their first cell. Notes share what the rest leaves; parts without room go."""
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
        """The text before its `◆` badge, and the badge."""
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
    return f" ◆{summary.alerts}" if summary.alerts else ""

"""The list of settings: one line each, headings between them that the cursor passes over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message

from app.tui.screens.settings.settings_rows import SettingRow
from widgets.rows.row_list import RowList
from widgets.rows.row_text import fit, spread

NAME_CELLS, NAME_SHARE = 27, 0.42
"""Cells that the names have at most, and the share of a narrow screen they have instead."""


class SettingsList(RowList):
    """Draws `SettingRow`s. Tells with `Moved` that the cursor stands on another one."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "open", "Change", show=False)]

    class Moved(Message):
        """The cursor stands on another row."""

    def __init__(self, rows: Sequence[SettingRow], *, id: str | None = None) -> None:
        self.rows = list(rows)
        super().__init__(
            self._lines,
            search_text=lambda index: self.rows[index].searched,
            count=len(self.rows),
            id=id,
        )

    @property
    def row(self) -> SettingRow | None:
        """The row under the cursor."""
        at = self.cursor
        return self.rows[at] if at is not None and at < len(self.rows) else None

    def show(self, rows: Sequence[SettingRow]) -> None:
        """Show these rows instead; the cursor stays on the setting it was on."""
        key = self.row.key if self.row is not None else ""
        same = [row.key for row in rows] == [row.key for row in self.rows]
        self.rows = list(rows)
        if same:
            self.repaint()
        else:
            self.reset(len(rows))
            self.move_to(next((at for at, row in enumerate(rows) if row.key == key), 0))
        self.cursor_moved()

    def on_mount(self) -> None:
        self.action_first()

    def action_move(self, lines: int) -> None:
        super().action_move(lines)
        self._leave_heading(1 if lines > 0 else -1)

    def action_page(self, direction: int) -> None:
        super().action_page(direction)
        self._leave_heading(direction)

    def action_first(self) -> None:
        super().action_first()
        self._leave_heading(1)

    def repaint(self) -> None:
        """Draw every line anew. A filter may have put the cursor on a heading."""
        super().repaint()
        if self.is_mounted:
            self._leave_heading(1)
            self.cursor_moved()

    def _leave_heading(self, step: int) -> None:
        """Go on to a setting; above the first one there is only its heading, so turn round there."""
        for direction in (step, -step):
            before = None
            while self.row is not None and self.row.kind == "heading" and self.cursor != before:
                before = self.cursor
                super().action_move(direction)

    def cursor_moved(self) -> None:
        super().cursor_moved()
        self.post_message(self.Moved())

    def _lines(self, index: int, width: int) -> list[Text]:
        row = self.rows[index]
        if row.kind == "heading":
            line = Text(" ").append(row.name, self.ink("accent", bold=True))
            line = fit(line.append(f"  {row.value}", self.ink("dim")), width)
            return [line] if index == 0 else [Text(), line]
        return [self._line(row, width)]

    def _line(self, row: SettingRow, width: int) -> Text:
        cells = min(NAME_CELLS, int(width * NAME_SHARE))
        name = fit(Text(row.name, self.ink("text")), cells - 1)
        name.append(" " * (cells - name.cell_len))
        changed = bool(row.origin)
        value = Text(row.value, self.ink("accent" if changed else "dim"))
        right = Text(row.origin or "default", self.ink("warning" if row.overridden else "dim"))
        if width >= 76:
            right.append(f" · {row.effect}".ljust(len(" · next session")), self.ink("dim"))
        gutter = Text(" ◆ " if row.overridden else " ● " if row.is_own else "   ")
        gutter.stylize(self.ink("warning" if row.overridden else "accent"))
        left = Text.assemble(gutter, name, value)
        return spread(left, right.append(" "), width)

"""The live task list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from tools.context import Todo, TodoStatus
from widgets.panes.pane import Pane, Summary
from widgets.row_text import one_line

LOOKS: Mapping[TodoStatus, tuple[str, str, str]] = {
    "completed": ("✓", "success", "dim"),
    "in_progress": ("▶", "accent", "text"),
    "pending": ("○", "dim", "text"),
    "cancelled": ("✗", "error", "dim"),
}
"""By status: the glyph, its role, the role of the text."""


class TodoPane(Pane):
    """What the agent has set out to do, one task a row, and how far it is."""

    def __init__(self) -> None:
        super().__init__(
            "todo",
            self._row,
            title="TODO",
            search_text=lambda index: one_line(self.items[index].content),
            empty="Longer work is listed here as tasks.",
        )
        self.items: tuple[Todo, ...] = ()

    def show(self, items: tuple[Todo, ...]) -> None:
        """Show the whole list as it is now; the task in progress comes into view."""
        if items == self.items:
            return
        self.items = items
        self.reset(len(items))
        if not self.has_focus:
            self._reveal_current()
        self.reshaped()

    def _reveal_current(self) -> None:
        open_tasks = ("in_progress", "pending")
        current = next((i for s in open_tasks for i, item in enumerate(self.items) if item.status == s), None)
        if current is not None and self.is_running:
            self.move_to(current)

    def on_resize(self) -> None:
        if not self.has_focus:
            self._reveal_current()

    def wanted_lines(self, width: int) -> int:
        if not self.is_running:
            return max(self.count, 1)
        return max(sum(len(self._row(index, width)) for index in range(self.count)), 1)

    def figure(self) -> str:
        """`3/5`: completed of all that were not cancelled."""
        wanted = [item for item in self.items if item.status != "cancelled"]
        done = sum(item.status == "completed" for item in wanted)
        return f"{done}/{len(wanted)}" if self.items else ""

    def summary(self) -> Summary:
        current = next((item for item in self.items if item.status == "in_progress"), None)
        note = f"▶ {one_line(current.content, 200)}" if current else ""
        return Summary(self.title, self.figure(), note)

    def _row(self, index: int, width: int) -> Sequence[Text]:
        item = self.items[index]
        glyph, glyph_role, role = LOOKS[item.status]
        style = self.ink(role, bold=item.status == "in_progress")
        content = one_line(item.content) or "–"
        wrapped = Text(content, style).wrap(self.app.console, max(width - 4, 1))
        first = Text.assemble(" ", (glyph, self.ink(glyph_role)), " ", wrapped[0])
        return [first, *(Text("   ").append_text(line) for line in wrapped[1:])]

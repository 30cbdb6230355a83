"""The screen of grants and pending approvals, where the person can revoke them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType

from agent.errors import HermesError
from agent.events import ApprovalAsked
from agent.safety.grants import Grant
from app.tui.screens.dialog import ConfirmDialog
from app.tui.screens.entry_page import DetailScreen
from app.tui.screens.page import Page, line
from widgets.rows.row_list import RowList
from widgets.rows.row_text import fit

if TYPE_CHECKING:
    from agent.api.session import Approvals

POLL = 0.5
"""Seconds between two checks of grants and requests."""
EMPTY = "No lasting yes was given. A dialog offers “for this session” and “always”; both are listed here."

Row = Grant | ApprovalAsked


class ApprovalsScreen(Page[None]):
    """Lists the grants in effect and the pending approvals."""

    heading = "Approvals"
    keys = "x take back · ⏎ in full · / filter · y copy · ? help · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("x", "revoke", "Take back", id="approvals.revoke")]

    def __init__(self, approvals: Approvals) -> None:
        self._lines = ApprovalRows()
        super().__init__(self._lines)
        self._approvals = approvals

    def on_mount(self) -> None:
        self._look()
        self.set_interval(POLL, self._look)

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        self.app.push_screen(DetailScreen("Approval", about(self._lines.row(event.index))))

    @work(exclusive=True, group="revoke")
    async def action_revoke(self) -> None:
        cursor = self._lines.cursor
        row = self._lines.row(cursor) if cursor is not None else None
        if row is None:
            return
        if not isinstance(row, Grant):
            self.notify("This one waits for an answer; its dialog takes it.", markup=False)
            return
        question = f"Take back the yes to: {row.rule}\n\nFrom now on it is asked again."
        if not await self.app.push_screen_wait(ConfirmDialog(question, "Take back", "Keep")):
            return
        try:
            gone = not await self._approvals.revoke(row)
        except HermesError as error:
            self.notify(line(str(error)), severity="error", markup=False)
            return
        self.notify("It was gone already." if gone else "Taken back.", markup=False)
        self._look()

    @work(exclusive=True, group="look")
    async def _look(self) -> None:
        """Show the current grants and pending approvals."""
        try:
            grants = await self._approvals.grants()
            pending = [each for each in await self._approvals.pending() if isinstance(each, ApprovalAsked)]
        except HermesError as error:
            self.state(line(str(error)))
            return
        self._lines.show([*pending, *reversed(grants)])
        always = sum(each.scope == "always" for each in grants)
        waiting = len(self._lines) - len(grants)
        counts = ((waiting, "waiting"), (len(grants) - always, "for this session"), (always, "always"))
        self.state(" · ".join(f"{count} {what}" for count, what in counts if count) or "none")
        self.offer(len(self._lines) > 0)


class ApprovalRows(RowList):
    """One row for each approval: pending ones first, then the newest grants."""

    def __init__(self) -> None:
        super().__init__(self._draw_row, search_text=self._plain, empty=EMPTY)
        self._rows: list[Row] = []

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> Row:
        """Return the approval of a row."""
        return self._rows[index]

    def show(self, rows: list[Row]) -> None:
        """Replace the rows; the cursor stays on its approval."""
        if [each.id for each in rows] == [each.id for each in self._rows]:
            return
        cursor = self.cursor
        chosen = self._rows[cursor].id if cursor is not None else None
        self._rows = rows
        self.reset(len(rows))
        place = next((place for place, each in enumerate(rows) if each.id == chosen), None)
        if place is not None:
            self.move_to(place)

    def _plain(self, index: int) -> str:
        return line(about(self._rows[index]))

    def _draw_row(self, index: int, width: int) -> list[Text]:
        row = self._rows[index]
        drawn = Text(" ", self.ink("text"))
        if isinstance(row, Grant):
            drawn.append("✓ " if row.scope == "session" else "∞ ", self.ink("accent"))
            drawn.append(f"{'session' if row.scope == 'session' else 'always':<9}", self.ink("text"))
            given = time.strftime("%m-%d %H:%M", time.localtime(row.given))
            drawn.append(f"{given} {line(row.by)[:8]:<9}", self.ink("dim"))
            drawn.append(line(row.rule), self.ink("text"))
        else:
            drawn.append("◆ ", self.ink("warning")).append(f"{'waiting':<9}", self.ink("warning"))
            drawn.append(f"{line(row.agent)[:20]:<21}", self.ink("dim"))
            drawn.append(line(f"{row.tool}: {row.headline}"), self.ink("text"))
        return [fit(drawn, width - 1)]


def about(row: Row) -> str:
    """Return all details of an approval. Pure."""
    if isinstance(row, ApprovalAsked):
        lines = [row.headline, "", f"tool      {row.tool}", f"agent     {row.agent}"]
        return "\n".join([*lines, *(f"reason    {each}" for each in row.reasons)])
    given = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.given))
    until = "it is taken back" if row.scope == "always" else "the session ends"
    if row.expires is not None:
        until = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.expires))
    return "\n".join(
        [
            row.rule,
            "",
            f"holds     until {until}",
            f"where     {row.workspace}",
            f"given     {given} by {row.by}, asked by {row.agent}",
            f"session   {row.session or '–'}",
            f"kind      {row.kind}",
            f"id        {row.id}",
            "",
            "It covers exactly:",
            *(f"  {each}" for each in row.covers[1:]),
        ]
    )

"""The screen of grants and pending approvals, where the person can revoke them."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from agent.events import ApprovalAsked
from agent.safety.gate import Grant
from app.tui.screens.dialog import DetailScreen
from app.tui.screens.entry_page import EntryRows, ListPage, change_entry, load
from app.tui.screens.page import line
from themes.states import glyph
from widgets.rows.row_text import fit

if TYPE_CHECKING:
    from agent.api.session import Approvals

POLL = 0.5
"""Seconds between two checks of grants and requests."""
EMPTY = "No lasting yes was given. A dialog offers “for this session” and “always”; both are listed here."

Row = Grant | ApprovalAsked


class ApprovalsScreen(ListPage[None, Row]):
    """Lists the grants in effect and the pending approvals."""

    heading = "Approvals"
    keys = "⏎ in full · d take back · u undo · / filter · y copy · ? keys · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d,delete", "revoke", "Take back the yes", id="approvals.revoke"),
        Binding("u", "undo", "Give the yes again that was taken back here last", id="approvals.undo"),
    ]

    def __init__(self, approvals: Approvals) -> None:
        super().__init__(ApprovalRows())
        self._approvals = approvals

    def on_mount(self) -> None:
        self._look()
        self.set_interval(POLL, self._look)

    def open_entry(self, entry: Row) -> None:
        self.app.push_screen(DetailScreen("Approval", about(entry)))

    @change_entry
    async def action_revoke(self, row: Row) -> None:
        if not isinstance(row, Grant):
            self.notify("This one waits for an answer; its dialog takes it.", markup=False)
            return
        if not await self._approvals.revoke(row):
            self.notify("It was gone already.", markup=False)
            return
        self.undo.append(partial(self._give_again, row))
        self.notify("Taken back; from now on it is asked again. u undoes that.", markup=False)
        self._look()

    async def _give_again(self, grant: Grant) -> None:
        await self._approvals.give(grant)
        self._look()

    @load
    async def _look(self) -> None:
        """Show the current grants and pending approvals."""
        grants = await self._approvals.grants()
        pending = [each for each in await self._approvals.pending() if isinstance(each, ApprovalAsked)]
        always = sum(each.scope == "always" for each in grants)
        counts = ((len(pending), "waiting"), (len(grants) - always, "for this session"), (always, "always"))
        state = " · ".join(f"{count} {what}" for count, what in counts if count)
        self.list_entries([*pending, *reversed(grants)], state or "none")


class ApprovalRows(EntryRows[Row]):
    """One row for each approval: pending ones first, then the newest grants."""

    def __init__(self) -> None:
        super().__init__(key=lambda row: row.id, words=lambda row: line(about(row)), empty=EMPTY)

    def draw_entry(self, entry: Row, width: int) -> list[Text]:
        drawn = Text(" ", self.ink("text"))
        if isinstance(entry, Grant):
            drawn.append(f"{glyph('done')} " if entry.scope == "session" else "∞ ", self.ink("accent"))
            drawn.append(f"{entry.scope:<9}", self.ink("text"))
            given = time.strftime("%m-%d %H:%M", time.localtime(entry.given))
            drawn.append(f"{given} {line(entry.by)[:8]:<9}", self.ink("dim"))
            drawn.append(line(entry.rule), self.ink("text"))
        else:
            drawn.append(f"{glyph('needs you')} ", self.ink("warning")).append(
                f"{'waiting':<9}", self.ink("warning")
            )
            drawn.append(f"{line(entry.agent)[:20]:<21}", self.ink("dim"))
            drawn.append(line(f"{entry.tool}: {entry.headline}"), self.ink("text"))
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

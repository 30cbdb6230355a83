"""The screens of approvals and of the audit log."""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType

from agent.events import ApprovalAsked
from agent.safety.audit.check import AuditReport, verify
from agent.safety.audit.log import AuditEntry, AuditError, AuditTail, asker, files
from agent.safety.grants import Grant
from app.tui.screens.dialog import DetailScreen
from app.tui.screens.entry_page import EntryRows, FollowedRows, ListPage, change_entry, load
from app.tui.screens.page import Page, line
from themes.states import glyph, state_of
from tools.text.words import plural
from widgets.rows.row_list import RowList
from widgets.rows.row_text import fit

if TYPE_CHECKING:
    from agent.api.session import Approvals

AUDIT_POLL = 0.5
"""Seconds between two reads of the log."""


class AuditScreen(Page[None]):
    """The screen of the audit log in `folder`, followed until the screen closes."""

    heading = "Audit"
    keys = "⏎ in full · s refused only · F5 verify · / filter · ? keys · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5,v", "verify", "Check that the log is as it was written", id="audit.verify"),
        Binding("s", "refused", "Everything, or what was refused", id="audit.refused"),
    ]

    def __init__(self, folder: Path) -> None:
        self._lines = AuditRows()
        super().__init__(self._lines)
        self._folder = folder
        self._checked = ""

    def on_mount(self) -> None:
        self._follow()

    @work(exclusive=True, group="follow")
    async def _follow(self) -> None:
        tail = AuditTail(self._folder, AuditRows.kept)
        while True:
            try:
                self._lines.written = bool(await asyncio.to_thread(files, self._folder))
                self._lines.take(await asyncio.to_thread(tail.read))
            except AuditError as error:
                self._lines.explain(str(error))
            self._show_state()
            await asyncio.sleep(AUDIT_POLL)

    @work(exclusive=True, group="verify")
    async def action_verify(self) -> None:
        self._checked = "checking …"
        self._show_state()
        try:
            report = await asyncio.to_thread(verify, self._folder)
        except AuditError as error:
            self._checked = "could not be checked"
            self.notify(line(str(error)), severity="error", markup=False)
        else:
            self._checked = "as it was written" if report.sound else "not as it was written"
            if not report.sound or report.notes:
                self.app.push_screen(DetailScreen("Audit", report_text(report)))
        self._show_state()

    def action_refused(self) -> None:
        self._lines.refused = not self._lines.refused
        self._lines.accept_again()
        self._show_state()

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        record = self._lines.entries[event.index].record
        self.app.push_screen(DetailScreen("Ruling", json.dumps(record, indent=2, ensure_ascii=False)))

    def _show_state(self) -> None:
        lines = self._lines
        number = f"{lines.count:,} refused" if lines.refused else plural(lines.count, "ruling")
        if lines.written and not (lines.count or lines.refused or lines.problem):
            lines.explain("No line of it can be read; F5 says why.")
        self.offer(lines.count > 0 or lines.refused or lines.written)
        following = "following" if lines.follows else ""
        self.state(" · ".join(filter(None, (number, following, self._checked))))


class AuditRows(FollowedRows[AuditEntry]):
    """One row per permission decision in the audit log."""

    written = False
    """True if the log has files."""

    def __init__(self) -> None:
        super().__init__(words=_words, empty=self.hint(False))
        self.refused = False
        """True if only refused actions are shown."""

    def accepts(self, entry: AuditEntry) -> bool:
        return not self.refused or entry.outcome not in ("allowed", "")

    def hint(self, some: bool) -> str:
        return "Nothing was refused. s shows all." if some else "No action was checked yet."

    def draw_entry(self, entry: AuditEntry) -> Text:
        glyph, role, *_ = state_of(entry.outcome or "skipped")
        moment = time.strftime("%m-%d %H:%M:%S", time.localtime(entry.time))
        row = Text(" ", self.ink("text")).append(f"{glyph} ", self.ink(role))
        row.append(f"{moment} ", self.ink("dim"))
        row.append(f"{line(entry.judge)[:6]:<7}", self.ink("dim"))
        row.append(f"{line(entry.tool)[:14]:<15}", self.ink("text"))
        if who := asker(entry):
            row.append(f"{line(who)}: ", self.ink("dim"))
        return row.append(line(entry.headline), self.ink("text"))


def _words(entry: AuditEntry) -> str:
    return line(
        f"{entry.tool} {entry.headline} {entry.outcome} {entry.judge} "
        f"{entry.agent} {entry.agent_name} {entry.session}"
    )


def report_text(report: AuditReport) -> str:
    """Return the result of verifying the audit log as text: counts, then problems and notes. Pure."""
    lines = [f"{plural(report.records, 'line')} in {plural(report.files, 'file')}", ""]
    for each in (*report.problems, *report.notes):
        place = f"{each.file}:{each.line}" if each.line else each.file
        lines.append(f"{glyph('failed' if each in report.problems else 'skipped')} {place}: {each.sentence}")
    return "\n".join(lines)


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
        """Read the current grants and pending approvals, and show them."""
        grants = await self._approvals.grants()
        pending = [each for each in await self._approvals.pending() if isinstance(each, ApprovalAsked)]
        always = sum(each.scope == "always" for each in grants)
        counts = ((len(pending), "waiting"), (len(grants) - always, "for this session"), (always, "always"))
        state = " · ".join(f"{count} {what}" for count, what in counts if count)
        self.list_entries([*pending, *reversed(grants)], state or "none")


class ApprovalRows(EntryRows[Row]):
    """One row for each approval: pending requests first, then grants, newest first."""

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
    """Return the details of a pending approval or a grant as text. Pure."""
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

"""The list of sessions: search, preview, resume, rename, delete."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, work
from textual.app import App, ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from agent.core.store.nodes import Node, Session
from agent.errors import HermesError
from app.tui.screens.closable import ClosableModal
from app.tui.screens.dialog import TextDialog
from app.tui.screens.page import HELP, Field, KeyLine, MarkedList, ScreenHeader, line
from themes.states import IN_USE, glyph
from tools.text.safe_text import clean, truncate
from tools.text.words import ago

if TYPE_CHECKING:
    from agent.session.conversation.stored_sessions import StoredSessions

EMPTY = "No sessions yet. What is said in one is kept, and listed here."
BACK = "esc back"
KEYS = f"⏎ resume · / search · r rename · d delete · u undo · ? keys · {BACK}"
BESIDE = 72
"""Columns from which there is room for a preview next to the list."""
SHOWN = 200
"""Sessions in the list; a search finds older ones."""
PREVIEWED = 40
"""Nodes at the end of a session that the preview shows."""
PREVIEW_CHARS = 1_500
SEARCH_DELAY = 0.15
"""Seconds without a key before the store is searched."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session in the list; `snippet` is the text around a search match."""

    session: Session
    snippet: str = ""


class SessionsScreen(ClosableModal[str | None]):
    """The list of sessions. Its result is the id of the session to open, or None."""

    CSS_PATH = "sessions.tcss"
    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back"),
        Binding("slash", "search", "search"),
        Binding("r", "rename", "Rename"),
        Binding("d,delete", "delete", "Delete, when this list is left"),
        Binding("u", "undo", "Bring back the session deleted last"),
        Binding("y", "copy", "Copy the id"),
        Binding("j", "move(1)", "Down", show=False),
        Binding("k", "move(-1)", "Up", show=False),
        Binding("g", "edge(0)", "First", show=False),
        Binding("G", "edge(-1)", "Last", show=False),
        HELP,
    ]

    def __init__(self, stored: StoredSessions, current: str, now: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._stored = stored
        self._current = current
        self._now = now
        self._rows: dict[str, SessionRow] = {}
        self._pause: Timer | None = None
        self._listed: str | None = None
        self._previewed: str | None = None
        self._deleted: list[Session] = []
        """Sessions that are deleted when the list is left, the last one last."""

    @property
    def is_settled(self) -> bool:
        """True once list and preview are up to date with the search text and the cursor."""
        row = self._highlighted_row()
        shown = row is None or row.session.id == self._previewed
        return self._listed == self.query_one(Input).value and shown

    def compose(self) -> ComposeResult:
        yield ScreenHeader("Sessions")
        yield Field(placeholder="/ search in everything that was said", compact=True, id="sessions-search")
        with Horizontal():
            yield MarkedList(id="sessions-list", compact=True)
            with VerticalScroll(id="sessions-preview", can_focus=False):
                yield Static(id="sessions-text")
        yield KeyLine(KEYS)

    def on_mount(self) -> None:
        self._fill("")

    def on_key(self, event: events.Key) -> None:
        """Start a search with a letter that is not a key of this screen."""
        typed, field = event.character or "", self.query_one(Input)
        if typed.isalnum() and not field.has_focus and event.key not in self.active_bindings:
            event.stop()
            field.focus()
            field.insert_text_at_cursor(typed)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < BESIDE, "narrow")

    @work(exclusive=True, group="list")
    async def _fill(self, text: str) -> None:
        try:
            rows = await self._search_rows(text) if text.strip() else await self._newest()
        except HermesError as error:
            said = Content.assemble((f"{glyph('failed')} {line(str(error))}", "$text-error"))
            self.query_one("#sessions-text", Static).update(said)
            self.query_one(KeyLine).say(BACK)
            self.add_class("none")
            return
        hidden = {session.id for session in self._deleted}
        rows = [row for row in rows if row.session.id not in hidden]
        self._rows = {row.session.id: row for row in rows}
        self._previewed = None
        listed = self.query_one(OptionList)
        listed.clear_options()
        now = self._now()
        listed.add_options([Option(label(row, now, self._current), id=row.session.id) for row in rows])
        self.set_class(not rows, "none")
        self.query_one(KeyLine).say(KEYS if rows else f"/ search · {BACK}" if text.strip() else BACK)
        if rows:
            # The open session is the newest as a rule; the one to go to comes after it.
            listed.highlighted = int(len(rows) > 1 and rows[0].session.id == self._current)
        else:
            hint = "Nothing found; try fewer words." if text.strip() else EMPTY
            self.query_one("#sessions-text", Static).update(Content(hint))
        self._listed = text

    async def _newest(self) -> list[SessionRow]:
        return [SessionRow(session) for session in await self._stored.newest(SHOWN)]

    async def _search_rows(self, text: str) -> list[SessionRow]:
        hits = await self._stored.search(text)
        snippets: dict[str, str] = {}
        for hit in hits.hits:
            snippets.setdefault(hit.session, hit.snippet)
        return [SessionRow(await self._stored.session(id), snippet) for id, snippet in snippets.items()]

    @work(exclusive=True, group="preview")
    async def _preview(self, session: str) -> None:
        try:
            nodes = await self._stored.ending(session, PREVIEWED)
        except HermesError as error:
            self.query_one("#sessions-text", Static).update(Content(line(str(error))))
            return
        self.query_one("#sessions-text", Static).update(preview(nodes))
        self._previewed = session
        self.query_one("#sessions-preview", VerticalScroll).scroll_end(animate=False)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_id is not None:
            self._preview(event.option_id)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(SEARCH_DELAY, lambda: self._fill(event.value))

    def on_input_submitted(self) -> None:
        self.query_one(OptionList).focus()

    def action_back(self) -> None:
        search = self.query_one(Input)
        if search.has_focus or search.value:
            search.value = ""
            self.query_one(OptionList).focus()
        else:
            self.dismiss(None)

    def action_search(self) -> None:
        self.query_one(Input).focus()

    def action_move(self, step: int) -> None:
        listed = self.query_one(OptionList)
        (listed.action_cursor_down if step > 0 else listed.action_cursor_up)()

    def action_edge(self, end: int) -> None:
        listed = self.query_one(OptionList)
        (listed.action_last if end else listed.action_first)()

    @work(exclusive=True, group="change")
    async def action_rename(self) -> None:
        row = self._highlighted_row()
        if row is None:
            return
        title = await self.app.push_screen_wait(TextDialog("New title", row.session.title))
        if title is None:
            return
        try:
            await self._stored.rename(row.session.id, title)
        except HermesError as error:
            self.notify(line(str(error)), severity="error", markup=False)
        self._fill(self.query_one(Input).value)

    @work(exclusive=True, group="change")
    async def action_delete(self) -> None:
        row = self._highlighted_row()
        if row is None:
            return
        if row.session.id == self._current:
            self.notify("This session is open; start a new one first (/new).", severity="warning")
            return
        self._deleted.append(row.session)
        title = title_of(row.session)
        self.notify(f"“{title}” is deleted when you leave this list; u brings it back.", markup=False)
        self._fill(self.query_one(Input).value)

    def action_copy(self) -> None:
        if row := self._highlighted_row():
            self.app.copy_to_clipboard(row.session.id)

    def action_undo(self) -> None:
        if self._deleted:
            self._deleted.pop()
            self._fill(self.query_one(Input).value)
        else:
            self.notify("Nothing was deleted here.", markup=False)

    def dismiss(self, result: str | None = None) -> AwaitComplete:
        """Leave the list, and delete what was marked for it. A program that ends before keeps all."""
        gone, self._deleted = self._deleted, []
        if gone:
            self.app.run_worker(
                partial(delete_sessions, self.app, self._stored, gone), group="delete-sessions"
            )
        return super().dismiss(result)

    def _highlighted_row(self) -> SessionRow | None:
        listed = self.query_one(OptionList)
        if listed.highlighted is None:
            return None
        return self._rows.get(listed.get_option_at_index(listed.highlighted).id or "")


async def delete_sessions(app: App[object], stored: StoredSessions, gone: Sequence[Session]) -> None:
    """Delete sessions with everything said in them; say which of them could not be."""
    for session in gone:
        try:
            await stored.delete(session.id)
        except HermesError as error:
            app.notify(line(str(error)), severity="error", markup=False)


def title_of(session: Session) -> str:
    """Return the title of a session, or a replacement if it has none."""
    return line(session.title) or "untitled"


def label(row: SessionRow, now: float, current: str) -> Content:
    """Return two lines: the title, then time and folder, or the search match. Pure."""
    session = row.session
    mark = f" {IN_USE} " if session.id == current else "   "
    below = (
        line(row.snippet) if row.snippet else f"{age(now - session.updated)} · {Path(session.workspace).name}"
    )
    return Content.assemble(mark, title_of(session), "\n   ", (below, "$text-muted"))


def preview(nodes: Sequence[Node]) -> Content:
    """Return the end of a conversation as plain text. Pure."""
    parts: list[str | tuple[str, str]] = []
    for node in nodes:
        text = clean(node.content).strip()
        if not text or (node.kind == "user" and node.data.get("origin") == "engine"):
            continue
        if node.kind == "user":
            parts.append((f"❯ {truncate(text, PREVIEW_CHARS)}\n\n", "$accent"))
        elif node.kind == "assistant":
            parts.append(f"{truncate(text, PREVIEW_CHARS)}\n\n")
        elif node.kind == "tool":
            mark = glyph(str(node.data.get("outcome", "interrupted")))
            parts.append((f"{mark} {line(str(node.data.get('tool', 'tool')))}\n\n", "$text-muted"))
    return Content.assemble(*parts) if parts else Content("Nothing was said yet.")


def age(seconds: float) -> str:
    """Return an age as `3 min ago`. Pure."""
    return f"{ago(seconds)} ago" if seconds >= 60 else "just now"

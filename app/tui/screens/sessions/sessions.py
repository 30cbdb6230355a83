"""The screens for stored sessions: the list with its preview, and the search over all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events, work
from textual.app import App, ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, VerticalScroll
from textual.content import Content
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from agent.core.store.nodes import Node, Session, readable
from agent.core.store.query_line import Query, QueryLine, parse, parse_line
from agent.core.store.search import MAX_HITS, PATIENCE, Order, SearchHit, SearchHits, spans
from agent.errors import HermesError
from agent.knowledge.recall.recall import MESSAGES
from agent.knowledge.recall.scoring import words_of
from agent.session.conversation.stored_events import call_titles
from agent.session.conversation.stored_sessions import StoredSessions
from app.tui.screens.closable import ClosableModal
from app.tui.screens.dialog import TextDialog
from app.tui.screens.page import HELP, Field, KeyLine, MarkedList, ScreenHeader, line, palette_of
from themes.skin import Skin
from themes.states import IN_USE, glyph
from tools.registry import registry
from tools.text.safe_text import clean, truncate
from tools.text.words import ago
from widgets.palette import Palette
from widgets.rows.row_list import RowList
from widgets.rows.row_text import countable, fit, spread
from widgets.transcript.wrap import TAB, expand_tabs, wrap

EMPTY = "No sessions yet. What is said in one is kept, and listed here."
BACK = "esc back"
KEYS = f"⏎ resume · / search · r rename · d delete · u undo · ? keys · {BACK}"
BESIDE = 72
"""The number of columns from which there is room for a preview next to the list."""
SHOWN = 200
"""The number of sessions in the list; a search also finds older ones."""
PREVIEWED = 40
"""The number of nodes at the end of a session that the preview shows."""
PREVIEW_CHARS = 1_500
SEARCH_DELAY = 0.15
"""Seconds without a key press before the store is searched."""


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
        """The sessions that will be deleted when the list is left, the one marked last at the end."""

    @property
    def is_settled(self) -> bool:
        """True once list and preview match the search text and the cursor."""
        row = self._highlighted_row()
        shown = row is None or row.session.id == self._previewed
        return self._listed == self.query_one(Input).value and shown

    def compose(self) -> ComposeResult:
        yield ScreenHeader("Sessions")
        said = "/ search in everything that was said"
        # The letter that begins a search would be replaced by the next one if it were selected.
        yield Field(placeholder=said, compact=True, id="sessions-search", select_on_focus=False)
        with Horizontal():
            yield MarkedList(id="sessions-list", compact=True)
            with VerticalScroll(id="sessions-preview", can_focus=False):
                yield Static(id="sessions-text")
        yield KeyLine(KEYS)

    def on_mount(self) -> None:
        self._fill("")

    def on_key(self, event: events.Key) -> None:
        """Start a search with a typed letter or digit that is not a key of this screen."""
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
        self.query_one("#sessions-text", Static).update(preview(nodes, palette_of(self.app).prompt_symbol))
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
        """Close the list, and delete the sessions marked for it. If the program ends first, all are kept."""
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
    """Delete sessions with all their messages; show a notice for each that cannot be deleted."""
    for session in gone:
        try:
            await stored.delete(session.id)
        except HermesError as error:
            app.notify(line(str(error)), severity="error", markup=False)


def title_of(session: Session) -> str:
    """Return the title of a session, or `untitled`."""
    return line(session.title) or "untitled"


def label(row: SessionRow, now: float, current: str) -> Content:
    """Return two lines: the title, then time and folder, or the text around the search match. Pure."""
    session = row.session
    mark = f" {IN_USE} " if session.id == current else "   "
    below = (
        line(row.snippet) if row.snippet else f"{age(now - session.updated)} · {Path(session.workspace).name}"
    )
    return Content.assemble(mark, title_of(session), "\n   ", (below, "$text-muted"))


def preview(nodes: Sequence[Node], symbol: str) -> Content:
    """Return the end of a conversation as text, with `symbol` before the user's messages. Pure."""
    parts: list[str | tuple[str, str]] = []
    last = ""
    titles: dict[str, str] = {}
    for node in nodes:
        titles |= call_titles(node, registry)
        text = clean(node.content).strip()
        if not text or (node.kind == "user" and node.data.get("origin") == "engine"):
            continue
        if node.kind not in ("user", "assistant", "tool"):
            continue
        if last and not last == node.kind == "tool":
            parts.append("\n")
        last = node.kind
        if node.kind == "user":
            parts.append((f"{symbol} {truncate(text, PREVIEW_CHARS)}\n", "$text-secondary"))
        elif node.kind == "assistant":
            parts.append(f"{truncate(text, PREVIEW_CHARS)}\n")
        else:
            mark = glyph(str(node.data.get("outcome", "interrupted")))
            title = titles.get(str(node.data.get("call"))) or str(node.data.get("tool", "tool"))
            parts.append((f"{mark} {line(title, PREVIEW_CHARS)}\n", "$text-muted"))
    return Content.assemble(*parts) if parts else Content("Nothing was said yet.")


def age(seconds: float) -> str:
    """Return an age such as `3 min ago`. Pure."""
    return f"{ago(seconds)} ago" if seconds >= 60 else "just now"


HINT = 'role: tool: after: before: project: branch: session:  "a phrase"  -without'
NOT_ASKED = (
    "Finds what was said and done in any session, as you type. "
    "Narrow it with words such as role:user, tool:terminal, after:7d or project:shop."
)
NOTHING = "Nothing found. Try fewer or shorter words, or take a filter away."
LOOKING = "Looking through older messages …"
NO_TITLE = "untitled"

AROUND = 240
"""The number of characters shown of each message next to the hit."""
BEFORE_MATCH, AFTER_MATCH = 500, 1_500
"""The number of characters of the hit itself shown before and after its first match."""
_MONTH = 30 * 86_400


class HitRows(RowList):
    """The hits of one search, two lines each. Keys pressed in the input field move the cursor here."""

    def __init__(self, now: Callable[[], float], moved: Callable[[], object]) -> None:
        super().__init__(self._draw_hit, search_text=lambda at: self.hits[at].snippet, empty=NOT_ASKED)
        self.can_focus = False
        self.lit = True
        self.hits: tuple[SearchHit, ...] = ()
        self._query: Query | None = None
        self._now = now
        self._moved = moved

    @property
    def current(self) -> SearchHit | None:
        """The hit under the cursor."""
        cursor = self.cursor
        return self.hits[cursor] if cursor is not None and cursor < len(self.hits) else None

    def take(
        self, hits: tuple[SearchHit, ...], query: Query, hint: str, *, keep: bool, problem: str = ""
    ) -> None:
        """Replace the hits; with `keep`, a cursor that was moved stays on its message."""
        before = self.current if keep and self.cursor else None
        self.hits, self._query, self.empty, self.problem = hits, query, hint, problem
        self.reset(len(hits))
        at = next((at for at, hit in enumerate(hits) if before and _same(hit, before)), 0)
        self.move_to(at)

    def cursor_moved(self) -> None:
        super().cursor_moved()
        self._moved()

    def _draw_hit(self, index: int, width: int) -> list[Text]:
        hit = self.hits[index]
        title = Text(" ", self.ink("text")).append(line(hit.title) or NO_TITLE, self.ink("text", bold=True))
        found = found_by(hit.ways)
        age = when(hit.created, self._now()) if hit.created else ""
        about = " · ".join(filter(None, (found, kind_of(hit), age)))
        head = spread(title, Text(about + " ", self.ink("dim")), width)
        return [head, self._snippet(hit, width)]

    def _snippet(self, hit: SearchHit, width: int) -> Text:
        text = countable(clean(hit.snippet))
        places = spans(text, self._query) if self._query is not None else []
        if places and cell_len(text[: places[0][1]]) > width - 7:
            # Cut the beginning if it would push the match off the row.
            start = max(places[0][0] - width // 4, 0)
            text, shift = "…" + text[start:], start - 1
            places = [(max(first - shift, 0), last - shift) for first, last in places if last > start]
        row = Text("   ", self.ink("text")).append(text, self.ink("dim"))
        for first, last in places:
            # Without colours, what is dim would stay dim within the match.
            row.stylize(self.palette.style("text", "match") + Style(dim=False), first + 3, last + 3)
        return fit(row, max(width - 1, 1))


class HitPreview(Widget):
    """A widget that shows the messages around a hit, scrolled to the first match."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "HitPreview { width: 1fr; height: 1fr; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.palette = Palette(Skin())
        self._lines: list[Strip] = []
        self._top = 0

    def use(self, palette: Palette) -> None:
        """Repaint in the colours of another skin."""
        self.palette = palette
        self.refresh()

    def show(self, lines: list[Strip], match: int) -> None:
        """Show `lines`, scrolled so that the line numbered `match` is visible."""
        self._lines = lines
        height = max(self.size.height, 1)
        self._top = 0 if match < height - 1 else min(match - height // 3, max(len(lines) - height, 0))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.palette.style("text")
        at = self._top + y
        if at >= len(self._lines):
            return Strip.blank(width, base)
        return self._lines[at].adjust_cell_length(width, base)


def excerpt_around(
    nodes: Sequence[Node], hit: SearchHit, query: Query, width: int, palette: Palette
) -> tuple[list[Strip], int]:
    """Return a hit's source and the messages around it as lines, and the number of the first match. Pure."""
    dim = palette.style("dim")
    is_message = hit.source == MESSAGES
    since = moment(hit.created) if hit.created else ""
    told = (line(PurePath(hit.workspace).name), since, hit.session) if is_message else (kind_of(hit), since)
    place = " · ".join(filter(None, told))
    lit = palette.style("text", "match")
    head = [Segment(line(hit.title) or NO_TITLE, palette.style("accent", bold=True)), Segment("\n")]
    rows = wrap([*head, Segment(place, dim)], width)
    match = 0
    if not is_message:
        text = expand_tabs(clean(hit.text).strip(), TAB)
        said = wrap([Segment("\n"), *_runs(text, spans(text, query), palette.style("text"), lit)], width)
        return [Strip(row) for row in [*rows, *said]], 0
    for node in nodes:
        text = excerpt(node, query, whole=node.id == hit.node)
        if not text:
            continue
        is_hit = node.id == hit.node
        said_by = who(node.kind, str(node.data.get("tool") or ""))
        rows += wrap([Segment(f"\n{said_by}", dim)], width)
        places = spans(text, query) if is_hit else []
        said = wrap(_runs(text, places, palette.style("text" if is_hit else "dim"), lit), width)
        if is_hit:
            match = len(rows) + next((at for at, row in enumerate(said) if _is_lit(row, lit)), 0)
        rows += said
    return [Strip(row) for row in rows], match


def _is_lit(row: Sequence[Segment], lit: Style) -> bool:
    return any(segment.style == lit for segment in row)


def excerpt(node: Node, query: Query, *, whole: bool) -> str:
    """Return a shortened message: with `whole` the part around the match, else the beginning. Pure."""
    text = expand_tabs(clean(readable(node.kind, node.content, node.data)).strip(), TAB)
    if not whole:
        return text if len(text) <= AROUND else text[:AROUND].rstrip() + " …"
    places = spans(text[:200_000], query)
    start = max(places[0][0] - BEFORE_MATCH, 0) if places else 0
    if start:
        # Start at a line's beginning, if there is one before the match.
        feed = text.find("\n", start, places[0][0])
        start = feed + 1 if feed >= 0 else start
    end = (places[0][0] if places else 0) + AFTER_MATCH
    return ("… " if start else "") + text[start:end].rstrip() + (" …" if end < len(text) else "")


def _runs(text: str, places: Sequence[tuple[int, int]], ink: Style, lit: Style) -> list[Segment]:
    """Split the text into segments, those at `places` highlighted."""
    runs: list[Segment] = []
    at = 0
    for first, last in places:
        runs += [Segment(text[at:first], ink), Segment(text[first:last], lit)]
        at = last
    return [*runs, Segment(text[at:], ink)]


def chips(asked: QueryLine) -> Content:
    """Return the active filters and the last error in a filter; without either, a hint. Pure."""
    parts: list[str | tuple[str, str]] = []
    for name, value in asked.chips:
        sign = "without " if name == "not" else f"{name} "
        parts += [(f" {sign}", "$text-muted on $surface"), (f"{line(value)} ", "$accent on $surface"), " "]
    if asked.notes:
        parts.append((f"! {asked.notes[-1]}", "$warning"))
    return Content.assemble(*parts) if parts else Content.styled(HINT, "$text-muted")


def found_by(ways: Sequence[str]) -> str:
    """Return the search methods that found a hit, in words. Pure."""
    return " + ".join("neighbours" if way == "nearby" else line(way) for way in ways)


NOTES = {"learnings": "learning", "skills": "skill", "memory": "note"}


def kind_of(hit: SearchHit) -> str:
    """Return the author of a hit, or its kind if it is not a message. Pure."""
    if hit.source == MESSAGES:
        return who(hit.kind, hit.tool)
    name = NOTES.get(hit.source, line(hit.source))
    return name if hit.kind == name else " ".join(filter(None, (line(hit.kind), name)))


def _same(one: SearchHit, other: SearchHit) -> bool:
    return (one.source, one.node, one.title, one.snippet) == (
        other.source,
        other.node,
        other.title,
        other.snippet,
    )


def who(kind: str, tool: str = "") -> str:
    """Return the author of a message in words. Pure."""
    if kind == "tool":
        return line(tool) or "tool"
    return {"user": "you", "assistant": "model"}.get(kind, kind)


def when(created: float, now: float) -> str:
    """Return how long ago a time was, or its date if that is more than a month. Pure."""
    seconds = now - created
    if seconds >= _MONTH:
        return time.strftime("%Y-%m-%d", time.localtime(created))
    return ago(seconds)


def moment(created: float) -> str:
    """Return a time as date and time of day. Pure."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(created))


FIRST = 24
"""The number of hits that are shown at once: a screenful, whose texts take a few milliseconds."""
ALL = 200
"""The number of hits that can be scrolled to."""
PAUSE = 0.12
"""Seconds without a key press before more hits and older messages are searched for."""
LONG = 3.0
"""The time limit in seconds of this longer search."""
WINDOW = 3
"""The number of messages shown on either side of a hit."""
SIDE_BY_SIDE = 100
"""The number of columns from which the preview is next to the hits instead of below them."""
FOUND_KEYS = "⏎ open · ↑↓ move · ^R {other} first · esc back"


class ChosenHit(NamedTuple):
    """The message to open, and the query that found it."""

    session: str
    node: int
    query: Query


class ChosenNote(NamedTuple):
    """A chosen hit that is not a message, and its kind."""

    source: str
    """`learnings`, `skills` or `memory`."""
    title: str
    text: str


class SearchScreen(ClosableModal[ChosenHit | ChosenNote | None]):
    """The search screen. Each key press starts a search and cancels the previous one.

    The newest hits appear at once; more and older hits follow after a short pause in typing.
    """

    CSS_PATH = "search.tcss"
    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", id="search.back"),
        Binding("up,ctrl+k", "move(-1)", "Previous hit", show=False, id="search.up"),
        Binding("down,ctrl+j", "move(1)", "Next hit", show=False, id="search.down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="search.page_up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="search.page_down"),
        Binding("ctrl+r", "order", "Newest or best first", id="search.order"),
        Binding("f1", "app.order('program.help')", "Help", show=False, id="search.help"),
    ]

    def __init__(
        self,
        stored: StoredSessions,
        text: str = "",
        order: Order = "newest",
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._stored = stored
        self._now = now
        self._order: Order = order
        self._field = Field(
            text, placeholder="Search everything that was said", compact=True, id="search-line"
        )
        self._rows = HitRows(now, self._preview)
        self._around = HitPreview(id="search-preview")
        self._head = ScreenHeader("Search")
        self._keys = KeyLine()
        self._query = parse("")
        self._asked = QueryLine()
        self._chips = Static(chips(self._asked), id="search-chips")

    @property
    def text(self) -> str:
        """The text in the input field."""
        return self._field.value

    @property
    def order(self) -> Order:
        """The sort order of the hits."""
        return self._order

    def compose(self) -> ComposeResult:
        yield self._head
        with Horizontal(id="search-field"):
            yield Static(Content("⌕"), id="search-sign")
            yield self._field
        yield self._chips
        with Container(id="search-body"):
            yield self._rows
            yield self._around
        yield self._keys

    def on_mount(self) -> None:
        self._apply_skin()
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self._apply_skin())
        self._say_keys()
        self._search()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < SIDE_BY_SIDE, "narrow")
        self.call_after_refresh(self._preview)

    # Searching

    def on_input_changed(self) -> None:
        self._search()

    @work(exclusive=True, group="search")
    async def _search(self, *, keep: bool = False) -> None:
        asked = self._asked = parse_line(self._field.value, self._now())
        query = parse(asked.text)
        self._chips.update(chips(asked), layout=False)
        if not asked:
            self._show(SearchHits(0, (), True), query, keep=False)
            return
        try:
            hits = await self._fetch_hits(asked, FIRST, PATIENCE)
            self._show(hits, query, keep=keep)
            if hits.complete and hits.total <= FIRST:
                return
            await asyncio.sleep(PAUSE)
            self._show(await self._fetch_hits(asked, ALL, LONG), query, keep=True)
        except HermesError as error:
            self._rows.take((), query, "", keep=False, problem=line(str(error)))
            self._around.visible = False
            self._state("")

    async def _fetch_hits(self, asked: QueryLine, limit: int, patience: float) -> SearchHits:
        return await self._stored.search(
            asked.text, filters=asked.filters, limit=limit, order=self._order, patience=patience
        )

    def _show(self, hits: SearchHits, query: Query, *, keep: bool) -> None:
        if hits.hits and not any("exact" in hit.ways for hit in hits.hits) and hits.hits[0].ways:
            # A hit for a question was not found by words such as `in`, which are in many other texts.
            query = parse(" ".join(words_of(self._asked.text))) if self._asked else query
        self._query = query
        hint = NOT_ASKED if not self._asked else NOTHING if hits.complete else LOOKING
        self._rows.take(hits.hits, query, hint, keep=keep)
        self._around.visible = bool(hits.hits)
        self._state(hit_count_text(hits, self._order) if self._asked else "")

    # The context of a hit

    @work(exclusive=True, group="preview")
    async def _preview(self) -> None:
        hit, query = self._rows.current, self._query
        width, palette = self._around.size.width, self._around.palette
        if hit is None or width <= 2:
            self._around.show([], 0)
            return
        try:
            nodes = await self._stored.around(hit.node, WINDOW) if hit.source == MESSAGES else ()
        except HermesError:
            return
        lines, match = await asyncio.to_thread(lambda: excerpt_around(nodes, hit, query, width - 2, palette))
        self._around.show(lines, match)

    # Keys

    def on_input_submitted(self) -> None:
        self._open()

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        self._open()

    def action_back(self) -> None:
        self.dismiss(None)

    def action_move(self, step: int) -> None:
        self._rows.action_move(step)

    def action_page(self, step: int) -> None:
        self._rows.action_page(step)

    def action_order(self) -> None:
        self._order = "rank" if self._order == "newest" else "newest"
        self._say_keys()
        self._search()

    def _open(self) -> None:
        hit = self._rows.current
        if hit is not None and hit.source != MESSAGES:
            self.dismiss(ChosenNote(hit.source, hit.title, hit.text))
        elif hit is not None:
            self.dismiss(ChosenHit(hit.session, hit.node, self._query))

    def _say_keys(self) -> None:
        other = "best" if self._order == "newest" else "newest"
        self._keys.say(FOUND_KEYS.format(other=other))

    def _state(self, text: str) -> None:
        self._head.say(text)

    def _apply_skin(self) -> None:
        palette = palette_of(self.app)
        self._rows.use(palette)
        self._around.use(palette)
        self._preview()


def hit_count_text(hits: SearchHits, order: Order) -> str:
    """Return the number of hits, `+` if there may be more, and their sort order. Pure."""
    more = "+" if hits.total >= MAX_HITS or not hits.complete else ""
    number = f"{hits.total:,}{more} hit{'' if hits.total == 1 and not more else 's'}"
    return f"{number} · {'newest' if order == 'newest' else 'best'} first"

"""Search as you type over all sessions; ends with the message to be opened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.widgets import Static

from agent.core.store.query_line import Query, QueryLine, parse, parse_line
from agent.core.store.search import MAX_HITS, PATIENCE, Order, SearchHits
from agent.errors import HermesError
from agent.knowledge.recall.recall import MESSAGES
from agent.knowledge.recall.scoring import words_of
from app.tui.screens.closable import ClosableModal
from app.tui.screens.field import Field
from app.tui.screens.head import ScreenHeader
from app.tui.screens.keyline import KeyLine
from app.tui.screens.sessions.search_rows import EMPTY, LOOKING, NOTHING, HitPreview, HitRows, around, chips
from app.tui.screens.skin_of import palette_of
from app.tui.screens.wording import line
from widgets.rows.row_list import RowList

if TYPE_CHECKING:
    from agent.session.conversation.stored_sessions import StoredSessions

FIRST = 24
"""Hits that are shown at once: a screenful, whose texts cost a few milliseconds."""
ALL = 200
"""Hits that can be scrolled to."""
PAUSE = 0.12
"""Seconds without a key before more hits and older messages are looked for."""
LONG = 3.0
"""Seconds that may take."""
WINDOW = 3
"""Messages shown on either side of a hit."""
SIDE_BY_SIDE = 100
"""Columns from which on the preview stands beside the hits, else below them."""
KEYS = "⏎ open · ↑↓ move · ^R {other} first · esc back"


class ChosenHit(NamedTuple):
    """The message a person wants to see, and what was searched for."""

    session: str
    node: int
    query: Query


class ChosenNote(NamedTuple):
    """Something that is no message, and what it is."""

    source: str
    """`learnings`, `skills` or `memory`."""
    title: str
    text: str


class SearchScreen(ClosableModal[ChosenHit | ChosenNote | None]):
    """Each key begins a search and cancels the one before, so no older result comes after a newer one.

    What is newest is there at once; more and older hits follow when no key is pressed for a moment.
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
        """What is in the field."""
        return self._field.value

    @property
    def order(self) -> Order:
        """How hits are sorted."""
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
        self._wear_skin()
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self._wear_skin())
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
            hits = await self._found(asked, FIRST, PATIENCE)
            self._show(hits, query, keep=keep)
            if hits.complete and hits.total <= FIRST:
                return
            await asyncio.sleep(PAUSE)
            self._show(await self._found(asked, ALL, LONG), query, keep=True)
        except HermesError as error:
            self._rows.take((), query, line(str(error)), keep=False)
            self._around.visible = False
            self._state("")

    async def _found(self, asked: QueryLine, limit: int, patience: float) -> SearchHits:
        return await self._stored.search(
            asked.text, filters=asked.filters, limit=limit, order=self._order, patience=patience
        )

    def _show(self, hits: SearchHits, query: Query, *, keep: bool) -> None:
        if hits.hits and not any("exact" in hit.ways for hit in hits.hits) and hits.hits[0].ways:
            # An answer to a question was not found by words such as `in`, which stand in many others.
            query = parse(" ".join(words_of(self._asked.text))) if self._asked else query
        self._query = query
        hint = EMPTY if not self._asked else NOTHING if hits.complete else LOOKING
        self._rows.take(hits.hits, query, hint, keep=keep)
        self._around.visible = bool(hits.hits)
        self._state(counted(hits, self._order) if self._asked else "")

    # What stands around a hit

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
        lines, match = await asyncio.to_thread(lambda: around(nodes, hit, query, width - 2, palette))
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
        self._keys.say(KEYS.format(other=other))

    def _state(self, text: str) -> None:
        self._head.say(text)

    def _wear_skin(self) -> None:
        palette = palette_of(self.app)
        self._rows.use(palette)
        self._around.use(palette)
        self._preview()


def counted(hits: SearchHits, order: Order) -> str:
    """How many hits there are, as far as it is known, and how they are sorted. Pure."""
    more = "+" if hits.total >= MAX_HITS or not hits.complete else ""
    number = f"{hits.total:,}{more} hit{'' if hits.total == 1 and not more else 's'}"
    return f"{number} · {'newest' if order == 'newest' else 'best'} first"

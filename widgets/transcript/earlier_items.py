"""Items of a conversation that are fetched when they are wanted, and put away when they are not."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from widgets.chunked import chunked
from widgets.transcript.conversation_search import Finder
from widgets.transcript.document import Document
from widgets.transcript.viewport import Viewport

KEPT_ITEMS = 2_000
"""Items that stay in memory, those used last, and how many above those in sight are fetched ahead."""
SLACK = 200
"""How many more there may be before the first are put away."""
_ALL = 1 << 60


class EarlierItems:
    """Keeps the part of a document in memory that is looked at, searched or likely to be wanted next."""

    def __init__(
        self,
        document: Document,
        viewport: Viewport,
        finder: Finder,
        *,
        dragging: Callable[[], bool],
        go_on: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
        paint_soon: Callable[[], None],
    ) -> None:
        """`dragging` tells whether the scrollbar is held, which may go anywhere; `go_on` runs the work."""
        self._document = document
        self._viewport = viewport
        self._finder = finder
        self._dragging = dragging
        self._go_on = go_on
        self._paint_soon = paint_soon
        self._fitting = False
        """Whether items are being fetched, or put away."""

    def fit(self) -> None:
        """Fetch what is wanted, and put away what nobody has looked at for long."""
        document = self._document
        if self._fitting:
            return
        fetches = not document.complete and document.first > self._wanted()
        if fetches or document.in_memory > KEPT_ITEMS + SLACK:
            self._fitting = True
            self._go_on(self._fit)

    def _wanted(self) -> int:
        """The first item that should have been fetched."""
        if self._finder.searching:
            return self._document.first
        if self._viewport.at_start or self._dragging():
            return -_ALL
        top = self._document.stop if self._viewport.following else self._viewport.top.item
        return top - KEPT_ITEMS

    async def _fit(self) -> None:
        try:
            async for _ in chunked(self._steps()):
                self._paint_soon()
        finally:
            self._fitting = False

    def _steps(self) -> Iterator[None]:
        """Fetch an item from before and put one away, as long as there is something to do."""
        document = self._document
        while True:
            fetched = document.first > self._wanted() and document.more()
            away = document.in_memory > KEPT_ITEMS and document.put_away()
            if not fetched and not away:
                return
            yield

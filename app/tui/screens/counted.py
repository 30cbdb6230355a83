"""Pages whose rows are counted first: they open at once and are filled when the numbers are there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

from rich.text import Text
from textual import work

from agent.errors import HermesError
from app.tui.screens.page import Page
from widgets.rows.row_list import RowList

Counted = TypeVar("Counted")


class Worded(Protocol):
    """A row that can be searched and copied."""

    @property
    def text(self) -> str: ...


Row = TypeVar("Row", bound=Worded)


class CountedRows(RowList, Generic[Row]):
    """Rows that come when they are counted."""

    def __init__(self) -> None:
        super().__init__(self.lines, search_text=lambda index: self.entries[index].text, empty="Counting …")
        self.entries: Sequence[Row] = ()

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows; the cursor stays where it was."""
        if rows == self.entries:
            return
        cursor, self.entries = self.cursor, rows
        self.reset(len(rows))
        if cursor:
            self.move_to(min(cursor, len(rows) - 1))

    @abstractmethod
    def lines(self, index: int, width: int) -> list[Text]:
        """The lines of one row."""


class CountedPage(Page[None], Generic[Counted, Row]):
    """Counts when it opens, and again when it is told to."""

    keys = "r count again · / filter · y copy · ? help · esc back"

    def __init__(self, count: Callable[[], Awaitable[Counted]], table: CountedRows[Row]) -> None:
        """`count` may take a while. Raises `HermesError`."""
        super().__init__(table)
        self._count = count
        self.listed = table

    @abstractmethod
    def told(self, found: Counted) -> tuple[Sequence[Row], str]:
        """What was counted, as rows and in a few words for the title."""

    def on_mount(self) -> None:
        self.action_count()

    @work(exclusive=True)
    async def action_count(self, quiet: bool = False) -> None:
        """Count, and show what there is; `quiet` says nothing of it meanwhile."""
        if not quiet:
            self.state("counting …")
        try:
            rows, state = self.told(await self._count())
        except HermesError as error:
            self.state(str(error))
            return
        self.listed.show(rows)
        self.state(state)

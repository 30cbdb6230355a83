"""Two branches side by side: where they part, what was said on each, the files that differ."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from textual import work

from agent.errors import HermesError
from agent.session.history.branch_comparison import BranchComparison
from agent.workspace.checkpoints.entries import PathChange
from app.tui.screens.detail import DetailScreen
from app.tui.screens.history.compare_rows import CompareMessages, CompareRows, rows_of
from app.tui.screens.history.timeline_files import FileScreen, diff_of
from app.tui.screens.history.timeline_services import FileDifferenceRow, Sides
from app.tui.screens.page import Page
from widgets.rows.row_list import RowList
from widgets.transcript.items import Item, source_of


@dataclass(frozen=True, slots=True)
class CompareServices:
    """What the screen asks for; each raises `HermesError`."""

    compare: Callable[[], Awaitable[tuple[BranchComparison, Sequence[Item], Sequence[Item]]]]
    """The comparison, and what was said and done on each branch alone."""
    describe: Callable[[Sequence[PathChange]], Awaitable[Sequence[FileDifferenceRow]]]
    """Changes with their lines counted."""
    sides: Callable[[PathChange], Awaitable[Sides]]
    """A file on both branches."""


class CompareScreen(Page[None]):
    """Reads only; nothing changes by looking."""

    heading = "Two branches"
    keys = "⏎ open · ↑↓ move · / filter · n next match · y copy · ? help · esc back"

    def __init__(self, services: CompareServices) -> None:
        self._list = CompareRows()
        super().__init__(self._list)
        self._services = services
        self._changes: dict[str, PathChange] = {}

    def on_mount(self) -> None:
        self._load()

    @work(exclusive=True, group="load")
    async def _load(self) -> None:
        self.state("comparing …")
        try:
            compared, left, right = await self._services.compare()
            files = await self._services.describe(compared.files)
        except HermesError as error:
            self.state(str(error))
            return
        self._changes = {change.path: change for change in compared.files}
        rows = list(rows_of(compared, left, right, files))
        self._list.show(rows)
        self._list.move_to(next((n for n, row in enumerate(rows) if isinstance(row, CompareMessages)), 0))
        self.state("")

    @work(exclusive=True, group="open")
    async def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        match self._list.all[event.index]:
            case FileDifferenceRow() as change:
                screen = FileScreen(change)
                await self.app.push_screen(screen)
                try:
                    sides = await self._services.sides(self._changes[change.path])
                except HermesError as error:
                    screen.complain(str(error))
                    return
                screen.show(*await asyncio.to_thread(diff_of, change, sides))
            case CompareMessages(left, right):
                both = [source_of(item) for item in (left, right) if item is not None]
                self.app.push_screen(DetailScreen("On both branches", f"\n\n{'─' * 40}\n\n".join(both)))
            case _:
                pass

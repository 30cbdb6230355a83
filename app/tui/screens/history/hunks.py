"""One file of a restore, hunk by hunk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import ClassVar

from textual import work

from agent.workspace.checkpoints.restore.hunk_restore import Parted
from app.tui.screens.history.plan_words import RESTORE, PlanWords, some_hunks
from app.tui.screens.history.timeline_files import FileScreen
from app.tui.screens.history.timeline_services import FileDifferenceRow
from widgets.timeline.hunk_rows import HunkRows
from widgets.timeline.paint import shown_path


class HunkScreen(FileScreen):
    """Hunks are taken and left here; `chosen` hears of each choice at once."""

    keys: ClassVar[str] = (
        "space take or leave · ] [ next hunk · t take all · x leave all · ? help · w wrap · "
        "←→ shift · / filter · y copy · esc done"
    )

    def __init__(
        self,
        change: FileDifferenceRow,
        parted: Parted,
        taken: Collection[int],
        chosen: Callable[[frozenset[int]], object],
        words: PlanWords = RESTORE,
    ) -> None:
        self._words = words
        self._hunks = HunkRows(taken)
        self._parted = parted
        super().__init__(change, rows=self._hunks)
        self._chosen = chosen

    def on_mount(self) -> None:
        self._load()

    @work
    async def _load(self) -> None:
        name = shown_path(self._change.path)
        self.show(await asyncio.to_thread(self._parted.hunks.diff, name), "")

    def told(self, happened: str) -> str:
        return some_hunks(len(self._hunks.taken), len(self._parted.hunks), self._words)

    def on_hunk_rows_chosen(self, event: HunkRows.Chosen) -> None:
        event.stop()
        self.head.say(self.told(""))
        self._chosen(event.taken)

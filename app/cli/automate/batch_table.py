"""A live full-screen table of a batch: running tasks, results and usage."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from app.cli.automate.batch_lines import result_text, state_of
from themes.states import glyph
from tools.text.safe_text import clean
from tools.text.words import plural
from widgets.panes.status import elapsed

if TYPE_CHECKING:
    from agent.automation.batch.attempt import TaskResult
    from agent.automation.batch.run import BatchProgress

_MOST_ROWS = 500


class LiveTable:
    """The view of a batch as a table that fills the screen until it is closed."""

    def __init__(self, console: Console | None = None) -> None:
        self._began = time.monotonic()
        self._since: dict[str, float] = {}
        self._ended: deque[TaskResult] = deque(maxlen=_MOST_ROWS)
        self._progress: BatchProgress | None = None
        self._live = Live(self, console=console or Console(), screen=True, refresh_per_second=4)

    def __enter__(self) -> LiveTable:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self, progress: BatchProgress) -> None:
        """Record the progress of the batch, which is shown at the next of several updates a second."""
        self._progress = progress
        now = time.monotonic()
        self._since = {name: self._since.get(name, now) for name in progress.running}
        if progress.last is not None:
            self._ended.appendleft(progress.last)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        progress = self._progress
        if progress is None:
            yield Text("Starting …")
            return
        yield Group(*self._picture(progress, options.max_width, options.max_height))

    def _picture(self, progress: BatchProgress, width: int, height: int) -> Iterator[RenderableType]:
        head = Text.assemble(
            (f"{progress.ended:,}", "bold"),
            f" of {plural(progress.total, 'task')}   ",
            (f"{progress.failed:,} failed", "red" if progress.failed else "dim"),
            f"   {plural(progress.tokens, 'token')}   {elapsed(time.monotonic() - self._began)}",
            no_wrap=True,
            overflow="ellipsis",
        )
        yield head
        # A separate row: a progress bar does not end its line.
        bar = Table.grid(expand=True)
        bar.add_row(
            ProgressBar(
                total=max(1, progress.total),
                completed=progress.ended,
                complete_style="cyan",
                finished_style="green",
            )
        )
        yield bar
        room = height - 5
        if progress.note:
            note = Text(progress.note, "yellow")
            yield note
            room -= len(note.wrap(Console(width=width), width))
        yield Text()
        most = max(1, height // 3)
        running = list(self._since.items())
        shown = running if len(running) <= most else running[: most - 1]
        rows = Table.grid(padding=(0, 1), expand=True)
        rows.add_column(width=1)
        rows.add_column(width=max(12, width // 3), no_wrap=True, overflow="ellipsis")
        rows.add_column(width=8, justify="right", no_wrap=True)
        rows.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        now = time.monotonic()
        for name, since in shown:
            rows.add_row(Text("▸", "cyan"), Text(clean(name)), Text(elapsed(now - since), "dim"), "")
        if left := len(running) - len(shown):
            rows.add_row("", Text(f"and {left:,} more", "dim"), "", "")
        rows.add_row("", "", "", "")
        for result in list(self._ended)[: max(0, room - len(shown) - bool(left) - 1)]:
            rows.add_row(*_row(result))
        yield rows
        yield Text()
        yield Text("ctrl+c stops; run the same command again to continue", "dim")


def _row(result: TaskResult) -> tuple[Text, Text, Text, Text]:
    mark = Text(glyph("done"), "green") if result.passed else Text(glyph("failed"), "red")
    told = Text(clean(result_text(result)))
    if not result.passed:
        told = Text.assemble((state_of(result), "red"), "  ", told)
    seconds = f"{result.seconds:.1f} s" if result.seconds < 60 else elapsed(result.seconds)
    return mark, Text(clean(result.id)), Text(seconds, "dim"), told

"""A live table of a batch on the whole screen: what runs, what ended, what it used."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from app.cli.batch_lines import line_of
from tools.safe_text import clean

if TYPE_CHECKING:
    from agent.api.batch import BatchProgress, TaskResult

_MOST_ROWS = 500


class LiveTable:
    """Shows progress until it is closed; then the screen is as it was."""

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

    def hear(self, progress: BatchProgress) -> None:
        """Note where the run stands; drawn a few times a second."""
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
        height = options.max_height
        now = time.monotonic()
        head = Text.assemble(
            (f"{progress.ended:,}", "bold"),
            f" of {progress.total:,} tasks   ",
            (f"{progress.failed:,} failed", "red" if progress.failed else "dim"),
            f"   {progress.tokens:,} tokens   {_clock(now - self._began)}",
        )
        running = Table.grid(padding=(0, 2), expand=True)
        running.add_column(width=1)
        running.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        running.add_column(justify="right", width=8)
        most = max(1, height // 3)
        for name, since in list(self._since.items())[:most]:
            running.add_row(Text("▸", "cyan"), Text(clean(name)), Text(_clock(now - since), "dim"))
        if len(self._since) > most:
            running.add_row("", Text(f"and {len(self._since) - most} more", "dim"), "")
        ended = Table.grid(padding=(0, 1), expand=True)
        ended.add_column(width=1)
        ended.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        room = max(0, height - min(len(self._since), most + 1) - 6)
        for result in list(self._ended)[:room]:
            mark = Text("✓", "green") if result.passed else Text("✗", "red")
            ended.add_row(mark, Text(clean(line_of(result))))
        note = [Text(progress.note, "yellow")] if progress.note else []
        bar = ProgressBar(total=max(1, progress.total), completed=progress.ended)
        hint = Text("ctrl+c stops; the same command goes on", "dim")
        yield Group(head, bar, *note, Text(), running, Text(), ended, Text(), hint)


def _clock(seconds: float) -> str:
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"

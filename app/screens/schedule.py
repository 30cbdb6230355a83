"""The screen of jobs on time: next and last run, outcome, cost and log; run now, pause, remove."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from agent.errors import HermesError
from app.screens.page import WAYS_OUT
from app.screens.split import PointedRows, SplitPage
from app.screens.wording import line
from widgets.row_text import one_line, spread

if TYPE_CHECKING:
    from agent.api.schedule import Job, JobBook, JobRun

EMPTY = "No jobs yet. `hermes cron add '0 9 * * 1-5' 'Look at the build'` makes one, and so does the agent."
LOGGED = 12
"""Runs of a job that are shown."""
INKS = {"done": "success", "failed": "error", "interrupted": "error", "running": "accent"}
MARKS = {"done": "✓", "failed": "✗", "interrupted": "■", "running": "▶", "waiting": "○", "skipped": "⊘"}


class ScheduleScreen(SplitPage[None]):
    """Jobs, those due first; beside them what the one under the cursor means and what its runs came to."""

    heading = "Schedule"
    keys = "r run now · p pause · x delete · / filter · ? help · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "run_now", "Run the job now", id="schedule.run"),
        Binding("p", "pause", "Pause the job, or let it go on", id="schedule.pause"),
        Binding("x,delete", "remove", "Delete the job and its log", id="schedule.remove"),
    ]

    def __init__(self, book: JobBook, begin: Callable[[], None]) -> None:
        """`begin` starts what carries out a run that was asked for."""
        self._lines = JobRows()
        super().__init__(self._lines)
        self._book = book
        self._begin = begin
        self._runs: Mapping[str, Sequence[JobRun]] = {}
        self.loaded = False
        """Whether the store was read."""

    def beside(self) -> ComposeResult:
        with VerticalScroll(id="job-entry", can_focus=False):
            yield Static(id="job-text")

    def on_mount(self) -> None:
        self._load()
        self.set_interval(5, self._load)

    @work(exclusive=True, group="list")
    async def _load(self) -> None:
        try:
            jobs = await self._book.jobs()
            self._runs = {job.id: await self._book.runs(job.id, LOGGED) for job in jobs}
        except HermesError as error:
            self.notify(line(str(error)), severity="error", markup=False)
            return
        self._lines.show(jobs, self._runs)
        active = sum(job.state == "active" for job in jobs)
        self.state(f"{active} active · {len(jobs) - active} at rest" if jobs else "")
        self.set_class(not jobs, "bare")
        self.foot.say(self.keys if jobs else WAYS_OUT)
        self._tell()
        self.loaded = True

    def on_pointed_rows_pointed(self, event: PointedRows.Pointed) -> None:
        event.stop()
        self._tell()

    def _tell(self) -> None:
        job = self._lines.pointed
        for place in self.query("#job-text").results(Static):
            place.update(Content("") if job is None else about(job, self._runs.get(job.id, ())))

    @work(exclusive=True, group="change")
    async def action_run_now(self) -> None:
        if (job := self._lines.pointed) is not None and await self._did(self._book.ask_for(job.id)):
            self._begin()
            self.notify("It begins; its outcome shows here.", markup=False)

    @work(exclusive=True, group="change")
    async def action_pause(self) -> None:
        if (job := self._lines.pointed) is not None:
            change = self._book.pause if job.state == "active" else self._book.resume
            await self._did(change(job.id))

    @work(exclusive=True, group="change")
    async def action_remove(self) -> None:
        if (job := self._lines.pointed) is not None:
            await self._did(self._book.remove(job.id))

    async def _did(self, change: Awaitable[object]) -> bool:
        try:
            await change
        except HermesError as error:
            self.notify(line(str(error)), severity="warning", markup=False)
            return False
        self._load()
        return True


class JobRows(PointedRows):
    """A row for each: state, what it is called, when it is due next."""

    def __init__(self) -> None:
        super().__init__(self._draw_row, search_text=self._words, empty=EMPTY)
        self._jobs: Sequence[Job] = ()
        self._runs: Mapping[str, Sequence[JobRun]] = {}

    @property
    def pointed(self) -> Job | None:
        """The one under the cursor."""
        return None if self.cursor is None or self.cursor >= len(self._jobs) else self._jobs[self.cursor]

    def show(self, jobs: Sequence[Job], runs: Mapping[str, Sequence[JobRun]]) -> None:
        """List these, the cursor where it was."""
        before = self.pointed
        ids = [job.id for job in jobs]
        self._jobs, self._runs = jobs, runs
        self.reset(len(jobs))
        if jobs:
            self.move_to(ids.index(before.id) if before is not None and before.id in ids else 0)

    def _words(self, index: int) -> str:
        job = self._jobs[index]
        return one_line(f"{job.title} {job.intent.schedule} {job.intent.prompt} {job.state}", 4_000)

    def _draw_row(self, index: int, width: int) -> list[Text]:
        job = self._jobs[index]
        last = next(iter(self._runs.get(job.id, ())), None)
        state = last.state if last is not None else ""
        left = Text(" ").append(f"{MARKS.get(state, '·')} ", self.ink(INKS.get(state, "dim")))
        left.append(one_line(job.title), self.ink("text" if job.state == "active" else "dim"))
        due = when(job.next) if job.state == "active" else job.state
        return [spread(left, Text(f" {due} ", self.ink("dim")), width)]


def when(seconds: float | None) -> str:
    """A time of this machine's zone, as `Mon 23 Nov 09:00`. Pure."""
    return "never" if seconds is None else datetime.fromtimestamp(seconds).strftime("%a %d %b %H:%M")


def about(job: Job, runs: Sequence[JobRun]) -> Content:
    """What a job means, and what its runs came to. Pure."""
    intent = job.intent
    more = [f"missed: {intent.missed}", f"overlap: {intent.overlap}", f"deliver: {intent.deliver}"]
    more += [f"repeat: {job.runs} of {intent.repeat}"] if intent.repeat is not None else []
    more += [f"allowed: {', '.join(intent.allow)}"] if intent.allow else []
    parts: list[str | tuple[str, str]] = [
        one_line(intent.prompt or intent.script, 2_000),
        (f"\n\n{intent.parsed().explained()} ({one_line(intent.zone, 60)})\n", "$text-muted"),
        (one_line(" · ".join(more), 600), "$text-muted"),
        (f"\nin {one_line(intent.cwd, 200)}\n\n", "$text-muted"),
    ]
    for run in runs:
        parts.append(f"{MARKS[run.state]} {when(run.due / 1000)}  {run.why}, {run.state}{took(run)}\n")
        if text := one_line(run.error or run.output, 300):
            parts.append((f"  {text}\n", "$text-muted"))
    if not runs:
        parts.append(("It has not run yet.\n", "$text-muted"))
    return Content.assemble(*parts)


def took(run: JobRun) -> str:
    """What a run took, such as `, 4 s, 1,200 tokens, $0.01`. Pure."""
    tokens, cost = run.receipt.get("tokens"), run.receipt.get("cost")
    refused = run.receipt.get("refused") or ()
    words = [
        "" if run.started is None or run.ended is None else f"{run.ended - run.started:.0f} s",
        f"{tokens:,} tokens" if tokens else "",
        f"${cost:.2f}" if cost else "",
        f"{len(refused)} refused" if refused else "",
    ]
    return "".join(f", {word}" for word in words if word)

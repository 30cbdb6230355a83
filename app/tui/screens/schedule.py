"""The screen of scheduled jobs: next and last run, outcome, cost and log; run now, pause, remove."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType
from textual.content import Content

from agent.errors import HermesError
from app.tui.screens.dialog import DetailScreen
from app.tui.screens.entry_page import (
    EntryForm,
    EntryPage,
    EntryRows,
    FormLine,
    WrongLineError,
    change,
    change_entry,
    load,
)
from themes.states import WorkState, state_of
from widgets.rows.row_text import one_line, spread

if TYPE_CHECKING:
    from agent.automation.schedule.book import JobBook
    from agent.automation.schedule.job import Job, JobRun

EMPTY = "Jobs stand here: what the agent does at a time or every few hours. Press n to add one."
ABOUT_NEW = "When: 30m, every 2h, 0 9 * * 1-5, or a time such as 2030-01-31T09:00. Then what is done."
LOGGED = 12
"""The number of a job's last runs that the details show."""
MOST_RUNS = 200
"""The number of a job's last runs that its log shows."""

UNDELIVERED = ("waiting", "failed")
"""States of a delivery that are shown in the log."""


class ScheduleScreen(EntryPage[None, "Job"]):
    """The list of jobs, those due first, with schedule and runs of the one under the cursor."""

    heading = "Schedule"
    keys = "⏎ log · n new · F5 run now · p pause · d delete · ? keys · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "add", "Make a job", id="schedule.add"),
        Binding("f5", "run_now", "Run the job now", id="schedule.run"),
        Binding("p", "pause", "Pause the job, or let it continue", id="schedule.pause"),
        Binding("d,delete", "remove", "Delete the job and its log", id="schedule.remove"),
        Binding("u", "undo", "Take back the last change made here", id="schedule.undo"),
    ]

    severity = "warning"

    def __init__(self, book: JobBook, begin: Callable[[], None]) -> None:
        """`begin` starts the process that executes a requested run."""
        self._rows = JobRows()
        super().__init__(self._rows)
        self._book = book
        self._begin = begin
        self._wanted = ""
        """The id of the job to which the cursor moves once it is listed."""

    def about(self, entry: Job) -> Content:
        return about(entry, self._rows.runs.get(entry.id, ()))

    def on_mount(self) -> None:
        self._load()
        self.set_interval(5, self._load)

    @load
    async def _load(self) -> None:
        jobs = await self._book.jobs()
        self._rows.runs = {job.id: await self._book.runs(job.id, LOGGED) for job in jobs}
        active = sum(job.standing == "active" for job in jobs)
        self.ways_on = "n new · u undo" if self.undo else "n new"
        wanted, self._wanted = self._wanted, ""
        self.list_entries(jobs, f"{active} active · {len(jobs) - active} at rest" if jobs else "", wanted)

    @change_entry
    async def action_run_now(self, job: Job) -> None:
        await self._book.ask_for(job.id)
        self._load()
        self._begin()
        self.notify("It begins; its outcome shows here.", markup=False)

    @change
    async def action_add(self) -> None:
        lines = (FormLine("when", "every 2h"), FormLine("what", "what the agent does then"))

        async def add(typed: Mapping[str, str]) -> Job:
            try:
                schedule_text(typed["when"])
            except HermesError as error:
                raise WrongLineError(str(error), "when") from None
            here = await asyncio.to_thread(Path.cwd)
            return await self._book.add(
                {"schedule": typed["when"], "prompt": typed["what"], "cwd": str(here)}
            )

        job = await self.app.push_screen_wait(EntryForm("A new job", ABOUT_NEW, lines, add))
        if job is None:
            return
        self._wanted = job.id
        self._can_undo(lambda: self._book.remove(job.id))

    @change_entry
    async def action_pause(self, job: Job) -> None:
        change, back = self._book.pause, self._book.resume
        if job.state != "active":
            change, back = back, change
        await change(job.id)
        self._can_undo(lambda: back(job.id))

    @change_entry
    async def action_remove(self, job: Job) -> None:
        runs = await self._book.runs(job.id, MOST_RUNS)
        await self._book.remove(job.id)
        self._can_undo(lambda: self._book.put_back(job, runs))
        self.notify("Deleted; u takes it back.", markup=False)

    def _can_undo(self, back: Callable[[], Awaitable[object]]) -> None:
        async def undo() -> None:
            await back()
            self._load()

        self.undo.append(undo)
        self._load()

    @work(exclusive=True, group="change")
    async def open_entry(self, entry: Job) -> None:
        """Show state and output of the last `MOST_RUNS` runs of the job on a screen of their own."""
        runs = await self._book.runs(entry.id, MOST_RUNS)
        self.app.push_screen(DetailScreen(f"Log of {entry.title}", runs_text(runs)))


class JobRows(EntryRows["Job"]):
    """One row per job: state, title, next due time."""

    def __init__(self) -> None:
        super().__init__(key=lambda job: job.id, words=_words, empty=EMPTY)
        self.runs: Mapping[str, Sequence[JobRun]] = {}
        """The last runs of each job, newest first, by its id."""

    def draw_entry(self, entry: Job, width: int) -> list[Text]:
        last = next(iter(self.runs.get(entry.id, ())), None)
        state = "failed" if entry.problem else last.state if last is not None else ""
        # Separate from the space, so that a skin that underlines errors underlines only the mark.
        mark, ink, *_ = _state(state)
        left = Text(" ").append(mark, self.ink(ink)).append(" ")
        left.append(one_line(entry.title), self.ink("text" if entry.standing == "active" else "dim"))
        due = when(entry.next) if entry.standing == "active" else entry.standing
        right = Text(" ").append(due, self.ink("error" if entry.problem else "dim")).append(" ")
        return [spread(left, right, width)]


def _state(state: str) -> WorkState:
    """Return glyph and colour for the state of a run; `waiting` is pending, as no user is asked."""
    return state_of("pending" if state in ("", "waiting") else state)


def _words(job: Job) -> str:
    return one_line(f"{job.title} {job.intent.schedule} {job.intent.prompt} {job.standing}", 4_000)


def when(seconds: float | None) -> str:
    """Return a time in this machine's zone, as `Mon 23 Nov 09:00`. Pure."""
    return "never" if seconds is None else datetime.fromtimestamp(seconds).strftime("%a %d %b %H:%M")


def about(job: Job, runs: Sequence[JobRun]) -> Content:
    """Return a job's task, schedule, options and last runs. Pure."""
    intent = job.intent
    more = [f"missed: {intent.missed}", f"overlap: {intent.overlap}", f"deliver: {intent.deliver}"]
    more += [f"repeat: {job.runs} of {intent.repeat}"] if intent.repeat is not None else []
    parts: list[str | tuple[str, str]] = [
        one_line(intent.prompt or intent.script, 2_000),
        (f"\n\n{one_line(job.explanation, 600)} ({one_line(intent.zone, 60)})\n", "$text-muted"),
        (f"{one_line(job.problem, 600)}\n" if job.problem else "", "$text-error"),
        (one_line(" · ".join(more), 600), "$text-muted"),
        (f"\nallowed: {one_line(', '.join(intent.allow), 600)}" if intent.allow else "", "$text-muted"),
        (f"\nin {one_line(intent.cwd, 200)}" if intent.cwd else "", "$text-muted"),
        "\n\n",
    ]
    for run in runs:
        mark, ink, *_ = _state(run.state)
        parts.append((f"{mark} ", "$text-muted" if ink == "dim" else f"${ink}"))
        parts.append(f"{_run_heading(run)}\n")
        if run.delivery in UNDELIVERED:
            parts.append((f"  delivery {run.delivery}\n", "$text-muted"))
        if text := one_line(run.error or run.output, 300):
            parts.append((f"  {text}\n", "$text-muted"))
    if not runs:
        parts.append(("It has not run yet.\n", "$text-muted"))
    return Content.assemble(*parts)


def schedule_text(schedule: str) -> str:
    """Return a schedule in words. Raises `HermesError` if it cannot be parsed."""
    from agent.automation.schedule.job import Question, ask
    from agent.automation.schedule.zones import machine_zone

    return ask(Question(schedule, machine_zone(), datetime.now().isoformat(), 1)).text


def runs_text(runs: Sequence[JobRun]) -> str:
    """Return state, errors and output of the runs, in the order given. Pure."""
    if not runs:
        return "It has not run yet."
    parts = [
        "\n".join(
            filter(
                None,
                [
                    f"{_state(run.state).glyph} {_run_heading(run)}",
                    f"  delivery {run.delivery}" if run.delivery in UNDELIVERED else "",
                    *(f"  refused: {each}" for each in run.receipt.get("refused") or ()),
                    run.error.strip(),
                    run.output.rstrip(),
                ],
            )
        )
        for run in runs
    ]
    return "\n\n".join(parts)


def _run_heading(run: JobRun) -> str:
    """Return due time, cause unless it was the schedule, state and cost of a run. Pure."""
    why = "" if run.why == "due" else f"{run.why}, "
    return f"{when(run.due / 1000)}  {why}{run.state}{run_costs(run)}"


def run_costs(run: JobRun) -> str:
    """Return duration, tokens and cost of a run, such as `, 4 s, 1,200 tokens, $0.01`. Pure."""
    tokens, cost = run.receipt.get("tokens"), run.receipt.get("cost")
    refused = run.receipt.get("refused") or ()
    words = [
        "" if run.started is None or run.ended is None else f"{run.ended - run.started:.0f} s",
        f"{tokens:,} tokens" if tokens else "",
        f"${cost:.2f}" if cost and cost >= 0.01 else f"${cost:.4f}" if cost else "",
        f"{len(refused)} refused" if refused else "",
    ]
    return "".join(f", {word}" for word in words if word)

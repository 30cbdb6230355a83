"""Runners: what hangs stops nothing else, what another one does is waited for."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agent.automation.schedule.book import JobBook
from agent.automation.schedule.job import Job, JobRun
from agent.automation.schedule.job_table import lease
from agent.automation.schedule.runner import JobOutcome, JobRunner, Note
from agent.core.store.store import Store
from agent.errors import StoreError
from tests.agent.automation.schedule.sample import HOUR, START, Clock, delivery


@pytest.fixture
def runner(store: Store, tmp_path: Path, clock: Clock) -> JobRunner:
    async def work(job: Job, run: JobRun, note: Note) -> JobOutcome:
        return JobOutcome("done", f"look at {run.due // 1000 - START}")

    return JobRunner(
        database=store.database,
        folder=tmp_path / "schedule",
        work=work,
        deliver=delivery(tmp_path),
        clock=clock,
        tick=0.05,
    )


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["stop", "cancel"])
async def test_a_mailer_that_hangs_delays_nothing_else_and_its_output_is_handed_on_once(
    ending: str, book: JobBook, runner: JobRunner, clock: Clock, tmp_path: Path
) -> None:
    wanted = {"zone": "UTC", "prompt": "look", "cwd": str(tmp_path)}
    mail = "mail:touch begun; until [ -e go ]; do sleep 0.02; done; cat >> mail"
    mails = await book.add({**wanted, "schedule": "every 1h", "deliver": mail})
    files = await book.add({**wanted, "schedule": "every 2h", "missed": "skip", "deliver": "file:said.md"})

    async def delivered(job: str) -> list[str]:
        return [run.delivery for run in await book.runs(job) if run.state == "done"]

    clock.now += HOUR
    stop = asyncio.Event()
    running = asyncio.create_task(runner.run(stop))
    while not (tmp_path / "begun").exists():
        await asyncio.sleep(0.01)
    clock.now += HOUR
    while await delivered(files.id) != ["done"] or await delivered(mails.id) != ["waiting"] * 2:
        await asyncio.sleep(0.01)
    if ending == "stop":
        stop.set()
        while lease(tmp_path / "schedule").is_held():
            await asyncio.sleep(0.01)
        assert not running.done()
        (tmp_path / "go").touch()
        await running
        assert sorted(await delivered(mails.id)) == ["done", "waiting"]
    else:
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await delivered(mails.id) == ["waiting"] * 2 and not (tmp_path / "mail").exists()
        (tmp_path / "go").touch()
    await runner.once()
    assert (tmp_path / "mail").read_text() == f"look at {HOUR}look at {2 * HOUR}"
    assert {(run.delivery, run.tries) for run in await book.runs(mails.id)} == {("done", 1)}


async def test_an_error_in_a_delivery_is_kept_with_its_run_and_stops_nothing(
    book: JobBook, runner: JobRunner, clock: Clock
) -> None:
    made = [await book.add({"schedule": "1h", "prompt": "look", "deliver": "mail:cat"}) for _ in range(20)]
    tried: list[str] = []

    async def deliver(job: Job, _run: JobRun) -> str:
        tried.append(job.id)
        raise UnicodeError

    runner.deliver = deliver
    clock.now += HOUR
    await runner.once()
    runs = await book.runs()
    assert {(run.state, run.delivery, run.tries, run.error) for run in runs} == {
        ("done", "waiting", 1, "Internal error (UnicodeError).")
    }
    assert sorted(tried) == sorted(each.id for each in made)


async def test_a_run_whose_end_cannot_be_stored_ends_the_runner_and_is_not_begun_again(
    book: JobBook, runner: JobRunner, store: Store, clock: Clock
) -> None:
    await book.add({"schedule": "1h", "prompt": "look"})
    begun: list[int] = []

    async def work(_job: Job, run: JobRun, _note: Note) -> JobOutcome:
        begun.append(run.id)
        if len(begun) == 1:
            # The disk is full from here on for what needs a new page.
            await store.database.read(
                lambda c: c.execute(f"PRAGMA max_page_count = {c.execute('PRAGMA page_count').fetchone()[0]}")
            )
        return JobOutcome("done", "x" * 100_000 if len(begun) < 3 else "")

    runner.work = work
    clock.now += HOUR
    with pytest.raises(StoreError):
        await runner.once()
    assert len(begun) == 1


@pytest.mark.parametrize("ending", ["done", "failed", "killed"])
async def test_a_run_that_another_runner_took_up_is_waited_for_and_told(
    ending: str, book: JobBook, runner: JobRunner, store: Store, clock: Clock, tmp_path: Path
) -> None:
    begun, go, told = asyncio.Event(), asyncio.Event(), list[tuple[str, str]]()

    async def work(job: Job, run: JobRun, note: Note) -> JobOutcome:
        begun.set()
        await go.wait()
        return JobOutcome("done" if ending == "done" else "failed", "by another")

    async with await Store.open(tmp_path / "state.db") as other_store:
        other = replace(runner, database=other_store.database, work=work)
        await book.add({"schedule": "1d", "prompt": "look", "name": "eyes"})
        asked = await book.ask_for("eyes")
        clock.now += 1
        stop = asyncio.Event()
        taken = asyncio.create_task(other.run(stop))
        await begun.wait()
        runner.told = lambda job, run: told.append((job.title, run.output))
        waiting = asyncio.create_task(runner.carry_through(asked.id))
        for _ in range(20):
            await store.database.read(lambda _: None)
        assert not waiting.done() and told == []
        if ending == "killed":
            taken.cancel()
        else:
            go.set()
        ended = await waiting
        stop.set()
        await asyncio.gather(taken, return_exceptions=True)
    if ending == "killed":
        assert (ended.state, ended.cuts, ended.output[:7]) == ("done", 1, "look at")
    else:
        assert (ended.state, ended.output) == (ending, "by another")
    assert told == [("eyes", ended.output)]


async def test_what_comes_due_while_something_hangs_begins_then_and_not_a_tick_later(
    book: JobBook, runner: JobRunner, tmp_path: Path
) -> None:
    hangs = {"schedule": "1d", "prompt": "look", "deliver": "mail:touch begun; sleep 600"}
    await book.ask_for((await book.add({**hangs, "cwd": str(tmp_path)})).id)
    made = await book.add({"schedule": "every 1h", "zone": "UTC", "prompt": "look", "deliver": "none"})
    begin = time.monotonic()
    runner.clock = lambda: START + HOUR - 0.5 + time.monotonic() - begin
    runner.tick = 3600
    running = asyncio.create_task(runner.run(asyncio.Event()))
    while [run.state for run in await book.runs(made.id)] != ["done"]:
        await asyncio.sleep(0.01)
    assert (tmp_path / "begun").exists()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

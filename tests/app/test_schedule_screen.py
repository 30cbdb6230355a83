"""The screen of jobs: what it lists, and what its keys change; jobs while the application is open."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.schedule.book import JobBook
from agent.schedule.deciding import instant
from agent.schedule.job_table import begin, end
from agent.store.store import Store
from app.conversation.job_watch import RunStarter, look
from app.screens.schedule import ScheduleScreen
from tests.support.staged import Staged, drawn
from tests.support.waiting import until

NOW = 1_772_600_000


async def test_keys_run_pause_and_delete_the_job_under_the_cursor(tmp_path: Path) -> None:
    app, begun = Staged(), list[str]()
    async with await Store.open(tmp_path / "state.db") as store:
        book = JobBook(store.database, tmp_path / "schedule", lambda: NOW)
        made = await book.add(
            {"schedule": "every 2h", "zone": "UTC", "prompt": "[bold]look[/]", "name": "eyes", "cwd": "/srv"}
        )
        run = await book.ask_for(made.id)
        await store.database.write(lambda c: begin(c, run.id, NOW))
        receipt = {"tokens": 1200, "cost": 0.01, "refused": ["run rm"]}
        await store.database.write(
            lambda c: end(c, run.id, "done", NOW + 4, "all [red]well", "", receipt, "waiting")
        )
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: app.listener is not None, "the start")
            screen = ScheduleScreen(book, lambda: begun.append("run"))
            await app.push_screen(screen)
            await until(pilot, lambda: screen.loaded, "the list")
            await drawn(pilot)
            said = str(screen.query_one("#job-text").render())
            assert "[bold]look[/]" in said and "4 s, 1,200 tokens, $0.01, 1 refused" in said
            await pilot.press("r")
            await until(pilot, lambda: begun == ["run"], "the run")
            await pilot.press("p")
            await drawn(pilot)
            await until(
                pilot, lambda: "○" in str(screen.query_one("#job-text").render()), "the run that waits"
            )
            assert (await book.job("eyes")).state == "paused"
            await pilot.press("x")
            await drawn(pilot)
        assert await book.jobs() == []


async def test_what_was_said_is_shown_once_and_what_is_due_is_begun(tmp_path: Path) -> None:
    shown, begun = list[tuple[str, str]](), list[str]()
    async with await Store.open(tmp_path / "state.db") as store:
        book = JobBook(store.database, tmp_path / "schedule", lambda: NOW)
        made = await book.add({"schedule": "every 2h", "zone": "UTC", "prompt": "look", "name": "eyes"})
        run = await book.ask_for(made.id)
        for _ in range(2):
            await look(book, lambda: begun.append("run"), lambda title, text: shown.append((title, text)))
        assert begun == ["run", "run"] and shown == []
        await store.database.write(lambda c: begin(c, run.id, NOW))
        await store.database.write(lambda c: end(c, run.id, "done", NOW, "all well", "", {}, "waiting"))
        for _ in range(2):
            await look(book, lambda: None, lambda title, text: shown.append((title, text)))
        assert shown == [("eyes", "all well")] and instant(NOW).year == 2026


async def test_a_process_that_is_begun_does_what_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    async with await Store.open(tmp_path / "state.db") as store:
        book = JobBook(store.database, tmp_path / "schedule")
        made = await book.add({"schedule": "every 2h", "script": "echo well", "cwd": str(tmp_path)})
        run = await book.ask_for(made.id)
        starter = RunStarter()
        starter.begin()
        await asyncio.to_thread(starter.wait)
        assert (await book.run(run.id)).output == "well\n"

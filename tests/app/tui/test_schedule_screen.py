"""The screen of jobs: what it lists, and what its keys change; jobs while the application is open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.screen import Screen
from textual.widgets import Input

from agent.automation.schedule.book import JobBook
from agent.automation.schedule.job import instant
from agent.automation.schedule.job_table import ask_for, begin, end
from agent.core.store.store import Store
from app.tui.conversation import background_watch
from app.tui.conversation.background_watch import RunStarter, check_jobs
from app.tui.screens.dialog import DetailScreen
from app.tui.screens.entry_page import EntryForm
from app.tui.screens.schedule import ScheduleScreen, about
from tests.agent.automation.schedule.sample import job
from tests.app.tui.pages import PageHost, lines_of
from tests.support.staged import Staged, drawn
from tests.support.thorough import thoroughly
from tests.support.waiting import until

NOW = 1_772_600_000


@pytest.mark.thorough
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
            said = str(screen.query_one("#entry-text").render())
            assert "[bold]look[/]" in said and "asked, done, 4 s, 1,200 tokens, $0.01, 1 refused" in said
            assert "  delivery waiting" in said.splitlines()
            await pilot.press("f5")
            await until(pilot, lambda: begun == ["run"], "the run")
            await pilot.press("p")
            await drawn(pilot)
            await until(
                pilot, lambda: "○" in str(screen.query_one("#entry-text").render()), "the run that waits"
            )
            assert (await book.job("eyes")).state == "paused"
            before = await book.runs(made.id)
            await pilot.press("d")
            await until(pilot, lambda: screen.rows.count == 0, "the empty list")
            assert await book.jobs() == [] and await book.runs() == []
            await pilot.press("u")
            await until(pilot, lambda: screen.rows.count == 1, "the job that is back")
            assert await book.runs(made.id) == before
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(app.screen, DetailScreen), "the log")
            assert "refused: run rm" in app.screen.reader.text and "all [red]well" in app.screen.reader.text  # type: ignore[attr-defined]
            await pilot.press("escape")
            await pilot.press("n")
            await until(pilot, lambda: isinstance(app.screen, EntryForm), "the form")
            for line, words in zip(app.screen.query(Input), ("every 3h", "Say [b]hello"), strict=True):
                line.value = words
            await pilot.press("enter")
            await until(pilot, lambda: screen.rows.count == 2, "the job that was made")
            (new,) = [job for job in await book.jobs() if job.id != made.id]
            assert (new.intent.schedule, new.intent.prompt) == ("every 3h", "Say [b]hello")
            await pilot.press("u")
            await until(pilot, lambda: screen.rows.count == 1, "the job that was taken back")


def test_a_job_that_no_longer_parses_says_why_it_is_never_due() -> None:
    lost = job("every 1h")
    lost = replace(lost, intent=replace(lost.intent, zone="Mars/Base"))
    assert "There is no time zone 'Mars/Base', so this job is never due" in about(lost, ()).plain
    assert lost.standing == "never due"


async def test_what_was_said_is_shown_once_and_what_is_due_is_begun(tmp_path: Path) -> None:
    shown, begun = list[tuple[str, str]](), list[str]()
    async with await Store.open(tmp_path / "state.db") as store:
        book = JobBook(store.database, tmp_path / "schedule", lambda: NOW)
        made = await book.add({"schedule": "every 2h", "zone": "UTC", "prompt": "look", "name": "eyes"})
        run = await book.ask_for(made.id)
        for _ in range(2):
            await check_jobs(
                book, lambda: begun.append("run"), lambda title, text: shown.append((title, text))
            )
        assert begun == ["run", "run"] and shown == []
        await store.database.write(lambda c: begin(c, run.id, NOW))
        await store.database.write(lambda c: end(c, run.id, "done", NOW, "all well", "", {}, "waiting"))
        for _ in range(2):
            await check_jobs(book, lambda: None, lambda title, text: shown.append((title, text)))
        assert shown == [("eyes", "all well")] and instant(NOW).year == 2026


async def test_a_mail_command_of_the_heartbeat_that_hangs_keeps_nothing_from_being_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setattr(background_watch, "SETTLED", 0)
    (tmp_path / "HEARTBEAT.md").write_text("Look after things.\n")
    mail = "touch begun; until [ -e go ]; do sleep 0.02; done"
    (tmp_path / "config.yaml").write_text(f"schedule: {{tick: 1}}\nheartbeat: {{mail: '{mail}'}}\n")
    shown = asyncio.Event()
    async with await Store.open(tmp_path / "state.db") as store:
        book = JobBook(store.database, tmp_path / "schedule")
        made = await book.add({"schedule": "every 2h", "script": "echo well"})
        watch = asyncio.create_task(background_watch.watch_jobs(lambda _title, _text: shown.set()))
        while not (tmp_path / "scratch/heartbeat/begun").exists():
            await asyncio.sleep(0.01)
        run = await book.ask_for(made.id)
        await store.database.write(lambda c: begin(c, run.id, NOW))
        await store.database.write(lambda c: end(c, run.id, "done", NOW, "well", "", {}, "waiting"))
        await shown.wait()
        watch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watch
        assert await book.runs() == [await book.run(run.id)]


@pytest.mark.thorough
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


WORK: tuple[tuple[dict[str, object], str], ...] = (
    (
        {
            "schedule": "0 9 * * 1-5",
            "prompt": "Look at the build and say what broke since yesterday.",
            "name": "build",
        },
        "done",
    ),
    (
        {
            "schedule": "every 2h",
            "prompt": "Read the [b]mail[/] and answer what can be answered.",
            "name": "mail",
            "deliver": "message:team",
            "allow": ["message(team)"],
        },
        "failed",
    ),
    (
        {"schedule": "30 2 * * *", "script": "rsync -a notes/ far:notes/", "name": "backup", "missed": "all"},
        "refused",
    ),
    ({"schedule": "*/20 * * * *", "prompt": "Watch the queue.", "overlap": "queue"}, "running"),
    ({"schedule": "every 1d", "prompt": "Tidy the inbox."}, "skipped"),
    (
        {
            "schedule": "every 1w",
            "prompt": "Write the weekly report from the last outputs.",
            "name": "report",
        },
        "interrupted",
    ),
    ({"schedule": "every 5h", "prompt": "日本語の要約を書く。", "name": "要約"}, "waiting"),
    ({"schedule": "0 0 29 2 *", "prompt": "Leap.", "name": "leap", "repeat": 4}, "paused"),
    ({"schedule": "30m", "prompt": "Remind me of the call.", "name": "call"}, "over"),
    ({"schedule": "0 12 * * 0#1", "prompt": "Never ran so far.", "name": "fresh"}, ""),
)
"""Jobs, and what became of their last runs."""


async def filled(store: Store, book: JobBook) -> None:
    """A store with jobs in all states."""
    for number, (wanted, state) in enumerate(WORK):
        job = await book.add({"zone": "Europe/Berlin", "cwd": "/srv/work", **wanted})
        if not state:
            continue
        for back in (3, 2, 1):
            at = NOW - back * 7_200 - number * 60
            asked = await store.database.write(lambda c, id=job.id, at=at: ask_for(c, id, at * 1000, "due"))
            if state == "waiting" and back == 1:
                break
            await store.database.write(lambda c, id=asked.id, at=at: begin(c, id, at))
            if state == "running" and back == 1:
                break
            last = state if back == 1 and state in ("failed", "skipped", "interrupted") else "done"
            error = {"failed": "The model answered 429 five times.", "interrupted": "cut off 3 times"}.get(
                last, ""
            )
            receipt: dict[str, object] = {"tokens": 1200 * back, "cost": 0.004 * back, "model": "scripted"}
            output = "" if error else f"All is well.\nLooked at {back * 7} things."
            if state == "refused":
                last, output, error = (
                    "failed",
                    "",
                    "Denied: this needs approval and nobody is there to give it: "
                    "sends something to another machine, which cannot be taken back.",
                )
                receipt = {"refused": ["run rsync -a notes/ far:notes/"]}
            if last == "skipped":
                output, error = "", "the run before was not over"
            ended = (asked.id, last, at + 4, output, error, receipt, "failed" if state == "failed" else "")
            await store.database.write(lambda c, ended=ended: end(c, *ended))
        if state == "paused":
            await book.pause(job.id)
        if state == "over":
            await store.database.write(
                lambda c, id=job.id: c.execute(
                    "UPDATE jobs SET state = 'done', next = NULL WHERE id = ?", (id,)
                )
            )


@asynccontextmanager
async def shown(folder: Path, case: str) -> AsyncIterator[ScheduleScreen]:
    store = await Store.open(folder / "state.db")
    book = JobBook(store.database, folder / "schedule", lambda: NOW)
    if case != "empty":
        await filled(store, book)
    if case == "broken":
        # As by a newer version.
        await store.database.write(lambda c: c.execute("ALTER TABLE jobs RENAME TO lost"))
    yield ScheduleScreen(book, lambda: None)
    await store.close()


@pytest.mark.thorough
async def test_a_store_that_cannot_be_read_does_not_look_empty(tmp_path: Path) -> None:
    async with shown(tmp_path, "broken") as screen:
        host = PageHost(lambda: screen)
        async with host.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: "cannot be used" in screen.rows.problem)
            assert "add one" not in lines_of(screen.rows)[0]


@pytest.mark.thorough
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["narrow", "wide"])
@pytest.mark.parametrize(
    "picture",
    [
        ("jobs", "", "night"),
        *thoroughly(
            ("jobs", "", "paper"),
            ("refused", "down down down down", "mono"),
            ("failed", "down", "contrast-light"),
            ("log", "down enter", "night"),
            ("log", "down enter", "contrast-light"),
            ("empty", "", "night"),
            ("empty", "", "paper"),
        ),
    ],
    ids=lambda picture: f"{picture[0]}-{picture[2]}",
)
def test_jobs_look_as_they_should(
    snap_compare: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
    picture: tuple[str, str, str],
) -> None:
    case, keys, skin = picture
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()

    async def play(pilot: Any) -> None:
        async with shown(tmp_path, case) as screen:
            await pilot.app.push_screen(screen)
            await until(pilot, lambda: screen.loaded)
            await pilot.press(*keys.split())
            await pilot.pause(0.1)

    try:
        assert snap_compare(PageHost(lambda: Screen(), skin), terminal_size=size, run_before=play)
    finally:
        monkeypatch.undo()
        time.tzset()

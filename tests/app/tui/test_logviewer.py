"""The log on the screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.tui.screens import logviewer
from app.tui.screens.dialog import DetailScreen
from app.tui.screens.logviewer import LogScreen, LogTail, LogUpdate
from tests.app.tui.pages import PageHost, lines_of
from tests.app.tui.test_log_tail import record
from tests.support.waiting import until

LINES = [
    record("the session opened"),
    record("the provider took 31 s to answer; trying again", "WARNING"),
    record("unexpected error", "ERROR"),
    "Traceback (most recent call last):\n",
    '  File "engine.py", line 3, in run\n',
    "ValueError: \x1b[31m[red]no\u202e\n",
    record("the turn ended"),
]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(logviewer, "POLL", 0.02)
    path = tmp_path / "hermes.log"
    path.write_text("".join(LINES))
    return path


def host_of(log: Path) -> PageHost:
    return PageHost(lambda: LogScreen(LogTail(log, {})))


async def ready(pilot: Any, host: PageHost, count: int = len(LINES)) -> Any:
    await until(pilot, lambda: isinstance(host.screen, LogScreen) and host.screen.rows.count == count)
    return host.screen.rows  # type: ignore[attr-defined]


def shown(host: PageHost) -> str:
    return "\n".join(lines_of(host.screen.rows))  # type: ignore[attr-defined]


async def test_the_last_lines_are_shown_and_new_ones_follow(log: Path) -> None:
    host = host_of(log)
    async with host.run_test(size=(80, 24)) as pilot:
        rows = await ready(pilot, host)
        assert rows.cursor == len(LINES) - 1
        with log.open("a") as file:
            file.write(record("one more"))
        await ready(pilot, host, len(LINES) + 1)
        await until(pilot, lambda: "one more" in shown(host))
        assert rows.cursor == len(LINES)


async def test_who_reads_further_up_is_not_moved_by_news(log: Path) -> None:
    log.write_text("".join(record(f"line {number}") for number in range(100)))
    host = host_of(log)
    async with host.run_test(size=(80, 24)) as pilot:
        await ready(pilot, host, 100)
        await pilot.press("g")
        before = shown(host)
        with log.open("a") as file:
            file.write(record("one more"))
        await ready(pilot, host, 101)
        assert shown(host) == before


@pytest.mark.thorough
async def test_levels_can_be_left_out(log: Path) -> None:
    host = host_of(log)
    async with host.run_test(size=(80, 24)) as pilot:
        await ready(pilot, host)
        await pilot.press("s")
        await ready(pilot, host, 5)
        await pilot.press("s")
        await ready(pilot, host, 4)
        assert "trying again" not in shown(host) and "✗ 14:02:11" in shown(host)
        with log.open("a") as file:
            file.write(record("quiet") + record("loud", "CRITICAL"))
        await ready(pilot, host, 5)
        assert "loud" in shown(host) and "quiet" not in shown(host)
        await pilot.press("s")
        await ready(pilot, host, len(LINES) + 2)


@pytest.mark.thorough
async def test_a_level_without_lines_says_so(log: Path) -> None:
    log.write_text(record("fine"))
    host = host_of(log)
    async with host.run_test(size=(80, 24)) as pilot:
        await ready(pilot, host, 1)
        await pilot.press("s", "s")
        await until(pilot, lambda: "s shows others" in shown(host))


async def test_hidden_characters_are_marked_and_nothing_is_markup(log: Path) -> None:
    host = host_of(log)
    async with host.run_test(size=(80, 24)) as pilot:
        await ready(pilot, host)
        assert r"ValueError: \x1b[31m[red]no\u202e" in shown(host)


@pytest.mark.thorough
async def test_slash_filters_y_copies_and_enter_opens_in_full(log: Path) -> None:
    host = host_of(log)
    async with host.run_test(size=(80, 24)) as pilot:
        rows = await ready(pilot, host)
        await pilot.press("slash", *"provider", "enter")
        await until(pilot, lambda: rows.shown_count == 1)
        await pilot.press("y", "enter")
        await until(pilot, lambda: isinstance(host.screen, DetailScreen))
        assert host.copied == [LINES[1].rstrip("\n")]
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(host.screen, LogScreen))
        await pilot.press("escape")
        await until(pilot, lambda: rows.shown_count == len(LINES))
        await pilot.press("escape")
        await until(pilot, lambda: host.outcomes == [None])


async def test_a_missing_file_is_told_and_read_once_it_is_there(log: Path) -> None:
    content = log.read_text()
    log.unlink()
    host = host_of(log)
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(host.screen, LogScreen) and "There is no log at" in shown(host))
        log.write_text(content)
        await ready(pilot, host)


async def test_only_so_many_lines_are_kept(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logviewer.LogRows, "kept", 5)
    host = host_of(log)
    async with host.run_test(size=(80, 24)) as pilot:
        rows = await ready(pilot, host, 5)
        with log.open("a") as file:
            file.write(record("six") + record("seven"))
        await until(pilot, lambda: "seven" in shown(host))
        assert rows.count == 5 and rows.entries[4].text.endswith("seven")


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["narrow", "wide"])
@pytest.mark.parametrize(
    ("skin", "keys", "missing"),
    [("night", (), False), ("paper", ("w",), False), ("night", (), True)],
    ids=["all", "paper-warnings", "missing"],
)
def test_the_log_looks_as_it_should(
    snap_compare: Any,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
    skin: str,
    keys: Any,
    missing: bool,
) -> None:
    lines = LogTail(Path("/nowhere/hermes.log"), {})._lines("".join(LINES).encode())
    found = tuple(lines)

    class Tail(LogTail):
        def read(self) -> Any:
            return super().read() if missing else LogUpdate(found, True)

    async def press(pilot: Any) -> None:
        await until(
            pilot, lambda: pilot.app.screen.rows.empty != "Reading …" or pilot.app.screen.rows.problem
        )  # type: ignore[attr-defined]
        await pilot.press(*keys)
        if not missing:
            await until(pilot, lambda: "14:02" in shown(pilot.app))  # type: ignore[arg-type]

    monkeypatch.setattr(logviewer, "POLL", 3_600)
    host = PageHost(lambda: LogScreen(Tail(Path("/nowhere/hermes.log"), {})), skin)
    assert snap_compare(host, terminal_size=size, run_before=press)

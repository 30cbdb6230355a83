"""The audit log on the screen."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from agent.safety.audit.log import AuditLog, files
from app.tui.screens import approvals as screens
from app.tui.screens.approvals import AuditScreen
from app.tui.screens.dialog import DetailScreen
from tests.app.tui.pages import PageHost, lines_of
from tests.support.waiting import until

NOON = 1_760_000_000
RULINGS = [
    ("person", "allowed", "terminal", "make test"),
    ("rule", "denied", "terminal", "rm -rf / \x1b[31m[red]\u202e"),
    ("grant", "allowed", "write_file", "change /srv/project/a.py"),
    ("nobody", "nobody", "web_extract", "fetch https://example.com/"),
    ("person", "cancelled", "terminal", "git push"),
]


def add(folder: Path, *rulings: tuple[str, str, str, str]) -> None:
    log = AuditLog(folder)
    for place, (judge, outcome, tool, headline) in enumerate(rulings):
        ruling = {"judge": judge, "outcome": outcome, "tool": tool, "headline": headline, "agent": "main"}
        log.append({"time": NOON + place, "session": "s1", **ruling})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(screens, "POLL", 0.02)
    add(tmp_path, *RULINGS)
    return tmp_path


async def ready(pilot: Any, host: PageHost, count: int = len(RULINGS)) -> Any:
    await until(pilot, lambda: isinstance(host.screen, AuditScreen) and host.screen.rows.count == count)
    return host.screen.rows  # type: ignore[attr-defined]


def shown(host: PageHost) -> str:
    return "\n".join(lines_of(host.screen.rows))  # type: ignore[attr-defined]


async def test_rulings_are_shown_and_new_ones_follow(folder: Path) -> None:
    host = PageHost(lambda: AuditScreen(folder))
    async with host.run_test(size=(100, 24)) as pilot:
        rows = await ready(pilot, host)
        await until(pilot, lambda: "make test" in shown(host))
        assert rows.cursor == len(RULINGS) - 1
        assert "rm -rf / \\x1b[31m[red]\\u202e" in shown(host)
        add(folder, ("person", "allowed", "terminal", "echo later"))
        await ready(pilot, host, len(RULINGS) + 1)
        await until(pilot, lambda: "echo later" in shown(host))


@pytest.mark.thorough
async def test_what_was_refused_can_be_seen_alone(folder: Path) -> None:
    host = PageHost(lambda: AuditScreen(folder))
    async with host.run_test(size=(100, 24)) as pilot:
        await ready(pilot, host)
        await pilot.press("s")
        await ready(pilot, host, 3)
        assert "make test" not in shown(host)
        add(folder, ("person", "allowed", "x", "quiet"), ("person", "denied", "x", "loud"))
        await ready(pilot, host, 4)
        await pilot.press("s")
        await ready(pilot, host, len(RULINGS) + 2)


@pytest.mark.thorough
async def test_enter_opens_everything_that_was_taken_down(folder: Path) -> None:
    host = PageHost(lambda: AuditScreen(folder))
    async with host.run_test(size=(100, 24)) as pilot:
        rows = await ready(pilot, host)
        assert rows.entries[0].record["hash"]
        await pilot.press("slash", *"change", "enter")
        await until(pilot, lambda: rows.shown_count == 1)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(host.screen, DetailScreen))


async def test_v_checks_the_log(folder: Path) -> None:
    host = PageHost(lambda: AuditScreen(folder))
    async with host.run_test(size=(100, 24)) as pilot:
        await ready(pilot, host)
        await pilot.press("f5")
        await until(pilot, lambda: host.screen._checked == "as it was written")  # type: ignore[attr-defined]
        path = files(folder)[0]
        path.write_bytes(path.read_bytes().replace(b"make test", b"make hest"))
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(host.screen, DetailScreen))


async def test_an_empty_log_says_so(tmp_path: Path) -> None:
    host = PageHost(lambda: AuditScreen(tmp_path / "none"))
    async with host.run_test(size=(80, 24)) as pilot:
        await until(
            pilot, lambda: isinstance(host.screen, AuditScreen) and "No action was checked" in shown(host)
        )


async def test_a_log_without_a_whole_line_is_not_called_empty(folder: Path) -> None:
    for path in files(folder):
        path.write_bytes(b"\x00torn\n")
    host = PageHost(lambda: AuditScreen(folder))
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "✗ No line of it can be read" in shown(host))
        assert not host.screen.has_class("bare")
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(host.screen, DetailScreen))


@pytest.mark.thorough
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["narrow", "wide"])
@pytest.mark.parametrize("keys", [(), ("d",)], ids=["all", "refused"])
def test_the_audit_log_looks_as_it_should(
    snap_compare: Any,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
    keys: tuple[str, ...],
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()

    async def press(pilot: Any) -> None:
        await until(pilot, lambda: pilot.app.screen.rows.count == len(RULINGS))
        await pilot.press(*keys)
        await pilot.pause(0.1)

    assert snap_compare(PageHost(lambda: AuditScreen(folder)), terminal_size=size, run_before=press)

"""What was allowed for more than once, on the screen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.events import ApprovalAsked
from agent.safety.grants import Grants
from agent.session.pending_requests import Approvals
from app.tui.screens import approvals as screens
from app.tui.screens import dialog as dialogs
from app.tui.screens.approvals import ApprovalsScreen, about
from app.tui.screens.dialog import DetailScreen
from tests.app.tui.pages import PageHost, lines_of
from tests.support.waiting import until
from tools.services.actions import RunCommand, WritePath

WORKSPACE = Path("/srv/project")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screens, "POLL", 0.02)
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.02)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def given(path: Path) -> Grants:
    """Two permanent grants and one for the session."""
    now = iter(range(1_760_000_000, 1_760_100_000, 60))
    grants = Grants(WORKSPACE, path, session="s1", clock=lambda: next(now))

    async def give() -> None:
        for command, scope in (("make test", "always"), ("echo \x1b[31m[red]", "session")):
            grant = grants.prepare(RunCommand(tool="terminal", command=command, cwd=WORKSPACE), scope)  # type: ignore[arg-type]
            assert grant is not None
            await grants.give(grant)
        grant = grants.prepare(WritePath(tool="write_file", path=WORKSPACE / "a.py"), "always")
        assert grant is not None
        await grants.give(grant)

    asyncio.run(give())
    return grants


@pytest.fixture
def grants(tmp_path: Path) -> Grants:
    return given(tmp_path / "grants.json")


def waits() -> list[ApprovalAsked]:
    reply = asyncio.get_running_loop().create_future()
    asked = ApprovalAsked(
        agent="helper",
        id="approval-7",
        tool="terminal",
        headline="git push",
        reasons=("pushes to a remote",),
        reply=reply,
    )
    return [asked]


def host_of(grants: Grants, pending: Callable[[], Any] = list) -> PageHost:
    return PageHost(lambda: ApprovalsScreen(Approvals(grants, pending)))


def shown(host: PageHost) -> str:
    return "\n".join(lines_of(host.screen.rows))  # type: ignore[attr-defined]


async def ready(pilot: Any, host: PageHost, count: int) -> Any:
    await until(pilot, lambda: isinstance(host.screen, ApprovalsScreen) and host.screen.rows.count == count)
    await until(pilot, lambda: shown(host).strip())
    return host.screen.rows  # type: ignore[attr-defined]


async def test_grants_and_what_waits_are_listed(grants: Grants) -> None:
    host = host_of(grants, waits)
    async with host.run_test(size=(120, 24)) as pilot:
        await ready(pilot, host, 4)
        lines = shown(host).splitlines()
        assert "◆ waiting" in lines[0] and "terminal: git push" in lines[0]
        assert "∞ always" in lines[1] and "/srv/project/a.py" in lines[1]
        assert "✓ session" in lines[2] and "echo \\x1b[31m[red]" in lines[2]
        assert "make test" in lines[3] and "10-09" in lines[3] and "person" in lines[3]


@pytest.mark.thorough
async def test_d_takes_a_yes_back_and_u_gives_it_again(grants: Grants) -> None:
    host = host_of(grants)
    async with host.run_test(size=(120, 24)) as pilot:
        rows = await ready(pilot, host, 3)
        for key, left in (("d", 2), ("u", 3), ("d", 2)):
            await pilot.press(key)
            await ready(pilot, host, left)
            await pilot.press("g")
        assert "a.py" not in shown(host) and rows.count == 2
    later = Grants(WORKSPACE, grants._path)
    assert [each.covers[1] for each in later.all()] == ["make test"]


@pytest.mark.thorough
async def test_what_waits_is_answered_in_its_dialog(grants: Grants) -> None:
    host = host_of(grants, waits)
    async with host.run_test(size=(120, 24)) as pilot:
        await ready(pilot, host, 4)
        await pilot.press("g", "d")
        await until(pilot, lambda: host.told)
        assert "its dialog" in host.told[0] and isinstance(host.screen, ApprovalsScreen)


@pytest.mark.thorough
async def test_enter_shows_all_of_a_grant(grants: Grants) -> None:
    host = host_of(grants)
    async with host.run_test(size=(120, 24)) as pilot:
        rows = await ready(pilot, host, 3)
        text = about(rows.entries[2])
        assert "until it is taken back" in text and "/srv/project" in text and "make test" in text
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(host.screen, DetailScreen))


async def test_grants_of_another_window_come_and_go(grants: Grants) -> None:
    host = host_of(grants)
    async with host.run_test(size=(120, 24)) as pilot:
        await ready(pilot, host, 3)
        other = Grants(WORKSPACE, grants._path)
        await other.revoke(other.all()[0])
        await ready(pilot, host, 2)


async def test_without_any_one_thing_is_taught() -> None:
    host = host_of(Grants(WORKSPACE))
    async with host.run_test(size=(80, 24)) as pilot:
        await ready(pilot, host, 0)
        assert "No lasting yes was given" in shown(host)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["narrow", "wide"])
@pytest.mark.parametrize("empty", [False, True], ids=["some", "none"])
def test_the_approvals_look_as_they_should(
    snap_compare: Any, grants: Grants, size: tuple[int, int], empty: bool
) -> None:
    async def wait(pilot: Any) -> None:
        await until(pilot, lambda: isinstance(pilot.app.screen, ApprovalsScreen))
        await pilot.pause(0.1)

    host = host_of(Grants(WORKSPACE)) if empty else host_of(grants, waits)
    assert snap_compare(host, terminal_size=size, run_before=wait)

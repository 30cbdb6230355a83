"""Agents from the first word to the last key: sent, steered, stopped, reviewed, merged and undone.

The real application on the real engine, in a real repository; the model alone is scripted.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from agent.events import AgentEnded, TurnEnded
from app.tui.commands.merging import MergeScreen
from app.tui.questions import request_queue
from app.tui.screens import dialog as dialogs
from app.tui.screens.dialog import ConfirmDialog
from tests.app.tui.test_agents import attached, row
from tests.app.tui.test_application import Stage, stage
from tests.app.tui.test_going_back import notices, screen
from tests.support.demonstration import DECIMALS, ROUNDING, STEER, TASK, make_repository, script
from tests.support.sessions import engine_of
from tests.support.team import task_of

WAIT = "while [ ! -e go ]; do sleep 0.05; done; rm go"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.02)
    monkeypatch.setattr(request_queue, "TYPING_PAUSE", 0.05)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


PASSING = {"index", "commondir", "config.worktree"}
"""In the folder of git: what git looked at last, and what stands there as long as a boundary does."""


def state_of(folder: Path) -> dict[str, tuple[int, str]]:
    """Mode and contents of everything, the folder of git included."""
    found: dict[str, tuple[int, str]] = {}
    for path in sorted(folder.rglob("*")):
        if path.parent == folder / ".git" and path.name in PASSING:
            continue
        if path.is_file():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(folder))] = (path.stat().st_mode, digest)
        elif path.is_dir():
            found[str(path.relative_to(folder))] = (path.stat().st_mode, "")
    return found


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def requests_of(scene: Stage, goal: str) -> int:
    return sum(goal in task_of(request) for request in scene.bench.server.requests)


async def let_them_work(scene: Stage) -> None:
    """Send the three, tell one of them better, stop another."""
    await scene.until(lambda: requests_of(scene, "Write down") == 3, "the endless answer")
    money = await attached(scene, "agent-2")
    await scene.until(lambda: requests_of(scene, "Make amounts") == 2, "its wait")
    money.prompt.set_text(STEER)
    await scene.pilot.press("enter")
    await scene.until(lambda: money.prompt.steering == (STEER,), "what waits for its next request")
    await scene.pilot.press("escape")
    await scene.until(screen(scene, type(scene.app.session)))
    root, _ = await engine_of(scene.app).scheduler.copies.places("agent-2")
    (root / "go").touch()
    await scene.until(lambda: row(scene, "agent-2").state == "done", "the end of the one that was told")
    pane = scene.app.session.agents
    await scene.until(lambda: pane.has_focus)
    pane.move_to([each.agent for each in pane.agents].index("agent-3"))
    await scene.pilot.press("x")
    await scene.until(screen(scene, ConfirmDialog))
    await scene.until(lambda: getattr(scene.app.screen, "armed", False))
    await scene.pilot.press("1")
    await scene.until(lambda: scene.bench.seen(TurnEnded), "the end of the turn")
    await scene.quiet()


async def merge_some(scene: Stage) -> None:
    """Nothing of the one that failed, everything of the second, one file of the one that was stopped."""
    scene.app.session.agents.focus()
    await scene.pilot.press("A")
    seen: list[object] = []

    def another() -> bool:
        shown = scene.app.screen
        return isinstance(shown, MergeScreen) and shown not in seen

    for keys in (("M", "a"), ("a",), ("j", "m", "a")):
        await scene.until(another, "the next copy")
        seen.append(scene.app.screen)
        await scene.pilot.press(*keys)
    await scene.until(lambda: any("agent-3:" in text for text in notices(scene)), "what was merged")


async def test_three_agents_one_fails_one_is_steered_one_is_killed_and_one_key_undoes_the_merge(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, script(WAIT), size=(120, 40)) as scene:
        shop = make_repository(scene.bench.workspace)
        before, status = state_of(shop), git(shop, "status", "--porcelain")
        scene.app.message_sender.send(TASK)
        await let_them_work(scene)
        outcomes = {each.agent: each.outcome for each in scene.bench.seen(AgentEnded)}
        assert outcomes == {"agent-1": "failed", "agent-2": "done", "agent-3": "interrupted"}
        runs = engine_of(scene.app).scheduler.runs()
        assert [run.standing for run in runs] == ["failed", "completed", "killed"]
        assert state_of(shop) == before
        left = requests_of(scene, "Write down")
        await merge_some(scene)
        assert (shop / "shop" / "money.py").read_text() == DECIMALS
        assert "return sum(lines)" not in (shop / "shop" / "invoice.py").read_text()
        merged = [path.name for path in (shop / "docs").iterdir()]
        assert merged == ["rounding.md"]
        assert (shop / "docs" / "rounding.md").read_text() == ROUNDING
        assert notices(scene)[-1].endswith("undoes all of it.")
        await scene.pilot.press("alt+u")
        await scene.until(lambda: "Undone: merge of agent-2, agent-3." in notices(scene)[-1], "the undo")
        assert state_of(shop) == before
        await scene.pilot.press("alt+y")
        await scene.until(lambda: "Redone" in notices(scene)[-1], "the redo")
        assert (shop / "shop" / "money.py").read_text() == DECIMALS
        assert requests_of(scene, "Write down") == left == 3
        await scene.pilot.press("alt+u")
        await scene.until(lambda: "Undone" in notices(scene)[-1], "the second undo")
        assert scene.bench.server.refusals == []
    assert state_of(shop) == before
    assert git(shop, "status", "--porcelain") == status
    assert not PASSING & {path.name for path in (shop / ".git").iterdir()} - {"index"}

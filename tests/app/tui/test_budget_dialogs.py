"""The forecast of agents and ceilings that were reached, as a person answers them in the application.

Against a real engine and a scripted model server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from agent.events import AgentEnded, AgentStarted, TurnEnded
from app.tui.questions import request_queue
from app.tui.questions.dialogs import CeilingDialog, ForecastDialog
from app.tui.screens import dialog as dialogs
from app.tui.screens.dialog import DetailScreen, Dialog
from tests.app.tui.test_application import Stage, stage
from tests.support.replies import call, say
from tests.support.sessions import engine_of
from tests.support.team import by_task, report
from widgets.transcript.parts import NoticeItem

ALWAYS = "subagents: {forecast_tokens: 0}\n"
LOOK = call("todo_read")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.02)
    monkeypatch.setattr(request_queue, "TYPING_PAUSE", 0.05)


@asynccontextmanager
async def asked(folder: Path, scripts: Mapping[str, Any], config: str) -> AsyncIterator[Stage]:
    async with stage(folder, by_task(scripts), size=(120, 40), config=config) as scene:
        await scene.type("go", "enter")
        yield scene


async def dialog(scene: Stage, kind: type[Dialog[Any]]) -> Any:
    def is_open() -> bool:
        return isinstance(scene.app.screen, kind) and scene.app.screen.armed

    await scene.until(is_open, "its dialog")
    return scene.app.screen


def sends(*goals: str, **more: Any) -> dict[str, Any]:
    scripts: dict[str, Any] = {goal: [say(report())] for goal in goals}
    tasks = [{"goal": goal, **more} for goal in goals]
    return {"main": [call("delegate_task", tasks=tasks), say("Over.")], **scripts}


@pytest.mark.thorough
@pytest.mark.parametrize(("keys", "count"), [(["1"], 2), (["enter"], 0)])
async def test_agents_are_sent_only_after_a_yes(tmp_path: Path, keys: list[str], count: int) -> None:
    async with asked(tmp_path, sends("one", "two"), ALWAYS) as scene:
        shown = await dialog(scene, ForecastDialog)
        assert "wants to send 2 agents" in shown.full_text() and "one" in shown.full_text()
        assert scene.bench.seen(AgentStarted) == []
        await scene.pilot.press(*keys)
        await scene.until(lambda: scene.bench.seen(TurnEnded), "the end")
        assert len(scene.bench.seen(AgentStarted)) == count


@pytest.mark.thorough
async def test_a_no_with_a_reason_reaches_the_model(tmp_path: Path) -> None:
    async with asked(tmp_path, sends("one", "two"), ALWAYS) as scene:
        await dialog(scene, ForecastDialog)
        await scene.pilot.press("4", *"too much", "enter")
        await scene.until(lambda: scene.bench.seen(TurnEnded), "the end")
        last = scene.bench.server.requests[-1].messages[-1]
        assert "They say: too much" in str(last["content"])


@pytest.mark.thorough
async def test_everything_of_a_forecast_can_be_read_in_full(tmp_path: Path) -> None:
    goal = "look at every file " * 60
    async with asked(tmp_path, sends(goal), ALWAYS) as scene:
        await dialog(scene, ForecastDialog)
        await scene.pilot.press("o")
        await scene.until(lambda: isinstance(scene.app.screen, DetailScreen))
        await scene.pilot.press("escape")
        await dialog(scene, ForecastDialog)
        assert goal.strip() in scene.app.screen.full_text()  # type: ignore[attr-defined]


@pytest.mark.thorough
async def test_a_ceiling_is_raised_by_what_is_typed_and_the_agent_goes_on(tmp_path: Path) -> None:
    scripts = {**sends("one"), "one": [LOOK, LOOK, say(report())]}
    async with asked(tmp_path, scripts, "subagents: {forecast_tokens: null, turns: 2}\n") as scene:
        shown = await dialog(scene, CeilingDialog)
        row = scene.app.bridge.team.row("agent-1")
        assert row is not None and row.state == "waiting" and scene.app.bridge.state.questions == 1
        await scene.pilot.press("2", *"many", "enter")
        field = shown.query_one(Input)
        assert (field.value, field.placeholder) == ("", "Write a number, such as 20.")
        await scene.pilot.press("0", "enter")
        assert field.placeholder == "Give at least 1 request more."
        await scene.pilot.press("3", "enter")
        await scene.until(lambda: scene.bench.seen(TurnEnded), "the end")
        assert [event.outcome for event in scene.bench.seen(AgentEnded)] == ["done"]
        assert any("from 2 requests to 5 requests" in each.text for each in scene.items(NoticeItem))


@pytest.mark.parametrize("keys", [["enter"]])
async def test_an_agent_at_its_ceiling_stops_unless_it_is_raised(tmp_path: Path, keys: list[str]) -> None:
    scripts = {**sends("one"), "one": [LOOK, LOOK, say(report())]}
    async with asked(tmp_path, scripts, "subagents: {forecast_tokens: null, turns: 2}\n") as scene:
        await dialog(scene, CeilingDialog)
        await scene.pilot.press(*keys)
        await scene.until(lambda: scene.bench.seen(TurnEnded), "the end")
        assert [event.outcome for event in scene.bench.seen(AgentEnded)] == ["budget"]


@pytest.mark.thorough
async def test_a_kill_closes_the_dialog_of_the_one_that_asks(tmp_path: Path) -> None:
    async with asked(tmp_path, sends("one"), "subagents: {forecast_tokens: null, tokens: 100}\n") as scene:
        await dialog(scene, CeilingDialog)
        await engine_of(scene.app).scheduler.kill("agent-1")
        await scene.until(lambda: not isinstance(scene.app.screen, Dialog), "the dialog to close")
        await scene.until(lambda: scene.bench.seen(TurnEnded), "the end")
        assert scene.app.bridge.state.questions == 0


async def test_the_ceiling_of_the_session_is_raised_by_the_same_again(tmp_path: Path) -> None:
    scripts = {"main": [LOOK, LOOK, say("Done.")]}
    async with asked(tmp_path, scripts, "budget: {session: {turns: 2}}\n") as scene:
        shown = await dialog(scene, CeilingDialog)
        assert "2 of 2 requests used" in shown.full_text()
        await scene.pilot.press("1")
        await scene.until(lambda: scene.bench.seen(TurnEnded), "the end")
        assert scene.answers()[-1] == "Done."

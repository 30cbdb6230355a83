"""How agents look: their pane, the conversation of one, and text that wants to harm the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from agent.events import AgentEnded, AgentProgressed, TodosChanged
from agent.session.subagents.agents import AgentConversation
from app.tui.conversation import active_conversation
from app.tui.conversation.agent_screen import AgentScreen
from app.tui.screens import dialog as dialogs
from app.tui.screens.dialog import ConfirmDialog
from tests.app.tui.agents_stage import OPENED, beginning, busy, conversation, sent, unmerged
from tests.support.hostile import KINDS, some_or_all
from tests.support.staged import Staged, scene
from tests.support.waiting import until
from tests.support.watched import Watch, watched
from tools.context import Todo

NARROW, WIDE = (80, 24), (120, 40)
SIZES = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.01)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


async def nothing_yet(_agent: str) -> AgentConversation:
    """An agent that has said nothing so far."""
    return AgentConversation((), ())


async def _team(app: Staged, pilot: Pilot[Any]) -> None:
    busy(app)
    app.session.agents.set_motion(True)
    await pilot.pause(0.1)


async def _pane(app: Staged, pilot: Pilot[Any]) -> None:
    await _team(app, pilot)
    await app.actions.run_slash("agents")
    await until(pilot, lambda: app.focused is app.session.agents)


async def _unmerged(app: Staged, pilot: Pilot[Any]) -> None:
    unmerged(app)
    await pilot.pause(0.1)
    await app.actions.run_slash("agents")
    await until(pilot, lambda: app.focused is app.session.agents)


async def _beside(app: Staged, pilot: Pilot[Any]) -> None:
    await _team(app, pilot)
    app.session.todo.focus()
    app.session.todo.move_to(1)
    await pilot.press("enter")
    app.session.prompt.focus()


async def _empty(app: Staged, pilot: Pilot[Any]) -> None:
    app.hear([OPENED])
    await app.actions.run_slash("agents")


async def _attached(app: Staged, pilot: Pilot[Any]) -> None:
    await _team(app, pilot)
    setattr(app.agents, "past", nothing_yet)  # noqa: B010 - there is no engine on this stage
    active_conversation.attach(app, "agent-1")
    await until(pilot, lambda: isinstance(app.screen, AgentScreen))
    await pilot.pause(0.1)
    screen = app.screen
    assert isinstance(screen, AgentScreen)
    screen.set_motion(True)
    screen.transcript.motion = False
    app.hear(conversation())
    screen.transcript.flush()
    await pilot.pause(0.1)


async def _over(app: Staged, pilot: Pilot[Any]) -> None:
    await _attached(app, pilot)
    app.hear(
        [
            AgentEnded(agent="agent-4", outcome="done", summary="Two.", seconds=9),
            AgentEnded(agent="agent-5", outcome="failed", summary="None.", seconds=9),
            AgentEnded(
                agent="agent-1", outcome="budget", summary="9 callers", seconds=44, tokens=9_000, cost=0.1
            ),
        ]
    )
    screen = app.screen
    assert isinstance(screen, AgentScreen)
    screen.transcript.flush()
    await pilot.pause(0.1)


async def _killing(app: Staged, pilot: Pilot[Any]) -> None:
    await _pane(app, pilot)
    await pilot.press("x")
    await until(pilot, lambda: isinstance(app.screen, ConfirmDialog) and app.screen.armed)


@pytest.mark.sample(1)
@SIZES
@pytest.mark.parametrize(
    "act",
    [_pane, _unmerged, _beside, _empty, _attached, _over, _killing],
    ids=lambda act: act.__name__.strip("_"),
)
def test_agents_look_as_they_should(snap_compare: Any, act: Any, size: tuple[int, int]) -> None:
    assert snap_compare(Staged(), terminal_size=size, run_before=scene(act))


@pytest.mark.sample(1)
@pytest.mark.parametrize("act", [_beside, _attached], ids=lambda act: act.__name__.strip("_"))
def test_agents_look_as_they_should_on_paper(snap_compare: Any, act: Any) -> None:
    assert snap_compare(Staged("paper"), terminal_size=WIDE, run_before=scene(act))


@pytest.mark.thorough
@some_or_all
async def test_text_of_agents_does_the_terminal_no_harm(step: int) -> None:
    async with watched(WIDE) as watch:
        app = watch.app
        for event in (*beginning()[:5], sent("agent-1", "one", "look")):
            app.bridge(event)
        await watch.settle()
        for at, kind in enumerate(KINDS[:: 3 * step]):
            text = kind.text
            for event in (
                sent("agent-1", text, text),
                AgentProgressed(agent="agent-1", action=text, calls=1),
                TodosChanged(agent="agent-1", items=(Todo(text, text, "in_progress"),)),
                sent(f"{at}{text}", text, text, "agent-1" if at % 2 else "main"),
                AgentEnded(agent=f"{at}{text}", outcome="failed", summary=text, seconds=1),
            ):
                app.bridge(event)
            await watch.settle(0.02)
            assert watch.faults == [], kind.name
            if at == 2:
                # From here on in the conversation of the agent.
                active_conversation.attach(app, "agent-1")
                await until_attached(watch)
        assert app.is_running and not app.has_crashed


async def until_attached(watch: Watch) -> None:
    """Wait for the conversation of an agent."""
    await until(watch.pilot, lambda: isinstance(watch.app.screen, AgentScreen), "the conversation")

"""Agents in the application: the pane, an agent's conversation, and what the person can do there.

Against a real engine and a scripted model server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.events import AgentEnded, AgentStarted, QuestionAsked, TurnEnded
from app.tui.conversation.agent_screen import AgentScreen
from app.tui.conversation.session_host import SessionRequest
from app.tui.questions import request_queue
from app.tui.questions.dialogs import ClarifyDialog
from app.tui.screens import dialog as dialogs
from app.tui.screens.dialog import ConfirmDialog
from app.tui.terminal.tty_input import Keyboard
from tests.app.tui.test_application import Stage, stage
from tests.support.replies import call, say
from tests.support.sessions import engine_of
from tests.support.team import by_task, report, task_of
from widgets.panes.agents import AgentRow
from widgets.transcript.parts import AnswerItem, CallItem, Item, NoticeItem, UserItem

SLOW: dict[str, Any] = {"piece": 4, "pace": 0.05}
WHICH = call("clarify", question="Which one?", choices=["a", "b"])


HELD = call("terminal", command="while [ ! -e go ]; do sleep 0.05; done")
"""Lasts until `let_go`."""


def let_go(scene: Stage) -> None:
    (scene.bench.workspace / "go").touch()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.02)
    monkeypatch.setattr(request_queue, "TYPING_PAUSE", 0.05)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


def sending(*goals: str, **fields: Any) -> list[Any]:
    """The script of an agent that sends others into the background."""
    tasks = [{"goal": goal, **fields} for goal in goals]
    return [call("delegate_task", tasks=tasks, background=True), say("They are on their way.")] + [
        say("Noted.")
    ] * 4


@asynccontextmanager
async def team(
    folder: Path, scripts: Mapping[str, Sequence[Any]], size: tuple[int, int] = (120, 40)
) -> AsyncIterator[Stage]:
    async with stage(folder, by_task(scripts), size=size) as scene:
        await scene.type("go", "enter")
        yield scene


def row(scene: Stage, agent: str = "agent-1") -> AgentRow:
    found = scene.app.bridge.team.row(agent)
    assert found is not None
    return found


async def attached(scene: Stage, agent: str = "agent-1") -> AgentScreen:
    """Go to the pane and open an agent as a person does."""
    await scene.until(lambda: scene.app.bridge.team.row(agent), "the agent")
    pane = scene.app.session.agents
    await scene.until(lambda: pane.display and any(each.agent == agent for each in pane.agents), "its row")
    pane.focus()
    pane.move_to([each.agent for each in pane.agents].index(agent))
    await scene.pilot.press("enter")
    await scene.until(lambda: isinstance(scene.app.screen, AgentScreen), "its conversation")
    screen = scene.app.screen
    assert isinstance(screen, AgentScreen)
    return screen


def items(screen: AgentScreen, kind: type[Item]) -> list[Any]:
    return [each.item for each in screen.transcript.document.entries if isinstance(each.item, kind)]


def answers(screen: AgentScreen) -> list[str]:
    return [each.text for each in items(screen, AnswerItem)]


def asked(scene: Stage, goal: str) -> int:
    """Requests that the agent with this goal has sent."""
    return sum(task_of(request) == goal for request in scene.bench.server.requests)


@pytest.mark.thorough
async def test_an_agent_is_read_from_its_beginning_and_followed_live(tmp_path: Path) -> None:
    was_read = asyncio.Event()
    slow = say("first " * 20, **SLOW, stall_at=3_000, until=was_read.is_set)
    scripts = {"main": sending("look"), "look": [call("terminal", command="echo hello there"), slow]}
    async with team(tmp_path, scripts) as scene:
        await scene.until(
            lambda: row(scene).action == "writes" if scene.app.bridge.team.row("agent-1") else 0
        )
        screen = await attached(scene)
        await scene.until(lambda: answers(screen), "what it has written so far")
        assert [each.text.splitlines()[0] for each in items(screen, UserItem)] == ["Your task: look"]
        assert [each.outcome for each in items(screen, CallItem)] == ["done"]
        assert len(answers(screen)[0]) < len("first " * 20)
        was_read.set()
        await scene.until(lambda: scene.bench.seen(AgentEnded), "its end")
        await scene.until(lambda: items(screen, NoticeItem), "the word of its end")
        assert answers(screen) == [("first " * 20).strip()] or answers(screen) == ["first " * 20]
        assert [each.text for each in items(screen, NoticeItem)] == ["It has ended: done."]
        assert "done" in screen.header.render_line(0).text


@pytest.mark.thorough
async def test_detaching_leads_back_and_leaves_both_drafts_as_they_were(tmp_path: Path) -> None:
    scripts = {"main": sending("look"), "look": [say("word " * 60, **SLOW)]}
    async with team(tmp_path, scripts) as scene:
        await scene.until(lambda: scene.bench.seen(TurnEnded))
        await scene.type("my draft")
        screen = await attached(scene)
        await scene.type("for the agent")
        assert screen.prompt.text == "for the agent"
        await scene.pilot.press("escape")
        await scene.until(lambda: scene.app.screen is scene.app.session)
        assert scene.app.focused is scene.app.session.agents
        assert scene.app.session.prompt.text == "my draft"
        again = await attached(scene)
        assert again.prompt.text == "for the agent"


@pytest.mark.thorough
async def test_its_screen_takes_text_before_conversation_and_panes_are_in_place(tmp_path: Path) -> None:
    scripts = {"main": sending("look"), "look": [say("word " * 60, **SLOW)]}
    async with team(tmp_path, scripts) as scene:
        await scene.until(lambda: scene.bench.seen(TurnEnded))
        app, held = scene.app, asyncio.Event()
        screen = AgentScreen("agent-1", app.agents, app.bridge)
        begin = screen._begin  # pyright: ignore[reportPrivateUsage]

        async def later() -> None:
            await held.wait()
            await begin()

        setattr(screen, "_begin", later)  # noqa: B010
        await app.push_screen(screen)
        await scene.until(lambda: screen.prompt.has_focus, "the prompt")
        await scene.type("for the agent")
        assert not screen.panes_mounted and not app.actions.is_allowed("conversation.fold")
        held.set()
        await scene.until(lambda: screen.transcript.display and screen.transcript.region.area, "all of it")
        await scene.until(lambda: answers(screen), "what was said")
        assert screen.prompt.text == "for the agent" and app.actions.is_allowed("conversation.fold")


@pytest.mark.thorough
async def test_what_is_told_steers_the_agent_before_its_next_request(tmp_path: Path) -> None:
    scripts = {
        "main": sending("look"),
        "look": [HELD, say(report("I turned round."))],
    }
    async with team(tmp_path, scripts) as scene:
        screen = await attached(scene)
        await scene.until(lambda: items(screen, CallItem), "its call")
        screen.prompt.set_text("turn round")
        await scene.pilot.press("enter")
        await scene.until(lambda: screen.prompt.steering == ("turn round",), "what waits")
        let_go(scene)
        await scene.until(lambda: scene.bench.seen(AgentEnded), "its end")
        await scene.until(lambda: len(items(screen, UserItem)) == 2, "what it was told")
        assert [each.origin for each in items(screen, UserItem)] == ["task", "steer"]
        assert screen.prompt.steering == () and screen.prompt.text == ""
        last = [each for each in scene.bench.server.requests if task_of(each) == "look"][-1]
        assert "turn round" in str(last.messages[-1]["content"])


@pytest.mark.thorough
async def test_what_an_agent_has_not_read_when_the_session_is_left_waits_for_it_there(tmp_path: Path) -> None:
    async with team(tmp_path, {"main": sending("look"), "look": [HELD]}) as scene:
        screen = await attached(scene)
        await scene.until(lambda: items(screen, CallItem), "its call")
        screen.prompt.set_text("turn round")
        await scene.pilot.press("enter")
        await scene.until(lambda: screen.prompt.steering == ("turn round",), "what waits")
        session = engine_of(scene.app).session.id
        await scene.app.open_session(SessionRequest(resume=session))
        await scene.until(lambda: scene.app.screen is scene.app.session)
        again = await attached(scene)
        await scene.until(lambda: again.prompt.steering == ("turn round",), "what waits, again")
        assert row(scene).state == "interrupted"


@pytest.mark.thorough
async def test_one_that_has_ended_goes_on_with_what_it_is_told(tmp_path: Path) -> None:
    scripts = {
        "main": sending("look"),
        "look": [say(report("Once.")), say(report("Twice.")), say(report("Thrice."))],
    }
    async with team(tmp_path, scripts) as scene:
        await scene.until(lambda: scene.bench.seen(AgentEnded))
        screen = await attached(scene)
        for number, word in enumerate(("Twice.", "Thrice."), 2):
            await scene.type("once more", "enter")
            await scene.until(lambda n=number: len(scene.bench.seen(AgentEnded)) == n, "the end")
            await scene.until(lambda word=word: word in answers(screen)[-1], "its answer")
            await scene.until(lambda: screen.prompt.steering == (), "nothing that waits")
        notices = [each.text for each in items(screen, NoticeItem)]
        assert not any("another window" in text for text in notices), notices
        assert len(items(screen, UserItem)) == 3


@pytest.mark.thorough
async def test_agents_of_an_earlier_process_are_listed_read_and_let_go_on(tmp_path: Path) -> None:
    scripts = {"main": sending("look"), "look": [say(report("Found it.")), say(report("And again."))]}
    async with team(tmp_path, scripts) as scene:
        await scene.until(lambda: scene.bench.seen(AgentEnded))
        await scene.quiet()
        cost = row(scene).tokens
        session = engine_of(scene.app).session.id
        await scene.app.open_session(SessionRequest(resume=session))
        await scene.until(lambda: scene.app.bridge.team.row("agent-1"))
        assert (row(scene).state, row(scene).tokens) == ("done", cost)
        screen = await attached(scene)
        await scene.until(lambda: answers(screen))
        assert "Found it." in answers(screen)[0]
        assert [each.text for each in items(screen, NoticeItem)] == ["It has ended: done."]
        await scene.type("again", "enter")
        await scene.until(lambda: len(scene.bench.seen(AgentEnded)) == 2, "its second end")
        await scene.until(lambda: "And again." in answers(screen)[-1], "its answer")


@pytest.mark.thorough
async def test_kill_asks_once_says_so_at_once_and_nothing_leaves_afterwards(tmp_path: Path) -> None:
    scripts = {"main": sending("look"), "look": [say("word " * 4_000, **SLOW)] * 5}
    async with team(tmp_path, scripts) as scene:
        await scene.until(lambda: asked(scene, "look"))
        pane = scene.app.session.agents
        await scene.until(lambda: pane.display)
        pane.focus()
        await scene.pilot.press("x")
        await scene.until(lambda: getattr(scene.app.screen, "armed", False))
        await scene.pilot.press("enter")
        await scene.until(lambda: scene.app.screen is scene.app.session)
        assert row(scene).state == "running", "a bare enter is a no"
        await scene.pilot.press("x")
        await scene.until(lambda: getattr(scene.app.screen, "armed", False))
        seen: list[str] = []
        engine_of(scene.app).stream.subscribe(lambda _event: seen.append(row(scene).state))
        await scene.pilot.press("1")
        await scene.until(lambda: scene.bench.seen(AgentEnded), "the end")
        assert "stopping" in seen and row(scene).state == "interrupted"
        sent = asked(scene, "look")
        await scene.pilot.pause(0.3)
        assert asked(scene, "look") == sent
        await scene.pilot.press("x")
        await scene.pilot.pause(0.1)
        assert scene.app.screen is scene.app.session, "one that has ended is not asked about"


@pytest.mark.thorough
async def test_pause_holds_an_agent_and_lets_it_go_on(tmp_path: Path) -> None:
    answers_in_turn = iter([say("word " * 4_000, **SLOW), say(report("Done."))])
    scripts = {"main": sending("look"), "look": lambda _request: next(answers_in_turn)}
    async with team(tmp_path, scripts) as scene:
        screen = await attached(scene)
        await scene.until(lambda: row(scene).action == "writes")
        await scene.pilot.press("alt+p")
        await scene.until(lambda: row(scene).state == "paused")
        assert "paused" in screen.header.render_line(0).text
        assert "alt+p continue" in screen._keys._keys
        await scene.pilot.pause(0.3)
        assert not scene.bench.seen(AgentEnded)
        await scene.pilot.press("alt+p")
        await scene.until(lambda: scene.bench.seen(AgentEnded), "its end")


async def test_escape_and_k_stop_an_agent_where_the_terminal_knows_no_other_alt_k(tmp_path: Path) -> None:
    scripts = {"main": sending("look"), "look": [say("word " * 4_000, **SLOW)]}
    async with team(tmp_path, scripts) as scene:
        screen = await attached(scene)
        await scene.until(lambda: row(scene).action == "writes")
        for event in Keyboard().to_messages(["\x1bk"]):
            scene.app.post_message(event)
        await scene.until(lambda: isinstance(scene.app.screen, ConfirmDialog), "the question whether to")
        assert screen.prompt.text == ""


@pytest.mark.thorough
async def test_a_question_of_an_agent_comes_with_its_name_also_while_attached(tmp_path: Path) -> None:
    scripts = {
        "main": sending("look", agent="callers"),
        "look": [HELD, WHICH, say(report("b it is."))],
    }
    async with team(tmp_path, scripts) as scene:
        screen = await attached(scene)
        let_go(scene)
        await scene.until(lambda: isinstance(scene.app.screen, ClarifyDialog), "the question")
        dialog = scene.app.screen
        assert isinstance(dialog, ClarifyDialog)
        assert dialog.request.agent == "callers (agent-1)"
        assert row(scene).state == "waiting"
        await scene.until(lambda: dialog.armed)
        await scene.pilot.press("2")
        await scene.until(lambda: scene.bench.seen(AgentEnded), "its end")
        assert scene.app.screen is screen
        assert scene.bench.seen(QuestionAsked)[0].agent == "agent-1"


@pytest.mark.thorough
async def test_a_key_meant_for_the_agent_is_no_answer_and_stays_with_its_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = {"main": sending("look"), "look": [HELD, WHICH, say(report("."))]}
    async with team(tmp_path, scripts) as scene:
        screen = await attached(scene)
        monkeypatch.setattr(dialogs, "ARMING_DELAY", 60.0)
        let_go(scene)
        await scene.until(lambda: isinstance(scene.app.screen, ClarifyDialog), "the question")
        await scene.type("1x")
        await scene.until(lambda: screen.prompt.text == "1x")
        assert scene.app.session.prompt.text == ""


@pytest.mark.thorough
async def test_search_fold_and_copy_work_on_the_conversation_in_front(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = {
        "main": sending("look"),
        "look": [call("terminal", command="echo needle"), say("The needle is **here**.")],
    }
    async with team(tmp_path, scripts) as scene:
        await scene.until(lambda: scene.bench.seen(AgentEnded))
        screen = await attached(scene)
        await scene.until(lambda: answers(screen))
        copied: list[str] = []
        monkeypatch.setattr(scene.app, "copy_to_clipboard", copied.append)
        await scene.type("/find needle", "enter")
        await scene.until(lambda: screen.transcript.finder.count > 0)
        assert scene.app.session.transcript.finder.count == 0
        await scene.pilot.press("escape")
        await scene.until(lambda: not screen.transcript.finder.pattern)
        assert scene.app.screen is screen
        screen.prompt.focus()
        await scene.type("/copy", "enter")
        await scene.until(lambda: copied)
        assert copied == ["The needle is **here**."]
        await scene.type("/unfold", "enter")
        await scene.pilot.pause(0.1)
        await scene.type("/model", "enter")
        await scene.until(lambda: screen.prompt.text == "/model")
        assert scene.app.screen is screen


async def test_events_of_agents_leave_the_sessions_own_prompt_and_status_alone(tmp_path: Path) -> None:
    scripts = {
        "main": [call("delegate_task", goal="look"), say("end " * 4_000, **SLOW)],
        "look": [say(report("Quick."))],
    }
    async with team(tmp_path, scripts) as scene:
        await scene.until(lambda: scene.bench.seen(AgentEnded))
        assert [each.agent for each in scene.bench.seen(TurnEnded)] == ["agent-1"]
        assert scene.app.session.prompt.busy and scene.app.bridge.state.busy_since is not None


@pytest.mark.thorough
async def test_cleared_agents_come_back_when_they_go_on(tmp_path: Path) -> None:
    scripts = {"main": sending("look"), "look": [say(report("Once.")), say("slow " * 40, **SLOW)]}
    async with team(tmp_path, scripts) as scene:
        await scene.until(lambda: scene.bench.seen(AgentEnded))
        pane = scene.app.session.agents
        await scene.until(lambda: pane.display)
        pane.focus()
        await scene.pilot.press("C")
        await scene.until(lambda: not pane.agents)
        await engine_of(scene.app).scheduler.send_input("agent-1", "on")
        await scene.until(lambda: [each.agent for each in pane.agents] == ["agent-1"])
        assert len(scene.bench.seen(AgentStarted)) == 2


@pytest.mark.thorough
async def test_tasks_of_an_agent_stand_below_that_of_its_sender_and_beside_its_conversation(
    tmp_path: Path,
) -> None:
    own = [{"id": "1", "content": "Look around", "status": "in_progress"}]
    theirs = [
        {"id": "1", "content": "List", "status": "completed"},
        {"id": "2", "content": "Read", "status": "in_progress"},
    ]
    scripts = {
        "main": [call("todo_write", todos=own), *sending("look")],
        "look": [call("todo_write", todos=theirs), HELD, say(report("Done."))],
    }
    async with team(tmp_path, scripts) as scene:
        todo = scene.app.session.todo
        await scene.until(lambda: todo.count == 2 and todo.size.height > 2, "the folded list")
        assert [item.content for item in todo.items] == ["Look around"] and todo.figure() == "0/1"
        assert "▸ agent-1  Read" in todo.render_line(2).text and "1/2" in todo.render_line(2).text
        screen = await attached(scene)
        await scene.until(lambda: [item.content for item in screen.todo.items] == ["List", "Read"])
        let_go(scene)
        await scene.until(lambda: scene.bench.seen(AgentEnded), "its end")

"""From a hit to its place in the conversation, in the whole application."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.tui.screens.sessions.sessions import HitRows, SearchScreen
from tests.app.tui.test_application import Stage, stage
from tests.support.replies import say
from tests.support.sessions import engine_of
from widgets.transcript.parts import AnswerItem, CallItem, UserItem


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


async def conversation(on: Stage) -> str:
    """A long session with a call and a branch `side`, besides the open one. Its id."""
    store = engine_of(on.app).session.store
    session = await store.create_session(workspace=str(on.bench.workspace), model="scripted", title="Otters")
    first = await store.append(session.id, "user", "How do otters sleep?", {"origin": "prompt"})
    await store.fork(session.id, first.id, "side")
    asked = {"id": "c1", "name": "terminal", "arguments": '{"command": "count rafts"}'}
    await store.append(session.id, "assistant", "", {"calls": [asked], "state": "complete"})
    result = '{"output": "seven rafts of Kelpies"}'
    await store.append(session.id, "tool", result, {"call": "c1", "tool": "terminal", "outcome": "done"})
    for number in range(60):
        await store.append(session.id, "assistant", f"Answer {number} about holding hands.")
    await store.append(session.id, "assistant", "On their *Rücken*, of course.", head="side")
    await store.use_head(session.id, "main")
    return session.id


async def go(on: Stage, line: str) -> None:
    """Search for a line and open the first hit."""
    await on.pilot.press("alt+s")
    await on.until(lambda: isinstance(on.app.screen, SearchScreen), "the search")
    await on.pilot.press(*line)
    screen = on.app.screen
    await on.until(lambda: bool(screen.query_one(HitRows).hits), "hits")
    await on.pilot.pause(0.1)
    await on.pilot.press("enter")
    await on.until(lambda: not isinstance(on.app.screen, SearchScreen), "the end of the search")


def focused(on: Stage) -> object:
    transcript = on.app.session.transcript
    at = transcript.navigator.focused
    return None if at is None else transcript.document.peek(at)


@pytest.mark.thorough
async def test_a_hit_in_another_session_is_opened_at_its_message(tmp_path: Path) -> None:
    async with stage(tmp_path, lambda request: say("Hello.")) as on:
        await on.ready()
        other = await conversation(on)
        await go(on, "how do otters")
        await on.until(lambda: isinstance(focused(on), UserItem), "the message")
        assert engine_of(on.app).session.id == other
        finder = on.app.session.transcript.finder
        await on.until(lambda: finder.pattern == "How do otters" and finder.number == 1, "the match")


async def test_a_hit_on_another_branch_opens_that_branch_and_the_match_is_lit(tmp_path: Path) -> None:
    async with stage(tmp_path, lambda request: say("Hello.")) as on:
        await on.ready()
        other = await conversation(on)
        await go(on, "rucken")
        await on.until(lambda: isinstance(focused(on), AnswerItem), "the message")
        session = engine_of(on.app).session
        assert (session.id, session.head) == (other, "side")
        finder = on.app.session.transcript.finder
        await on.until(lambda: finder.pattern == "Rücken" and finder.number == 1, "the match")
        # Its keys are commands where there was a search, however narrow the screen is.
        screen = on.app.session
        await on.until(lambda: "n" in screen.keys_shown(), "the hint")
        await on.pilot.press("n", "N")
        assert screen.transcript.has_focus and screen.prompt.text == ""
        await on.pilot.press("escape")
        await on.until(lambda: not finder.pattern, "the end of the search")
        await on.pilot.press("n")
        await on.until(lambda: finder.pattern == "Rücken", "the same search")
        assert "n" in screen.keys_shown() and screen.prompt.text == ""


@pytest.mark.thorough
async def test_a_hit_on_another_branch_of_the_open_session_leads_there_and_undo_leads_back(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, lambda request: say("Hello.")) as on:
        await on.ready()
        other = await conversation(on)
        await go(on, "holding")
        await on.until(lambda: isinstance(focused(on), AnswerItem), "the message")
        engine = engine_of(on.app)
        assert (engine.session.id, engine.session.head) == (other, "main")
        await go(on, "rucken")
        await on.until(lambda: on.app.bridge.state.head == "side", "the other branch")
        await on.until(lambda: isinstance(focused(on), AnswerItem), "the message on the other branch")
        assert engine_of(on.app) is engine and engine.session.head == "side"
        await on.until(
            lambda: any("Files stay as they are." in toast.message for toast in on.app._notifications),
            "the word about files",
        )
        finder = on.app.session.transcript.finder
        await on.until(lambda: finder.pattern == "Rücken" and finder.number == 1, "the match")
        await on.app.history_actions.undo()
        assert engine.session.head == "main"


async def test_a_hit_on_a_dropped_branch_of_the_open_session_gets_a_branch_again(tmp_path: Path) -> None:
    async with stage(tmp_path, lambda request: say("Hello.")) as on:
        await on.ready()
        engine = engine_of(on.app)
        session, store = engine.session, engine.session.store
        await store.fork(session.id, session.path[-1].id if session.path else None, "gone")
        found = await store.append(session.id, "assistant", "Quokkas smile.", head="gone")
        await store.drop_head(session.id, "gone")
        await go(on, "quokkas")
        await on.until(lambda: isinstance(focused(on), AnswerItem), "the message")
        assert engine_of(on.app) is engine and session.head == f"found-{found.id}"


@pytest.mark.thorough
async def test_a_hit_in_the_open_conversation_is_gone_to_without_opening_it_again(tmp_path: Path) -> None:
    async with stage(tmp_path, lambda request: say("Hello.")) as on:
        await on.ready()
        await conversation(on)
        await go(on, "holding")
        await on.until(lambda: isinstance(focused(on), AnswerItem), "the message")
        engine = engine_of(on.app)
        await go(on, "tool:terminal kelpies")
        await on.until(lambda: isinstance(focused(on), CallItem), "the call")
        assert engine_of(on.app) is engine
        finder = on.app.session.transcript.finder
        await on.until(lambda: finder.pattern == "Kelpies" and finder.number == 1, "the match")


@pytest.mark.thorough
async def test_what_a_call_was_asked_is_found_at_its_card(tmp_path: Path) -> None:
    async with stage(tmp_path, lambda request: say("Hello.")) as on:
        await on.ready()
        await conversation(on)
        await go(on, "count rafts")
        await on.until(lambda: isinstance(focused(on), CallItem), "the call")

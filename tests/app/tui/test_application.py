"""The application against a real engine and a scripted model server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from agent.api.opening import open_session
from agent.errors import ConfigError
from agent.events import RequestResolved, ToolFinished, TurnEnded
from agent.knowledge.context.compaction import CompactionPlan
from agent.model.demo import TOUR_REQUEST
from agent.model.providers import NoModelError
from agent.session.options import Options
from app.cli.options import with_tour
from app.tui.application import HermesApp
from app.tui.commands import actions
from app.tui.conversation.active_conversation import transcript
from app.tui.conversation.session_host import Listener, SessionRequest
from app.tui.questions import request_queue
from app.tui.questions.dialogs import ApprovalDialog, ClarifyDialog
from app.tui.screens import dialog as dialogs
from app.tui.screens.dialog import DetailScreen
from app.tui.screens.help import HelpScreen
from app.tui.screens.models.models import OnboardingScreen
from tests.support.engines import Bench, bench
from tests.support.replies import Reply, call, calls, say
from tests.support.sessions import engine_of
from tests.support.team import UNASKED
from tests.support.waiting import until
from tools.services.actions import ReachHost
from widgets.panes.log import LogPane
from widgets.prompt.widget import Prompt
from widgets.transcript.parts import AnswerItem, CallItem, NoticeItem, UserItem


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.02)
    monkeypatch.setattr(request_queue, "TYPING_PAUSE", 0.4)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


@dataclass
class Stage:
    """A running application, and what the tests look at."""

    app: HermesApp
    pilot: Pilot[None]
    bench: Bench

    async def until(self, true: Callable[[], Any], what: str = "it") -> None:
        await until(self.pilot, true, what)

    async def type(self, text: str, *keys: str) -> None:
        await self.pilot.press(*text, *keys)

    def items(self, kind: type) -> list[Any]:
        return [
            entry.item
            for entry in self.app.session.transcript.document.entries
            if isinstance(entry.item, kind)
        ]

    def answers(self) -> list[str]:
        return [item.text for item in self.items(AnswerItem)]

    async def ready(self) -> None:
        await self.until(lambda: self.app.host.client is not None, "opening the engine")

    async def quiet(self, turns: int = 1) -> None:
        await self.until(
            lambda: len(self.bench.seen(TurnEnded)) >= turns and not self.app.host.busy, "the end"
        )
        await self.pilot.pause(0.05)


@asynccontextmanager
async def stage(
    tmp_path: Path,
    script: Any,
    *,
    size: tuple[int, int] = (80, 24),
    wait: bool = True,
    no_model: bool = False,
    silent: bool = False,
    config: str = UNASKED,
    **options: Any,
) -> AsyncIterator[Stage]:
    async with bench(tmp_path, script) as made:
        made.config(config)
        environ = {
            "HERMES_HOME": str(made.home),
            "OPENAI_BASE_URL": made.server.base_url,
            "OPENAI_API_KEY": "test-key",
            "HERMES_MODEL": "scripted",
        }

        async def opener(wish: SessionRequest, listener: Listener):
            chosen = Options(
                workspace=made.workspace,
                attended=True,
                **{"approve": "all", **options, "resume": wish.resume, "model": wish.model},
            )
            if wish.tour:
                chosen = with_tour(replace(chosen, model="demo", approve=None))
            if no_model and wish.model is None and not wish.tour:
                while not silent and not app.waiting():
                    await asyncio.sleep(0.01)
                raise NoModelError
            return await open_session(chosen, listener, made.events.append, environ=environ)

        app = HermesApp(opener)
        try:
            async with app.run_test(size=size) as pilot:
                scene = Stage(app, pilot, made)
                if wait:
                    await scene.ready()
                yield scene
        finally:
            await app.host.close()


@pytest.mark.thorough
async def test_a_message_is_answered(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("Hello **you**.", reasoning="They greet.")]) as scene:
        await scene.type("hi there", "enter")
        await scene.quiet()
        assert scene.answers() == ["Hello **you**."]
        assert [item.text for item in scene.items(UserItem)] == ["hi there"]
        assert scene.app.session.prompt.text == ""
        assert scene.app.bridge.state.context_used


@pytest.mark.thorough
async def test_a_message_sent_before_the_engine_is_there_is_not_lost(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("Here.")], wait=False) as scene:
        await scene.type("early", "enter")
        await scene.quiet()
        assert scene.answers() == ["Here."]


@pytest.mark.thorough
async def test_enter_queues_while_the_agent_works(tmp_path: Path) -> None:
    was_queued = asyncio.Event()
    async with stage(tmp_path, [say("one", until=was_queued.is_set), say("two")]) as scene:
        await scene.type("first", "enter")
        await scene.until(lambda: scene.app.session.prompt.busy)
        await scene.type("second", "enter")
        await scene.until(lambda: scene.app.session.prompt.queued == ("second",))
        was_queued.set()
        await scene.quiet(2)
        assert [item.origin for item in scene.items(UserItem)] == ["prompt", "queue"]
        assert scene.app.session.prompt.queued == ()


@pytest.mark.thorough
async def test_the_queue_can_be_taken_back(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("one " * 2_000, piece=4, pace=0.06)]) as scene:
        await scene.type("first", "enter")
        await scene.until(lambda: scene.app.session.prompt.busy)
        await scene.type("second", "enter")
        await scene.until(lambda: scene.app.session.prompt.queued == ("second",))
        await scene.type("/queue", "enter")
        await scene.until(lambda: scene.app.session.prompt.text == "second")
        await scene.type("", "escape")
        await scene.quiet()
        assert len(scene.bench.seen(TurnEnded)) == 1


@pytest.mark.thorough
async def test_steering_reaches_the_running_turn(tmp_path: Path) -> None:
    def second(request: Any) -> Reply:
        assert any("sharper" in str(message) for message in request.messages)
        return say("Sharper it is.")

    script = [call("terminal", command="while [ ! -e go ]; do sleep 0.05; done"), second]
    async with stage(tmp_path, script) as scene:
        await scene.type("go", "enter")
        await scene.until(lambda: scene.items(CallItem))
        await scene.type("sharper", "ctrl+s")
        await scene.until(lambda: scene.app.session.prompt.steering == ("sharper",))
        (scene.bench.workspace / "go").touch()
        await scene.quiet()
        assert scene.answers() == ["Sharper it is."]
        assert [item.origin for item in scene.items(UserItem)] == ["prompt", "steer"]


@pytest.mark.thorough
async def test_a_question_is_answered_in_a_dialog_and_the_draft_stays(tmp_path: Path) -> None:
    asked = {"question": "Which?", "choices": ["red", "blue"]}
    question = calls(("clarify", asked), until=lambda: scene.app.session.prompt.text == "draft")
    async with stage(tmp_path, [question, say("Blue.")]) as scene:
        await scene.type("pick", "enter")
        for letter in "draft":
            # Without a pause, in which the question might come.
            scene.app.post_message(events.Key(letter, letter))
        await scene.until(lambda: getattr(scene.app.screen, "armed", False))
        assert isinstance(scene.app.screen, ClarifyDialog)
        assert scene.app.bridge.state.questions == 1
        await scene.pilot.press("2")
        await scene.quiet()
        assert scene.app.screen is scene.app.session
        assert scene.app.session.prompt.text == "draft"
        assert '"blue"' in scene.items(CallItem)[0].result
        assert scene.app.bridge.state.questions == 0


@pytest.mark.thorough
async def test_a_denied_approval_runs_nothing_and_the_model_reads_why(tmp_path: Path) -> None:
    script = [call("terminal", command="rm -rf ../keep"), say("Then not.")]
    async with stage(tmp_path, script, approve="ask") as scene:
        keep = scene.bench.workspace.parent / "keep"
        keep.mkdir()
        await scene.type("clean up", "enter")
        await scene.until(lambda: getattr(scene.app.screen, "armed", False))
        assert isinstance(scene.app.screen, ApprovalDialog)
        await scene.pilot.press("5", *"mine", "enter")
        await scene.quiet()
        assert keep.is_dir()
        (finished,) = scene.bench.seen(ToolFinished)
        assert finished.outcome == "denied" and "mine" in finished.result


async def test_a_question_that_a_thread_has_asked_is_shown_and_answered(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("hi")], approve="ask") as scene:
        await scene.ready()
        gate = engine_of(scene.app)._gate
        action = ReachHost(tool="network", host="a.example.org", port=443)
        asking = partial(asyncio.run_coroutine_threadsafe, gate.permit(action), asyncio.get_running_loop())
        # As the thread that filters the network asks: it knows nothing of the application.
        answer = await asyncio.to_thread(Context().run, asking)
        await scene.until(lambda: getattr(scene.app.screen, "armed", False), "the dialog")
        await scene.pilot.press("1")
        await asyncio.wrap_future(answer)
        assert scene.app.is_running and scene.app.screen is scene.app.session


@pytest.mark.thorough
async def test_escape_stops_the_turn_for_good(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("word " * 4_000, piece=5, pace=0.05)]) as scene:
        await scene.type("talk", "enter")
        await scene.until(lambda: scene.app.session.prompt.busy)
        await scene.pilot.press("escape")
        await scene.quiet()
        assert scene.bench.seen(TurnEnded)[0].outcome == "interrupted"
        assert "Stopped." in [item.text for item in scene.items(NoticeItem)]


@pytest.mark.thorough
async def test_an_interrupt_closes_the_dialog(tmp_path: Path) -> None:
    async with stage(tmp_path, [call("clarify", question="Which?", choices=["a", "b"])]) as scene:
        await scene.type("ask", "enter")
        await scene.until(lambda: isinstance(scene.app.screen, ClarifyDialog))
        engine_of(scene.app).interrupt()
        await scene.quiet()
        assert scene.app.screen is scene.app.session
        assert [event.outcome for event in scene.bench.seen(RequestResolved)] == ["cancelled"]


async def test_ctrl_c_clears_then_warns_then_quits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "QUIT_WINDOW", 60.0)
    async with stage(tmp_path, []) as scene:
        await scene.type("abc", "ctrl+c")
        await scene.pilot.pause()
        assert scene.app.session.prompt.text == "" and scene.app.is_running
        await scene.pilot.press("ctrl+c")
        await scene.pilot.pause()
        assert scene.app.is_running
        await scene.pilot.press("ctrl+c")
        await scene.until(lambda: not scene.app.is_running)


@pytest.mark.thorough
async def test_ctrl_d_quits_only_with_an_empty_prompt(tmp_path: Path) -> None:
    async with stage(tmp_path, []) as scene:
        await scene.type("ab", "ctrl+d")
        await scene.pilot.pause()
        assert scene.app.is_running
        await scene.pilot.press("ctrl+u", "ctrl+d")
        await scene.until(lambda: not scene.app.is_running)


@pytest.mark.thorough
async def test_everything_survives_resizing(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("# Title\n\n" + "words and words " * 60, pace=0.01)]) as scene:
        await scene.type("write", "enter")
        for size in ((120, 40), (40, 10), (20, 5), (80, 24)):
            await scene.pilot.resize_terminal(*size)
            await scene.pilot.pause(0.02)
        await scene.quiet()
        assert scene.answers()[0].startswith("# Title")


@pytest.mark.thorough
async def test_slash_commands_work_and_unknown_ones_are_a_sentence(tmp_path: Path) -> None:
    async with stage(tmp_path, []) as scene:
        await scene.type("/help", "enter")
        await scene.until(lambda: isinstance(scene.app.screen, HelpScreen))
        await scene.pilot.press("escape")
        await scene.type("/nonsense", "enter")
        prompt = scene.app.screen.query_one(Prompt)
        await scene.until(lambda: prompt.text == "/nonsense", "the words come back")
        await scene.pilot.press("ctrl+u")
        await scene.type("/skin paper", "enter")
        await scene.until(lambda: scene.app.appearance.skin.name == "paper")
        scene.app.run_worker(scene.app.actions.run_slash("skin nowhere"))
        await scene.pilot.pause(0.05)
        assert scene.app.appearance.skin.name == "paper"


@pytest.mark.thorough
async def test_a_session_is_resumed_with_all_that_was_said(tmp_path: Path) -> None:
    script = [call("read_file", path="notes.txt"), say("It says hi.")]
    async with stage(tmp_path, script) as scene:
        (scene.bench.workspace / "notes.txt").write_text("hi\n")
        await scene.type("read it", "enter")
        await scene.quiet()
        first = scene.app.host.session
        await scene.type("/new", "enter")
        await scene.until(lambda: scene.app.host.session != first and scene.app.host.client is not None)
        await scene.pilot.pause(0.05)
        assert scene.items(UserItem) == []
        await scene.type(f"/resume {first}", "enter")
        await scene.until(lambda: scene.items(AnswerItem), "showing the past")
        assert scene.app.host.session == first
        assert scene.answers() == ["It says hi."]
        (shown,) = scene.items(CallItem)
        assert shown.outcome == "done" and "notes.txt" in shown.display.subject


@pytest.mark.thorough
async def test_resuming_what_is_not_there_keeps_the_session(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("Still here.")]) as scene:
        first = scene.app.host.session
        await scene.type("/resume nowhere", "enter")
        await scene.pilot.pause(0.2)
        await scene.until(lambda: scene.app.host.client is not None)
        assert scene.app.host.session == first
        await scene.type("hi", "enter")
        await scene.quiet()
        assert scene.answers() == ["Still here."]


@pytest.mark.thorough
async def test_without_a_model_the_first_message_waits_for_one(tmp_path: Path) -> None:
    async with stage(tmp_path, [], wait=False, no_model=True) as scene:
        await scene.type("hello", "enter")
        await scene.until(lambda: getattr(scene.app.screen, "armed", False))
        assert isinstance(scene.app.screen, OnboardingScreen)
        assert not "".join(strip.text for strip in transcript(scene.app)._picture.lines).strip()
        await scene.pilot.press("end", "enter")
        await scene.ready()
        assert engine_of(scene.app).model == "demo"
        await scene.until(lambda: scene.items(UserItem), "sending it")
        assert [item.text for item in scene.items(UserItem)] == ["hello"]


async def test_the_tour_begins_by_itself(tmp_path: Path) -> None:
    async with stage(tmp_path, [], wait=False, no_model=True, silent=True) as scene:
        await scene.until(lambda: getattr(scene.app.screen, "armed", False))
        await scene.pilot.press("end", "enter")
        await scene.ready()
        await scene.until(lambda: scene.items(CallItem), "its first call")
        assert [item.text for item in scene.items(UserItem)] == [TOUR_REQUEST]
        # It has a folder of its own; the project stays as it is.
        assert scene.app.need_client().workspace == (tmp_path / "home-demo").resolve()


async def test_a_start_that_cannot_be_ends_with_its_error(tmp_path: Path) -> None:
    async def opener(_wish: SessionRequest, _listener: Listener):
        raise ConfigError("Settings are wrong; mend them.")

    app = HermesApp(opener)
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.failure is not None)
    assert str(app.failure) == "Settings are wrong; mend them." and app.return_code == 2


@pytest.mark.thorough
async def test_a_command_typed_before_the_session_is_open_runs_when_it_is(tmp_path: Path) -> None:
    async with stage(tmp_path, [], wait=False) as scene:
        opener, gate = scene.app.host._opener, asyncio.Event()

        async def later(wish: SessionRequest, listener: Listener) -> Any:
            await gate.wait()
            return await opener(wish, listener)

        scene.app.host._opener = later
        await scene.until(lambda: scene.app.session.panes_mounted)
        assert scene.app.host.client is None
        await scene.type("/title Early", "enter")
        await scene.until(
            lambda: any("waits until it is" in each.message for each in scene.app._notifications)
        )
        gate.set()
        await scene.until(lambda: scene.app.bridge.state.title == "Early", "its title")


@pytest.mark.thorough
async def test_a_command_of_the_person_runs_and_the_model_reads_it(tmp_path: Path) -> None:
    def answer(request: Any) -> Reply:
        assert "otter-42" in str(request.messages)
        return say("Seen.")

    async with stage(tmp_path, [answer]) as scene:
        await scene.type("!echo otter-$((40+2))", "enter")
        await scene.until(lambda: scene.items(NoticeItem))
        assert scene.items(NoticeItem)[0].text == "$ echo otter-$((40+2))\notter-42"
        await scene.type("did you see", "enter")
        await scene.quiet()
        assert scene.answers() == ["Seen."]


@pytest.mark.thorough
async def test_a_call_whose_result_is_no_longer_sent_is_shown_in_full(tmp_path: Path) -> None:
    script = [call("terminal", command="echo kept on disk"), say("Done.")]
    async with stage(tmp_path, script) as scene:
        await scene.type("go", "enter")
        await scene.quiet()
        session = engine_of(scene.app).session
        results = [node.id for node in session.path if node.kind == "tool"]
        await session.add_compaction(CompactionPlan("mask", {"stage": "mask", "nodes": results}, 1))
        scene.app.bridge._finished.clear()
        scene.app.session.calls.post_message(LogPane.Opened(scene.items(CallItem)[0].call))
        await scene.until(lambda: isinstance(scene.app.screen, DetailScreen), "the call in full")
        assert "kept on disk" in scene.app.screen.reader.text  # type: ignore[attr-defined]


@pytest.mark.thorough
async def test_after_a_click_into_the_conversation_what_is_typed_is_in_the_prompt(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("Read *this*.", reasoning="They greet.")]) as scene:
        await scene.type("hi", "enter")
        await scene.quiet()
        session = scene.app.session
        for y in range(session.transcript.size.height):
            await scene.pilot.click(session.transcript, offset=(5, y))
        assert scene.app.focused is session.prompt
        await scene.type("joke")
        assert session.prompt.text == "joke"


async def test_shift_and_tab_go_to_the_next_mode_from_the_prompt_and_elsewhere_to_the_part_before(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, [say("Hello.")], size=(120, 40)) as scene:
        await scene.type("hi", "enter")
        await scene.quiet()
        app = scene.app
        before = app.need_client().mode
        await scene.pilot.press("shift+tab")
        await scene.until(lambda: app.need_client().mode != before)
        now = app.need_client().mode
        assert app.focused is app.session.prompt
        app.session.transcript.focus()
        await scene.pilot.press("shift+tab")
        assert app.focused is not app.session.transcript and app.need_client().mode == now


@pytest.mark.thorough
async def test_letters_that_are_no_command_where_they_are_typed_go_to_the_prompt(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("Hello.")], size=(120, 40)) as scene:
        session = scene.app.session
        for part in (session.transcript, session.calls, session.agents, session.todo, None):
            for typed in ("Zebra, jk.", "(x)"):
                session.prompt.set_text("")
                session.set_focus(part)
                await scene.pilot.pause()
                await scene.type(typed)
                await scene.until(lambda typed=typed: session.prompt.text == typed, f"{typed} from {part}")
                assert scene.app.focused is session.prompt
            session.set_focus(part)
            await scene.pilot.pause()
            scene.app.post_message(events.Paste(" pasted"))
            await scene.until(lambda: session.prompt.text == "(x) pasted", "the paste")


@pytest.mark.thorough
async def test_letters_that_are_commands_stay_with_the_conversation(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("Hello.")]) as scene:
        await scene.type("hi", "enter")
        await scene.quiet()
        session = scene.app.session
        session.transcript.focus()
        await scene.pilot.pause()
        await scene.type("kjgG")
        assert session.prompt.text == "" and session.transcript.has_focus

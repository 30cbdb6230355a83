"""Requests are shown one at a time, never over someone who types, and each ends exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agent.events import ApprovalAsked, Decision, QuestionAsked, RequestResolved
from app.tui.questions import request_queue
from app.tui.questions.dialogs import ClarifyDialog
from app.tui.questions.request_queue import TYPING_PAUSE, Request, RequestQueue
from app.tui.screens import dialog as dialogs
from app.tui.screens.dialog import DetailScreen, TextDialog
from app.tui.screens.palette import PaletteScreen
from tests.support import story
from tests.support.staged import Staged, drawn, scene
from tests.support.waiting import until
from tools.context import PersonAnswer


class FakeStage:
    """Keeps what it was asked to show; the test decides about time."""

    def __init__(self) -> None:
        self.idle = 60.0
        self.timers: list[tuple[float, Callable[[], object]]] = []
        self.shown: list[str] = []
        self.closed: list[str] = []
        self.counts: list[int] = []
        self.done: Callable[[Any], None] = lambda _outcome: None

    def typing_for(self) -> float:
        return self.idle

    def later(self, delay: float, act: Callable[[], object]) -> None:
        self.timers.append((delay, act))

    def show(self, request: Request, done: Callable[[Any], None]) -> Callable[[], None]:
        self.shown.append(request.id)
        self.done = done
        return lambda: self.closed.append(request.id)

    def waiting(self, count: int) -> None:
        self.counts.append(count)


def question(id: str) -> QuestionAsked:
    reply: asyncio.Future[PersonAnswer] = asyncio.get_running_loop().create_future()
    return QuestionAsked(id=id, question="?", choices=(), allow_freetext=True, reply=reply)


def approval(id: str) -> ApprovalAsked:
    reply: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
    return ApprovalAsked(id=id, tool="terminal", headline="ls", reasons=(), reply=reply)


async def test_the_second_request_waits_for_the_first() -> None:
    stage = FakeStage()
    queue = RequestQueue(stage)
    first, second = question("a"), approval("b")
    queue.add(first)
    queue.add(second)
    assert stage.shown == ["a"] and stage.counts[-1] == 2
    stage.done(PersonAnswer("answered", "yes"))
    assert first.reply.result() == PersonAnswer("answered", "yes")
    assert stage.shown == ["a", "b"] and stage.counts[-1] == 1
    stage.done(Decision("once"))
    assert second.reply.result() == Decision("once") and len(queue) == 0


async def test_nothing_comes_up_over_someone_who_types() -> None:
    stage = FakeStage()
    queue = RequestQueue(stage)
    stage.idle = 0.1
    queue.add(question("a"))
    queue.add(question("b"))
    assert stage.shown == [] and stage.counts[-1] == 2
    ((delay, retry),) = stage.timers
    assert 0 < delay < TYPING_PAUSE
    retry()
    assert stage.shown == [] and len(stage.timers) == 2
    stage.idle = TYPING_PAUSE
    stage.timers[-1][1]()
    assert stage.shown == ["a"]


async def test_a_request_that_the_engine_ended_leaves_the_screen_and_the_queue() -> None:
    stage = FakeStage()
    queue = RequestQueue(stage)
    for id in ("a", "b", "c"):
        queue.add(question(id))
    queue.close_request("b")
    queue.close_request("a")
    assert stage.closed == ["a"] and stage.shown == ["a", "c"] and len(queue) == 1


async def test_a_dialog_that_was_closed_from_outside_is_a_cancelled_request() -> None:
    stage = FakeStage()
    queue = RequestQueue(stage)
    asked, allowed = question("a"), approval("b")
    queue.add(asked)
    queue.add(allowed)
    stage.done(None)
    stage.done(None)
    assert asked.reply.result() == PersonAnswer("cancelled") and allowed.reply.result() == Decision(
        "cancelled"
    )


async def test_an_outcome_that_comes_too_late_changes_nothing() -> None:
    stage = FakeStage()
    queue = RequestQueue(stage)
    asked = question("a")
    queue.add(asked)
    asked.reply.set_result(PersonAnswer("cancelled"))
    stage.done(PersonAnswer("answered", "late"))
    assert asked.reply.result() == PersonAnswer("cancelled")


async def test_a_request_that_is_over_before_its_turn_is_never_shown() -> None:
    stage = FakeStage()
    queue = RequestQueue(stage)
    queue.add(question("a"))
    over = question("b")
    over.reply.set_result(PersonAnswer("cancelled"))
    queue.add(over)
    stage.done(PersonAnswer("declined"))
    assert stage.shown == ["a"]


async def test_clearing_forgets_everything() -> None:
    stage = FakeStage()
    queue = RequestQueue(stage)
    queue.add(question("a"))
    queue.add(question("b"))
    queue.clear()
    assert stage.closed == ["a"] and len(queue) == 0 and stage.counts[-1] == 0


@pytest.mark.thorough
@pytest.mark.parametrize("make", [PaletteScreen, lambda: TextDialog("New title")], ids=["palette", "title"])
async def test_a_dialog_does_not_cover_what_is_open_for_a_moment(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_queue, "TYPING_PAUSE", 0.02)
    app = Staged()
    async with app.run_test(size=(80, 24)) as pilot:
        await scene(lambda _app, _pilot: drawn(pilot))(pilot)
        app.hear([story.opened(), *story.asked()])
        opened = make()
        await app.push_screen(opened)
        app.hear([story.question(), story.question()])
        await pilot.pause(0.2)
        assert app.screen is opened and app.session.status.status.questions == 2
        opened.dismiss(None)
        await until(pilot, lambda: isinstance(app.screen, ClarifyDialog), "the question")


@pytest.mark.thorough
async def test_a_question_that_is_over_goes_as_soon_as_nothing_lies_over_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.01)
    app = Staged()
    async with app.run_test(size=(80, 24)) as pilot:
        await scene(lambda _app, _pilot: drawn(pilot))(pilot)
        asked = story.question()
        app.hear([story.opened(), *story.asked(), asked])
        app.requests.show_now()
        await until(pilot, lambda: isinstance(app.screen, ClarifyDialog) and app.screen.armed)
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, DetailScreen))
        asked.reply.set_result(asked.cancelled)
        app.hear([RequestResolved(id=asked.id, outcome="cancelled")])
        await pilot.pause()
        assert isinstance(app.screen, DetailScreen)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen_stack == [app.session])

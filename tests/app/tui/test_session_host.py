"""The one engine of the application: what is told while a session opens is seen once it is open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.errors import HermesError
from agent.events import Event, Noticed, SessionOpened, ToolStarted, TurnEnded, TurnStarted
from app.tui.conversation.session_host import Listener, SessionHost, SessionRequest, opened_first
from tests.app.tui.test_application import stage
from tests.support.replies import call, say
from widgets.transcript.parts import NoticeItem, UserItem

OPENED = SessionOpened(
    session="s", title="", model="m", workspace="/w", nodes=0, approvals="ask", sandbox="none"
)


def note(text: str) -> Noticed:
    return Noticed(kind="warning", text=text)


def test_notices_of_a_session_that_opens_follow_its_opening_in_their_order() -> None:
    heard: list[Event] = []
    hear = opened_first(heard.append)
    started, first, second, later = TurnStarted(turn=1), note("first"), note("second"), note("later")
    for event in (first, started, second, OPENED, later, OPENED):
        hear(event)
    assert heard == [started, OPENED, first, second, later, OPENED]


def _a_file(checkpoints: Path) -> None:
    checkpoints.write_text("no folder")


def _garbage(checkpoints: Path) -> None:
    checkpoints.mkdir(mode=0o700)
    (checkpoints / "format").write_bytes(b"\xff\x00 something else")


@pytest.mark.thorough
@pytest.mark.parametrize("spoil", [_a_file, _garbage])
async def test_that_files_are_not_kept_is_said_as_each_session_opens(
    tmp_path: Path, spoil: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("HERMES_HOME", str(home))
    spoil(home / "checkpoints")
    async with stage(tmp_path, [say("Here.")]) as scene:

        def told() -> bool:
            said = [item.text for item in scene.items(NoticeItem)]
            return sum(text.startswith("What happens to files is not kept") for text in said) == 1

        await scene.until(told, "the notice")
        before = scene.app.host.session
        await scene.type("/new", "enter")
        await scene.until(lambda: scene.app.host.session != before, "another session")
        await scene.until(told, "the notice again")


@pytest.mark.thorough
async def test_words_that_waited_in_a_session_that_is_left_are_in_the_prompt_of_the_next(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, [call("terminal", command="sleep 1000"), say("Here.")]) as scene:
        app = scene.app
        await scene.type("begin", "enter")
        await scene.until(lambda: scene.bench.seen(ToolStarted), "the command")
        await scene.type("one", "enter")
        await scene.type("two", "ctrl+s")
        await scene.until(lambda: app.waiting() == ["one"], "the queue")
        await scene.type("half a draft")
        before = app.host.session
        app.action_order("session.new")
        await scene.until(lambda: app.host.client and app.host.session != before, "another session")
        assert sorted(app.session.prompt.text.split("\n\n")) == ["half a draft", "one", "two"]
        assert app.session.prompt.text.endswith("half a draft")
        assert app.waiting() == [] and app.session.prompt.queued == () and not app.session.prompt.busy


@pytest.mark.thorough
async def test_where_another_session_cannot_be_opened_the_one_before_is_on_the_screen_again(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, [say("Here I am.")]) as scene:
        app = scene.app
        await scene.type("where?", "enter")
        await scene.until(lambda: scene.bench.seen(TurnEnded), "the answer")
        before = app.host.session
        with pytest.raises(HermesError):
            await app.open_session(SessionRequest(resume="never-there"))
        assert app.host.session == before
        assert [each.text for each in scene.items(UserItem)] == ["where?"]


async def test_nothing_that_waits_comes_back_when_the_program_ends() -> None:
    came: list[Sequence[str]] = []
    engines = [
        SimpleNamespace(queue=queue, id="s", path=(), aclose=_nothing) for queue in (("one", "two"), ("two",))
    ]

    async def opener(_wish: SessionRequest, _listener: Listener) -> Any:
        return engines.pop(0)

    host = SessionHost(opener, lambda _event: None, came.append)
    await host.open(SessionRequest())
    await host.open(SessionRequest(fresh=True))
    assert came == [("one",)]
    await host.close()
    assert came == [("one",)]


async def _nothing() -> None:
    pass

"""The one engine of the application: what is told while a session opens is seen once it is open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.events import Event, Noticed, SessionOpened, TurnStarted
from app.host import opened_first
from tests.app.test_application import stage
from tests.support.replies import say
from widgets.transcript.items import NoticeItem

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

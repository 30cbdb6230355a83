"""`/futures` in the application: begun, listed, and one of them picked and taken back again."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.futures import Future
from app.futures import Wish, read, told
from app.screens import dialog as dialogs
from tests.agent.test_futures import Engineer, write
from tests.app.test_application import stage
from tests.app.test_going_back import files, notices


@pytest.mark.parametrize(
    ("argument", "wish"),
    [
        ("", Wish("list")),
        (" list ", Wish("list")),
        ("stop", Wish("stop")),
        ("stop 2", Wish("stop", 2)),
        ("pick 3", Wish("pick", 3)),
        ("3 do it\nwell", Wish("begin", 3, "do it\nwell")),
        ("2 models=a,b  do it", Wish("begin", 2, "do it", ("a", "b"))),
        ("2 stop it", Wish("begin", 2, "stop it")),
    ],
)
def test_the_words_after_the_command_say_what_is_wanted(argument: str, wish: Wish) -> None:
    assert read(argument) == wish


@pytest.mark.parametrize(
    "argument", ["3", "do it", "pick", "pick x", "stop it", "2 models=a", "-1 x", "9999 x"]
)
def test_what_means_nothing_is_answered_with_how_to_write_it(argument: str) -> None:
    with pytest.raises(ConfigError, match="/futures 3"):
        read(argument)


def test_futures_are_told_in_a_line_each_without_control_bytes() -> None:
    one = Future("future-1", "p", None, 0, outcome="done", text="All\nwell\x1b[31m", calls=1, changed=2)
    two = Future("future-2", "p", "big", 0, calls=3)
    assert told([one, two]).splitlines() == [
        "future-1: done, 1 call, 2 paths changed. All well",
        "future-2: big, works, 3 calls",
    ]
    assert "no futures" in told([])


async def test_a_future_is_begun_picked_and_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.02)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    async with stage(tmp_path, Engineer(write("a", "one"), write("a", "one"))) as scene:
        actions, app = scene.app.actions, scene.app
        await scene.until(lambda: app.host.engine is not None)
        await actions.run_slash("/futures 2 build it")
        assert "future-1, future-2" in notices(scene)[-1]
        await app.need_engine().futures.wait()
        assert files(scene) == {}
        await actions.run_slash("/futures")
        assert notices(scene)[-1].count("done, 1 call, 1 path changed") == 2
        assert {row.state for row in app.bridge.team.rows()} == {"done"}
        app.run_worker(actions.run_slash("/futures pick 2"))
        await scene.until(lambda: files(scene) == {"a": "one"})
        await scene.until(lambda: app.need_engine().session.head == "future-2")
        await actions.run_slash("/undo")
        assert (files(scene), app.need_engine().session.head) == ({}, "main")

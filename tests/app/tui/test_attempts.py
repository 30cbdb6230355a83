"""`/attempts` in the application: begun, listed, and one of them picked and taken back again."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.session.attempts.parallel_attempts import LiveAttempt
from app.tui.commands.attempts import AttemptsRequest, attempts_text, read
from app.tui.screens import dialog as dialogs
from tests.agent.session.attempts.test_parallel_attempts import Engineer, write
from tests.app.tui.test_application import stage
from tests.app.tui.test_going_back import files, notices
from tests.support.sessions import engine_of


@pytest.mark.parametrize(
    ("argument", "wish"),
    [
        ("", AttemptsRequest("list")),
        (" list ", AttemptsRequest("list")),
        ("stop", AttemptsRequest("stop")),
        ("stop 2", AttemptsRequest("stop", 2)),
        ("pick 3", AttemptsRequest("pick", 3)),
        ("3 do it\nwell", AttemptsRequest("begin", 3, "do it\nwell")),
        ("2 models=a,b  do it", AttemptsRequest("begin", 2, "do it", ("a", "b"))),
        ("2 stop it", AttemptsRequest("begin", 2, "stop it")),
    ],
)
def test_the_words_after_the_command_say_what_is_wanted(argument: str, wish: AttemptsRequest) -> None:
    assert read(argument) == wish


@pytest.mark.parametrize(
    "argument", ["3", "do it", "pick", "pick x", "stop it", "2 models=a", "-1 x", "9999 x"]
)
def test_what_means_nothing_is_answered_with_how_to_write_it(argument: str) -> None:
    with pytest.raises(ConfigError, match="/attempts 3"):
        read(argument)


def test_attempts_are_told_in_a_line_each_without_control_bytes() -> None:
    one = LiveAttempt("attempt-1", "", None, 0, "done", "All\nwell\x1b[31m", calls=1, changed=2)
    two = LiveAttempt("attempt-2", "", "big", 0, calls=3)
    assert attempts_text([one, two]).splitlines() == [
        "✓ attempt-1: done, 1 call, 2 paths changed. All well",
        "▶ attempt-2: big, works, 3 calls",
    ]
    assert "no attempts" in attempts_text([])


@pytest.mark.thorough
async def test_an_attempt_is_begun_picked_and_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.02)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    async with stage(tmp_path, Engineer(write("a", "one"), write("a", "one"))) as scene:
        actions, app = scene.app.actions, scene.app
        await scene.until(lambda: app.host.client is not None)
        await actions.run_slash("/attempts 2 build it")
        assert (
            "attempt-1, attempt-2. The project stays as it is until you pick one: /attempts pick 1."
            in notices(scene)[-1]
        )
        await engine_of(app).attempts.wait()
        assert files(scene) == {}
        await actions.run_slash("/attempts")
        assert notices(scene)[-1].count("done, 1 call, 1 path changed") == 2
        assert {row.state for row in app.bridge.team.rows()} == {"done"}
        app.run_worker(actions.run_slash("/attempts pick 2"))
        await scene.until(lambda: files(scene) == {"a": "one"})
        await scene.until(lambda: engine_of(app).session.head == "attempt-2")
        await actions.run_slash("/undo")
        assert (files(scene), engine_of(app).session.head) == ({}, "main")

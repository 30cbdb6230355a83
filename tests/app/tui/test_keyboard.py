"""Keys as terminals send them, on a terminal."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support import command
from tests.support.model_process import ServerProcess
from tests.support.tmux import PROGRAM, Tmux

SCRIPT = 'script = by_step([say("The first answer."), say("The second answer.")])\n'


@pytest.mark.skipif(PROGRAM is None, reason="tmux is not on this machine")
def test_alt_enter_breaks_the_line_and_esc_then_enter_sends(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with ServerProcess(SCRIPT, tmp_path) as server:
        env = command.environment(tmp_path / "home", server.base_url, TERM="tmux-256color")
        with Tmux([*command.HERMES], env, work, tmp_path) as tmux:
            tmux.until("⏎ send")
            tmux.type("one")
            tmux.press("M-Enter")
            tmux.type("two")
            screen = tmux.until("two")
            assert "one two" not in screen and "The first answer." not in screen
            tmux.press("Escape")
            time.sleep(0.6)  # a person's pause; shorter ones are what a terminal sends for alt
            tmux.press("Enter")
            tmux.until("The first answer.")
        (request,) = server.requests()
    assert "one\\ntwo" in str(request["body"]["messages"])


@pytest.mark.skipif(PROGRAM is None, reason="tmux is not on this machine")
def test_alt_and_a_digit_go_to_a_pane_and_write_nothing(tmp_path: Path) -> None:
    env = command.environment(tmp_path / "home", TERM="tmux-256color", HERMES_MODEL="demo")
    with Tmux([*command.HERMES], env, tmp_path, tmp_path, (80, 24)) as tmux:
        tmux.until("should I do?")
        tmux.type("draft")
        tmux.until("draft")
        for key, shown in (
            ("M-3", "Calls that the conversation does not show"),
            ("M-1", "Longer work is listed here"),
        ):
            tmux.press(key)
            assert "❯ draft " in tmux.until(shown)
        for key in "4567890-=":
            tmux.press(f"M-{key}")
        tmux.press("M-3")
        screen = tmux.until("Calls that the conversation does not show")
        assert "❯ draft " in screen and not set("¡™£¢∞§¶•ªº–≠") & set(screen)

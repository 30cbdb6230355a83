"""A whole session as a person has it: in tmux, with a model that answers word by word."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.support import command
from tests.support.model_process import ServerProcess
from tests.support.tmux import PROGRAM, Tmux

SCRIPT = """
LONG = " ".join(f"word{number}" for number in range(3000))
script = by_step([
    call("clarify", question="Which colour?", choices=["red", "blue"]),
    call("terminal", command="while [ ! -e go ]; do sleep 0.05; done; echo it went"),
    say("Here it comes. " + LONG, piece=6, pace=0.05),
    say("The second answer."),
])
"""


@pytest.mark.sample(1)
@pytest.mark.skipif(PROGRAM is None, reason="tmux is not on this machine")
@pytest.mark.parametrize("apart", [False, True], ids=["one process", "two processes"])
def test_type_answer_queue_steer_resize_detach_attach_interrupt_quit(tmp_path: Path, apart: bool) -> None:
    work = tmp_path / "work"
    work.mkdir()
    if apart:
        (tmp_path / "home").mkdir(mode=0o700)
        (tmp_path / "home" / "config.yaml").write_text("engine:\n  process: true\n", "utf-8")
    with ServerProcess(SCRIPT, tmp_path) as server:
        env = command.environment(tmp_path / "home", server.base_url, TERM="tmux-256color")
        with Tmux([*command.HERMES, "--approve", "all"], env, work, tmp_path) as tmux:
            tmux.until("⏎ send")
            tmux.type("paint the shed")
            tmux.until("paint the shed")
            tmux.press("Enter")

            tmux.until("Which colour?")
            tmux.until("1  red")
            time.sleep(2)  # a dialog takes no key before it could be read
            tmux.press("Down")
            tmux.press("Enter")
            tmux.until(lambda screen: "Which colour?" in screen and "1  red" not in screen)

            tmux.until("while [")
            tmux.type("and the fence")
            tmux.press("Enter")
            tmux.until("queued 1")
            tmux.type("use two coats")
            tmux.press("C-s")
            tmux.until(lambda screen: screen.count("use two coats") == 1)
            (work / "go").touch()

            tmux.until("Here it comes.")
            tmux.type("half a dra")
            for columns, rows in ((70, 20), (50, 12), (132, 43), (100, 30)):
                tmux.resize(columns, rows)
                tmux.until("half a dra")
            with tmux.attached() as client:
                client.until(b"half a dra")
                assert tmux.clients() == 1
            tmux.until(lambda _: tmux.clients() == 0)
            with tmux.attached() as client:
                client.until(b"half a dra")
                client.press("ft")
                tmux.until("half a draft")

            tmux.press("Escape")
            screen = tmux.until("Stopped.")
            assert "half a draft" in screen
            tmux.until("and the fence")

            tmux.press("C-c")
            tmux.until(lambda screen: "half a draft" not in screen)
            tmux.press("C-c")
            tmux.until("again to quit")
            tmux.press("C-c")
            screen = tmux.until(" --resume 2")
            assert "Traceback" not in screen
        asked = [json.dumps(request["body"]["messages"]) for request in server.requests()]
    assert "use two coats" not in asked[1] and "use two coats" in asked[2]
    assert "blue" in asked[1] and not any("half a draft" in text for text in asked)

"""A terminal at a session of the service: it leaves, is closed, loses the service; the session continues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import command
from tests.support.model_process import ServerProcess
from tests.support.service import Head, Service
from tests.support.tmux import PROGRAM, Tmux

SCRIPT = """
def script(request):
    asked = [str(each["content"]) for each in request.messages if each.get("role") == "user"]
    if "slowly" in asked[-1]:
        return say("Begun. " + "word " * 60 + "Complete.", piece=10, pace=0.05)
    return say(f"Heard {len(asked)}.")
"""

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="tmux is not on this machine")


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    folder = tmp_path_factory.mktemp("attached")
    with ServerProcess(SCRIPT, folder) as model, Service(folder / "home", model.base_url) as service:
        yield service.device("approve", "phone")


def attached(head: Head, folder: Path, session: str) -> Tmux:
    """A terminal at a session."""
    env = {**head.service.env, "TERM": "tmux-256color"}
    return Tmux([*command.HERMES, "--attach", session], env, folder, folder, (100, 30))


def outcome(head: Head, session: str, after: int) -> str:
    return head.until(session, "turn_ended", after)[-1]["outcome"]


def test_a_session_goes_on_without_its_terminal_and_without_its_service(head: Head, tmp_path: Path) -> None:
    session = head.session(tmp_path)
    with attached(head, tmp_path, session) as tmux:
        tmux.until("attached")
        tmux.type("speak slowly")
        tmux.press("Enter")
        tmux.until("Begun.")
        tmux.press("M-q")
        tmux.until(lambda screen: f"--attach {session}" in screen.replace("\n", ""))
        assert "The session continues in the service." in tmux.screen()
    assert outcome(head, session, 0) == "done"

    # The window is closed over a turn: SIGHUP.
    after = head.events(session)[-1]["seq"]
    with attached(head, tmp_path, session) as tmux:
        tmux.until(lambda screen: "attached" in screen and "Complete." in screen)
        tmux.type("slowly again")
        tmux.press("Enter")
        tmux.until(lambda screen: screen.count("Begun.") == 2)
    assert outcome(head, session, after) == "done"

    with attached(head, tmp_path, session) as tmux:
        tmux.until("attached")
        tmux.type("slowly a third time")
        tmux.press("Enter")
        tmux.until(lambda screen: screen.count("Begun.") == 1 or screen.count("Begun.") == 3)
        port = head.service.port
        head.service.kill()
        tmux.until("✗ service ended")
        screen = tmux.until(lambda screen: f"/resume {session}" in " ".join(screen.split()))
        assert "Traceback" not in screen
        # What is written now is not lost.
        tmux.type("kept words")
        tmux.press("Enter")
        tmux.until(lambda screen: "❯ kept words" in screen)
        head.service.start(port)
        tmux.press("C-c")
        tmux.type(f"/resume {session}")
        tmux.press("Enter")
        tmux.until(lambda screen: "attached" in screen and "✗" not in screen)
        tmux.type("hello")
        tmux.press("Enter")
        tmux.until("Heard")
        tmux.type("/detach")
        tmux.press("Enter")
        tmux.until(lambda screen: f"--attach {session}" in screen.replace("\n", ""))


@pytest.mark.thorough
def test_without_the_service_its_session_goes_on_in_the_terminal(head: Head, tmp_path: Path) -> None:
    session = head.session(tmp_path)
    head.say(session, "hello")
    head.until(session, "turn_ended")
    with attached(head, tmp_path, session) as tmux:
        tmux.until(lambda screen: "attached" in screen and "Heard 1." in screen)
        port = head.service.port
        head.service.kill()
        tmux.until("✗ service ended")
        tmux.type("/detach")
        tmux.press("Enter")
        tmux.until("The service has ended; /resume")
        tmux.type(f"/resume {session}")
        tmux.press("Enter")
        tmux.until(lambda screen: "✗" not in screen and "attached" not in screen and "Heard 1." in screen)
        tmux.type("hello again")
        tmux.press("Enter")
        tmux.until(lambda screen: screen.count("Heard") == 2)
        head.service.start(port)
        status, told = head.get(f"/api/sessions/{session}")
        assert status == 409 and "in use by process" in told["error"]
        tmux.type("/detach")
        tmux.press("Enter")
        tmux.until("/serve hands it to the service first")
        tmux.type("/quit")
        tmux.press("Enter")
        tmux.until(lambda screen: f"--resume {session}" in screen.replace("\n", ""))
    history = head.get(f"/api/sessions/{session}/history")[1]["events"]
    assert [each["text"] for each in history if each["type"] == "user_message"] == ["hello", "hello again"]

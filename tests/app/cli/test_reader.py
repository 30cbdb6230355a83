"""`hermes --reader`: only appended lines, states in words, numbered choices."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from agent.events import ApprovalAsked
from app.cli.lines import spell_out
from app.tui.questions.approval_question import QUESTION
from app.tui.startup.startup_theme_read import wants_reader
from tests.support import command
from tests.support.story import approval


def test_states_are_words() -> None:
    said = spell_out("✓ read a.py\n  ▶ Fix it\n┊ A notice\n❯\nplain ✓ text")
    assert said == "done: read a.py\nworking: Fix it\nnote: A notice\nMessage:\nplain ✓ text"


@pytest.mark.parametrize(
    ("config", "more", "wanted"),
    [
        ("", {}, False),
        ("", {"ACCESSIBLE": "1"}, True),
        ("", {"ACCESSIBLE": "0"}, False),
        ("display:\n  reader: true\n", {}, True),
        ("display: {reader: 'true'}\n", {}, True),
        ("display:\n  reader: false  # no\n", {"ACCESSIBLE": "1"}, False),
        ("display:\n  reader: auto\n", {"ACCESSIBLE": "1"}, True),
        ("# display.reader: true\n", {}, False),
    ],
)
def test_the_setting_counts_and_auto_follows_what_is_announced(
    config: str, more: dict[str, str], wanted: bool, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text(config)
    assert wants_reader({"HERMES_HOME": str(tmp_path), **more}) is wanted


class _Lines:
    numbers = True

    def __init__(self, answer: str | None) -> None:
        self.answer, self.shown = answer, ""

    def say(self, text: str) -> None:
        self.shown += f"{text}\n"

    async def read(self, prompt: str) -> str | None:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "choice"),
    [
        ("1", "once"),
        ("2", "session"),
        ("3", "always"),
        ("4", "deny"),
        ("", "deny"),
        (None, "deny"),
        ("9", "deny"),
    ],
)
async def test_an_approval_is_a_numbered_list(answer: str | None, choice: str) -> None:
    request: ApprovalAsked = approval()
    lines = _Lines(answer)
    decision = await QUESTION.plain(request, lines)
    assert decision.choice == choice
    assert "1. Allow once\n" in lines.shown and "4. Deny\n" in lines.shown and request.sentence in lines.shown


class _Reader:
    """A session in `hermes --reader`, of which only appended text is seen."""

    def __init__(self, home: Path, *words: str) -> None:
        self._master, slave = pty.openpty()
        env = {**command.environment(home), "TERM": "xterm"}
        self.child = subprocess.Popen(
            [*command.HERMES, "--reader", *words], cwd=home.parent, env=env,
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.text = ""

    def until(self, text: str) -> None:
        """Read on until new text contains `text`."""
        new = ""
        while text not in new:
            piece = os.read(self._master, 4096).decode("utf-8", "replace")
            self.text += piece
            new += piece

    def type(self, line: str) -> None:
        os.write(self._master, f"{line}\n".encode())


def test_a_reader_answers_changes_a_setting_undoes_and_resumes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    reader = _Reader(home, "--demo")
    reader.until("empty to decline:")
    reader.type("1")
    reader.until("The turn ended: done after ")
    reader.until("Message:")
    reader.type("/set display.skin paper")
    reader.until("display.skin is paper")
    assert "paper" in (home / "config.yaml").read_text()
    reader.type("/undo")
    reader.until("Undone: ")
    reader.type("/resume")
    reader.until("Number of the session")
    reader.type("1")
    reader.until("Message:")
    reader.type("/quit")
    assert reader.child.wait(60) == 0
    assert "\x1b" not in reader.text and "✓" not in reader.text

"""`hermes --reader`: only appended lines, states in words, numbered choices."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
from pathlib import Path
from typing import Self

import pytest

from agent.events import ApprovalAsked, ToolFinished
from app.cli.lines import WORDS, call_line, spell_out
from app.tui.questions.engine_question import APPROVAL
from app.tui.startup.startup_theme_read import wants_reader
from tests.support import command
from tests.support.model_process import ServerProcess
from tests.support.story import approval
from tests.support.waiting import PATIENCE
from tools.results import Display


def test_states_are_words() -> None:
    said = spell_out("✓ read a.py\n  ▶ Fix it\n┊ A notice\n❯\nplain ✓ text")
    assert said == "done: read a.py\nworking: Fix it\nnote: A notice\nMessage:\nplain ✓ text"
    assert spell_out("⊘ run rm a · Denied by the user: x") == "denied: run rm a · by the user: x"


@pytest.mark.parametrize(("verb", "line"), [("read", "read   a.py"), ("delegate", "delegate a.py")])
def test_a_finished_call_has_a_blank_behind_its_verb(verb: str, line: str) -> None:
    display = Display(verb, "a.py", "9 lines")
    ended = ToolFinished(
        node=1, call="c", tool="t", outcome="done", seconds=1.0, result="{}", display=display
    )
    assert call_line(ended) == f"✓ {line} · 9 lines  1.0 s"


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
    decision = await APPROVAL.plain(request, lines)
    assert decision.choice == choice
    assert "1. Allow once\n" in lines.shown and "4. Deny\n" in lines.shown and request.sentence in lines.shown


class _Reader:
    """A session in `hermes --reader`, of which only appended lines and the row of the cursor are seen."""

    def __init__(self, home: Path, *words: str, **more: str) -> None:
        (folder := home.parent / "work").mkdir()
        self._master, slave = pty.openpty()
        env = {**command.environment(home, **more), "TERM": "xterm"}
        self.child = subprocess.Popen(
            [*command.HERMES, "--reader", *words], cwd=folder, env=env,
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.text = ""
        self._seen = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()
        os.close(self._master)

    def until(self, *texts: str) -> None:
        """Read on until all texts stand below what was typed last, in this order."""
        for text in texts:
            while (at := self.text.find(text, self._seen)) < 0:
                if not select.select([self._master], [], [], PATIENCE)[0]:
                    raise TimeoutError(f"{text!r} did not come:\n{self.text[self._seen :]}")
                piece = os.read(self._master, 4096).decode("utf-8", "replace")
                self.text += piece.replace("\r\n", "\n")
            self._seen = at + len(text)

    def type(self, line: str, row: str = "Message:") -> None:
        """Type a line where the row of the cursor is `row`."""
        self.until(row)
        assert self.text.rpartition("\n")[2].strip() == row
        os.write(self._master, f"{line}\n".encode())

    def interject(self, line: str) -> None:
        """Type a line while a turn runs."""
        os.write(self._master, f"{line}\n".encode())


SCRIPT = r"""
def script(request):
    said = [each["content"] for each in request.messages if each["role"] == "user"]
    text, done = str(said[-1]), request.messages[-1]["role"] == "tool"
    result = str(request.messages[-1]["content"])
    if request.body["model"] == "other":
        return say("The other model answers.")
    if "refuse" in text:
        return refuse(401, "That key is not known here.", code="invalid_api_key")
    if done:
        return say("Result: " + result[:300])
    if "write" in text:
        return call("write_file", path="note.txt", content=text + "\n")
    if "send" in text:
        return call("delegate_task", tasks=[{"goal": "count the files"}, {"goal": "count the lines"}])
    if "long" in text:
        return say("\\n\\n".join(f"Paragraph {number} of many." for number in range(600)))
    if "ask me" in text:
        return call("clarify", question="Tabs or spaces?", choices=["Tabs", "Spaces"])
    if "plan" in text:
        items = [("a", "Look", "completed"), ("b", "Mend", "in_progress")]
        return call("todo_write", todos=[{"id": i, "content": c, "status": s} for i, c, s in items])
    if "fail" in text:
        return call("terminal", command="exit 3")
    if "wait" in text:
        waits = {"command": "while [ ! -e go ]; do sleep 0.05; done"}
        return calls(("terminal", waits), text="I am waiting.")
    return say("Heard: " + text)
"""
AGENTS = "Number, or say why not; empty sends none:"
NUMBER = "Number, or say why not; empty denies:"
ANSWER = "Number, or your own answer; empty declines:"


def _configured(home: Path, url: str) -> Path:
    home.mkdir()
    (home / "config.yaml").write_text(
        f"model: {{name: mine/scripted}}\nproviders: {{mine: {{base_url: '{url}', api_key_env: ''}}}}\n"
    )
    return home


def test_two_dozen_situations_by_appended_lines_and_the_row_of_the_cursor(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    note = work / "note.txt"
    with (
        ServerProcess(SCRIPT, tmp_path) as server,
        _Reader(_configured(home, server.base_url), "--approve", "careful") as reader,
    ):
        # 1 to 3: hello, help, a list of tasks
        reader.until("hermes · mine/scripted · ")
        reader.type("hello")
        reader.until("Heard: hello", "The turn ended: done.")
        reader.type("/help")
        reader.until("/undo", "/set KEY VALUE")
        reader.type("plan it")
        reader.until("done: Look", "working: Mend", "The turn ended: done after 1 call.")
        # 4 to 8: approvals
        reader.type("write once")
        reader.until("needs you: write_file wants to:", "1. Allow once", "4. Deny")
        reader.type("1", NUMBER)
        reader.until("done: write", "The turn ended: done after 1 call.")
        assert note.read_text() == "write once\n"
        reader.type("write never")
        reader.type("", NUMBER)
        reader.until("denied: write", "The turn ended: denied after 1 call.")
        reader.type("write elsewhere")
        reader.type("keep that file", NUMBER)
        reader.until("denied: write", "keep that file", "The turn ended: ")
        assert note.read_text() == "write once\n"
        reader.type("write for the session")
        reader.type("2", NUMBER)
        reader.until("The turn ended: done after 1 call.")
        reader.type("write again")
        reader.until("done: write", "The turn ended: done after 1 call.")
        assert note.read_text() == "write again\n"
        # 9 to 11: questions
        reader.type("ask me")
        reader.until("needs you: Tabs or spaces?", "1. Tabs", "2. Spaces")
        reader.type("2", ANSWER)
        reader.until("Spaces", "The turn ended: done after 1 call.")
        reader.type("ask me again")
        reader.type("Neither", ANSWER)
        reader.until("Neither", "The turn ended: ")
        reader.type("ask me once more")
        reader.type("", ANSWER)
        reader.until("declined", "The turn ended: ")
        # 12 to 14: steering, stopping, a command that fails
        reader.type("wait for me")
        reader.until("I am waiting.", "working: Running while [ ! -e go ]")
        reader.interject("rather with tabs")
        reader.until("note: the agent is told with its next request")
        (work / "go").touch()
        reader.until("rather with tabs", "The turn ended: done after 1 call.")
        (work / "go").unlink()
        reader.type("wait in vain")
        reader.until("I am waiting.")
        reader.interject("/stop")
        reader.until("stopped:", "The turn ended: interrupted")
        reader.type("fail")
        reader.until("failed:", "exit 3", "The turn ended: done after 1 call")
        # 15 to 17: undo and redo with the file, a setting
        reader.type("write last")
        reader.until("done: write", "The turn ended: ")
        reader.type("/undo")
        reader.until("Undone: write last")
        assert note.read_text() == "write again\n"
        reader.type("/redo")
        reader.until("Redone: write last")
        assert note.read_text() == "write last\n"
        reader.type("/set display.skin paper")
        reader.until("display.skin is paper")
        assert "paper" in (home / "config.yaml").read_text()
        # 18 to 20: errors with their mend, another model, another session
        reader.type("/set display.skni paper")
        reader.until("display.skin")
        reader.type("refuse this")
        reader.until("failed: ", "That key is not known here", "The turn ended: failed")
        reader.type("/model anthropic/claude-sonnet-5")
        reader.until("ANTHROPIC_API_KEY", "hermes · mine/scripted · ")
        reader.type("/model other")
        reader.until("hermes · mine/other · ")
        reader.type("hello")
        reader.until("The other model answers.")
        reader.type("/resume")
        reader.until("1. ")
        reader.type("", "Number of the session, empty leaves:")
        reader.until("this one continues")
        reader.type("/resume")
        reader.type("1", "Number of the session, empty leaves:")
        reader.until("hermes · ")
        # 21 to 24: agents not sent and sent, a very long answer, what only the screen has
        reader.type("/model scripted")
        reader.type("do not send them")
        reader.until("needs you: Hermes wants to send 2 agents:", "count the lines", "3. Do not")
        reader.type("3", AGENTS)
        reader.until("denied: delegate", "The turn ended: ")
        reader.type("send them")
        reader.type("1", AGENTS)
        reader.until("done: delegate 2 agents · 2 of 2 completed", "The turn ended: done after 1 call.")
        reader.type("a long answer")
        reader.until("Paragraph 0 of many.", "Paragraph 599 of many.", "The turn ended: done.")
        for word, instead in (("mcp add", "hermes mcp"), ("search otter", "hermes sessions search")):
            reader.type(f"/{word}")
            reader.until(f"works on the full screen, not with --reader; the command line has `{instead}`.")
        reader.type("/quit")
        assert reader.child.wait(60) == 0
    told = reader.text
    assert not {"\x1b", "\b", "\r"} & set(told)
    assert not [line for line in told.split("\n") if line.lstrip()[:1] in WORDS and line.lstrip()[:1] != "·"]

"""Copying and calls, by the programs, multiplexers and sequences that are there, and what is said of each."""

from __future__ import annotations

import base64
import os
import re
import select
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.core.store.nodes import Node
from agent.errors import HermesError
from app.tui.conversation.copied_text import copied_text, last_answer
from app.tui.terminal.attention import Attention, desktop_notification, terminal_notification
from app.tui.terminal.clipboard import Clipboard, CopyResult, copy_prospect, local_programs, screen_pieces
from app.tui.terminal.terminals import TerminalAnswers, known_terminal
from tests.support import command
from tests.support.model_process import ServerProcess
from tests.support.terminal import Terminal

PAYLOADS = ("a", "two\nlines", "漢字 – ü", "x" * 700, "y" * 5_000, "z\n" * 20_000, "\x1b]52;c;aGk=\x07", " ")
PLAIN = {"TERM": "xterm"}
KITTY = {"KITTY_WINDOW_ID": "1"}


class Stand:
    """A terminal that holds what it was sent."""

    def __init__(self, folder: Path, environ: dict[str, str], answer: str = "") -> None:
        self.sent, self.answers, self._answer = "", TerminalAnswers(), answer
        self.file = folder / "clipboard.txt"
        path = {"PATH": environ.pop("PATH", str(folder / "none"))}
        self.clipboard = Clipboard(self.write, self.answers, self.file, {**path, **environ}, "linux")

    def write(self, text: str) -> None:
        self.sent += text
        if text.endswith("\x1b[c"):
            if self._answer:
                self.answers.receive_answer(f"\x1bP>|{self._answer}\x1b\\")
            self.answers.receive_answer("\x1b[?62;c")

    async def copy(self, text: str) -> CopyResult:
        return await self.clipboard.copy(text)

    def got(self) -> str:
        found = re.findall(r"\x1b\]52;c;([^\x07]*)\x07", self.sent)
        return base64.b64decode(found[-1]).decode() if found else ""


def program(folder: Path, name: str, code: int = 0) -> Path:
    """Write a program that stores its input, and stays with its output open, as xclip does."""
    file = folder / name
    file.write_text(f"#!/bin/sh\ncat > {folder}/got\n[ {code} = 0 ] && (sleep 30 &) \nexit {code}\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize("text", PAYLOADS)
async def test_a_known_terminal_gets_every_byte_and_is_said_to_have_copied(tmp_path: Path, text: str) -> None:
    stand = Stand(tmp_path, dict(KITTY))
    result = await stand.copy(text)
    assert stand.got() == text and result == CopyResult("terminal", "Copied by kitty.", True)
    assert not stand.file.exists()


async def test_a_terminal_is_known_by_what_it_answers(tmp_path: Path) -> None:
    stand = Stand(tmp_path, {"TERM": "xterm-256color"}, "foot(1.16)")
    assert (await stand.copy("far away")).sentence == "Copied by foot." and stand.got() == "far away"
    asked = stand.sent.count("\x1b[>q")
    await stand.copy("again")
    assert stand.sent.count("\x1b[>q") == asked == 1


async def test_a_terminal_that_takes_nothing_is_never_said_to_have_copied(tmp_path: Path) -> None:
    stand = Stand(tmp_path, {"VTE_VERSION": "8001", "HOME": str(tmp_path)})
    result = await stand.copy("kept")
    assert result.way == "file" and result.sentence.startswith("Not copied: VTE") and not result.is_copied
    assert "~/clipboard.txt" in result.sentence and stand.sent == ""
    assert stand.file.read_text() == "kept" and stat.S_IMODE(stand.file.stat().st_mode) == 0o600


async def test_an_unknown_terminal_is_sent_short_texts_and_the_file_has_them_too(tmp_path: Path) -> None:
    stand = Stand(tmp_path, {"TERM": "xterm-256color"})
    result = await stand.copy("short")
    assert stand.got() == "short" == stand.file.read_text() and not result.is_copied
    long = await stand.copy("y" * 5_000)
    assert long.way == "file" and stand.got() == "short" and len(stand.file.read_text()) == 5_000


@pytest.mark.parametrize("text", PAYLOADS)
async def test_gnu_screen_gets_strings_that_it_passes_on(tmp_path: Path, text: str) -> None:
    payload = base64.b64encode(text.encode()).decode()
    pieces = re.findall(r"\x1bP(.*?)\x1b\\", screen_pieces(payload), re.DOTALL)
    assert all(len(piece) <= 760 for piece in pieces)
    assert "".join(pieces) == f"\x1b]52;c;{payload}\x07"


async def test_a_program_of_the_desktop_comes_first_and_may_stay(tmp_path: Path) -> None:
    program(tmp_path, "xclip")
    stand = Stand(tmp_path, {**KITTY, "DISPLAY": ":0", "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert await stand.copy("ü\n") == CopyResult("xclip", "Copied with xclip.", True)
    assert (tmp_path / "got").read_text() == "ü\n" and stand.sent == ""


async def test_a_program_that_fails_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path, "xclip", 1)
    stand = Stand(tmp_path, {**KITTY, "DISPLAY": ":0", "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert (await stand.copy("text")).way == "terminal"


def test_programs_of_another_machine_do_not_copy() -> None:
    here = {"DISPLAY": ":0", "WAYLAND_DISPLAY": "wayland-0"}
    assert [each[0] for each in local_programs(here, "linux")] == ["wl-copy", "xclip", "xsel"]
    assert list(local_programs({**here, "SSH_TTY": "/dev/pts/1"}, "darwin")) == []
    forwarded = {"DISPLAY": "localhost:10.0", "SSH_TTY": "/dev/pts/1"}
    assert [each[0] for each in local_programs(forwarded, "linux")] == ["xclip", "xsel"]
    assert list(local_programs({}, "darwin")) == [("pbcopy",)]
    assert list(local_programs({"WSL_DISTRO_NAME": "Debian"}, "linux")) == [("clip.exe",)]


@contextmanager
def tmux(folder: Path, term: str, *settings: str) -> Iterator[tuple[dict[str, str], Callable[[], str]]]:
    """Run tmux on a pty; yields the environment of its pane, and what a terminal outside got as clipboard."""
    socket, conf = folder / "s", folder / "conf"
    conf.write_text("\n".join(settings) + "\n")
    outer, inner = os.openpty()
    base = ["tmux", "-S", str(socket), "-f", str(conf)]
    env = {"PATH": os.environ["PATH"], "TERM": term, "HOME": str(folder), "LANG": "C.UTF-8"}
    client = subprocess.Popen(
        [*base, "new", "cat"], env=env, stdin=inner, stdout=inner, stderr=inner, close_fds=True
    )
    os.close(inner)
    seen = bytearray()

    def read(seconds: float, until: bytes) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and until not in seen:
            if select.select([outer], [], [], 0.1)[0]:
                seen.extend(os.read(outer, 65_536))

    def got() -> str:
        read(5.0, b"\x07" if b"]52;" in seen else b"]52;")
        read(5.0, b"\x07")
        found = re.findall(rb"\x1b\]52;[^;]*;([^\x07\x1b]*)", bytes(seen))
        return base64.b64decode(found[-1]).decode() if found else ""

    try:
        for _ in range(100):
            read(0.1, b"\x1b[?1049h")
            listed = subprocess.run([*base, "list-clients"], capture_output=True, check=False).stdout
            if listed:
                break
        pid = (
            subprocess.run([*base, "display", "-p", "#{pid}"], capture_output=True, check=True)
            .stdout.decode()
            .strip()
        )
        seen.clear()
        yield {**env, "TMUX": f"{socket},{pid},0", "TERM": "screen"}, got
    finally:
        subprocess.run([*base, "kill-server"], check=False, capture_output=True)
        client.kill()
        client.wait()
        os.close(outer)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize("setting", ["external", "off"])
async def test_tmux_passes_the_text_on_whatever_its_clipboard_setting(tmp_path: Path, setting: str) -> None:
    with tmux(tmp_path, "xterm-256color", f"set -s set-clipboard {setting}") as (environ, got):
        stand = Stand(tmp_path, environ)
        text = "of tmux – " + "x" * 3_000
        result = await stand.copy(text)
        assert got() == text and stand.sent == ""
        assert result.way == "tmux" and not result.is_copied and "prefix" in result.sentence


def node(id: int, kind: str, content: str) -> Node:
    return Node(id, "s", None, kind, 0.0, content, {})


def test_copy_gives_the_answer_a_block_of_it_or_everything() -> None:
    answer = "Look:\n\n```py\na = 1\n```\n\n- and\n\n  ~~~\n  b\n  ~~~\n"
    path = [node(1, "user", "hi"), node(2, "assistant", answer), node(3, "assistant", "")]
    assert copied_text(path, "") == answer == last_answer(path)
    assert copied_text(path, "1") == "a = 1\n" and copied_text(path, "2") == "b\n"
    assert copied_text(path, "all") == f"## You\n\nhi\n\n## Hermes\n\n{answer.strip()}\n"
    for wrong, said in (
        ("3", "2 blocks"),
        ("0", "2 blocks"),
        ("x", "number"),
        ("-1", "number"),
        ("²", "number"),
    ):
        with pytest.raises(HermesError, match=said):
            copied_text(path, wrong)
    with pytest.raises(HermesError, match="no answer yet"):
        copied_text([], "")


def test_a_person_is_called_once_for_a_state_until_they_are_back() -> None:
    now, sent, ways = [0.0], list[str](), list[str]()
    attention = Attention(sent.append, PLAIN, ways.append, lambda: now[0])
    assert not attention.call("done", "a"), "the person has just been here"
    now[0] = 21
    assert attention.call("done", "b") and ways == ["bell", "terminal"]
    assert not attention.call("done", "c") and attention.call("needs_you", "d")
    attention.press()
    now[0] = 30
    assert not attention.call("done", "e")
    now[0] = 51
    assert attention.call("done", "f")
    attention.focus(True)
    now[0] = 500
    assert not attention.call("failed", "the terminal says that they look")
    attention.focus(False)
    attention.ways = {"failed": []}
    assert not attention.call("failed", "g") and attention.call("done", "h")
    attention.enabled = False
    assert not attention.call("needs_you", "i")


@pytest.mark.parametrize(
    ("environ", "begin"),
    [
        (PLAIN, "\x1b]9;"),
        (KITTY, "\x1b]99;;"),
        ({"VTE_VERSION": "7006"}, "\x1b]777;notify;Hermes;"),
        ({"TMUX": "/s,1,0"}, "\x1bPtmux;\x1b\x1b]9;"),
        ({"STY": "1.a"}, "\x1bP\x1b]9;"),
    ],
)
def test_a_notification_is_the_sequence_that_the_terminal_knows(environ: dict[str, str], begin: str) -> None:
    sent = terminal_notification(environ, "done \x1b]52;c;aGk=\x07 \x9b31m\n" + "x" * 500)
    assert sent.startswith(begin + "done") and sent.endswith("\x1b\\") and len(sent) < 250
    rest = sent[len(begin) : -2].removesuffix("\x1b\x1b\\").removesuffix("\x07").removesuffix("\x1b")
    assert not re.search("[\x00-\x1f\x7f-\x9f]", rest)
    assert terminal_notification({"XTERM_VERSION": "XTerm(379)"}, "done") == ""


def test_the_desktop_is_only_called_where_the_person_sits() -> None:
    assert desktop_notification({"DISPLAY": ":0", "SSH_TTY": "/dev/pts/2"}, "x") == ()
    assert desktop_notification({"DISPLAY": ":0"}, "-x")[-2:] == ("Hermes", "-x")
    assert (
        desktop_notification({}, 'a "b" \\')[-1]
        == 'display notification "a \\"b\\" \\\\" with title "Hermes"'
    )


def test_each_row_of_the_table_can_be_reached() -> None:
    assert known_terminal({"TERM_PROGRAM": "WezTerm"}).name == "WezTerm"
    assert known_terminal({"KONSOLE_VERSION": "221203"}).copies == "no"
    assert known_terminal({"KONSOLE_VERSION": "250401"}).copies == "yes"
    assert known_terminal({"COLORTERM": "rxvt-xpm"}).name == "rxvt"
    assert known_terminal({"TMUX": "x", **KITTY}).name == "this terminal"
    assert known_terminal({"TMUX": "x"}, "kitty(0.41.1)").name == "kitty"
    assert not known_terminal({"TERM": "xterm-kitty"}).is_known, "TERM alone decides nothing"


def test_doctor_says_which_way_a_text_goes() -> None:
    assert copy_prospect({**KITTY, "PATH": ""}, "linux")[:2] == (True, "by kitty (OSC 52)")
    arrives, way, mend = copy_prospect({"XTERM_VERSION": "XTerm(379)", "PATH": ""}, "linux")
    assert not arrives and "file" in way and "disallowedWindowOps" in mend


def test_a_range_is_chosen_by_keys_in_a_terminal_and_its_source_is_copied(tmp_path: Path) -> None:
    script = "script = [say('Do **this**:\\n\\n```sh\\nmake a\\nmake b\\nmake c\\n```\\n\\nThen rest.')]"
    with ServerProcess(script, tmp_path) as server:
        env = command.environment(tmp_path / "home", server.base_url, KITTY_WINDOW_ID="1")
        with Terminal([*command.HERMES], env, tmp_path, (80, 24)) as terminal:
            terminal.until("⏎ send".encode())
            terminal.press("what\r")
            terminal.until(b"Then rest.")
            terminal.press("\t")
            terminal.until(b"yv copy")
            terminal.press("vjjvj")
            terminal.until(b"yv copy")
            terminal.press("y")
            terminal.until(lambda: b"\x1b]52;c;" in terminal.painted)
            terminal.press("v[[v]y")
            terminal.until(lambda: terminal.painted.count(b"\x1b]52;c;") > 1)
    copied = [base64.b64decode(each) for each in re.findall(rb"\x1b\]52;c;([^\x07]*)\x07", terminal.painted)]
    answer = "Do **this**:\n\n```sh\nmake a\nmake b\nmake c\n```\n\nThen rest."
    assert copied == [b"make a\nmake b", f"what\n\n{answer}".encode()]

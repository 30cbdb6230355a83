"""The application on a real terminal: first paint, hostile text, signals, and what is left behind."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from app.tui.terminal.attention import terminal_notification
from app.tui.terminal.tty_output import ControlFilter
from tests.support.command import HERMES, environment
from tests.support.terminal import Terminal

BLACK = Color(0, 0, 0)
HOSTILE = "\x1b]52;c;aGk=\x07 \x1b[2J \x9b31m \x90q\x9c \x07 \u202egnp.exe"


Start = Callable[..., Terminal]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def start(*arguments: str) -> Terminal:
            env = environment(tmp_path / "home")
            return stack.enter_context(Terminal([*HERMES, *arguments], env, tmp_path, (80, 24)))

        yield start


def test_nothing_that_steers_a_terminal_passes_the_last_filter() -> None:
    style = Style(bold=True)
    drawn = ControlFilter().apply([Segment(HOSTILE, style), Segment("x", style, [(1, 2)])], BLACK)  # type: ignore[list-item]
    text = "".join(segment.text for segment in drawn)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", text) and "gnp.exe" in text
    assert all(segment.control is None and segment.style == style for segment in drawn)


@given(st.lists(st.text(st.sampled_from("ab \x00\x1b\x85\u202e漢\u0301\u200d\ufe0f👩🇩🇪")), max_size=5))
def test_a_row_is_as_wide_behind_the_last_filter_as_before_it(texts: list[str]) -> None:
    row = [Segment(text) for text in texts]
    drawn = ControlFilter().apply(row, BLACK)
    assert [run.cell_length for run in drawn] == [run.cell_length for run in row]
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", "".join(run.text for run in drawn))


def test_a_harmless_line_passes_untouched() -> None:
    line = [Segment("plain – text ✓ 漢字 e\u0301"), Segment("")]
    assert ControlFilter().apply(line, BLACK) is line


@pytest.mark.parametrize("title", ["4;1;50", "9;C:", "\x1b[m6;macro", "\u0663;x"])
def test_a_notification_gives_no_order_of_the_terminals_own(title: str) -> None:
    assert re.match(r"\x1b\]9;hermes: ", terminal_notification({"TERM": "xterm"}, f"{title}: completed"))


def test_a_family_stays_one_beside_what_is_taken_out() -> None:
    row = [Segment("👨\u200d👩\u200d👧 otter\x07 lynx")]
    assert [run.text for run in ControlFilter().apply(row, BLACK)] == ["👨\u200d👩\u200d👧 otter lynx"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, 131)]
)
def test_a_signal_leaves_a_terminal_as_it_was(terminal: Start, number: signal.Signals, code: int) -> None:
    shown = terminal("--model", "demo")
    shown.until(b"What should I do?")
    shown.process.send_signal(number)
    assert shown.drain() == code
    assert b"\x1b[?1049l" in shown.painted and b"\x1b[?25h" in shown.painted
    assert b"Traceback" not in shown.painted


@pytest.mark.thorough
def test_quitting_says_how_to_go_on(terminal: Start) -> None:
    shown = terminal("--model", "demo")
    shown.until(b"What should I do?")
    shown.press("hello")
    shown.until(b"hello")
    time.sleep(0.1)
    shown.press("\r")
    shown.until("◆".encode())
    shown.process.send_signal(signal.SIGTERM)
    shown.drain()
    after = shown.painted.rpartition(b"\x1b[?1049l")[2].decode()
    assert re.search(r"hermes'? --resume \d{8}-\d{6}-[0-9a-f]{6}", after)


@pytest.mark.thorough
def test_an_unknown_session_is_one_sentence_after_the_screen_is_gone(terminal: Start) -> None:
    shown = terminal("--model", "demo", "--resume", "nowhere")
    assert shown.drain() == 1
    after = shown.painted.rpartition(b"\x1b[?1049l")[2].decode()
    assert after.count("hermes:") == 1 and "nowhere" in after and "Traceback" not in after


@pytest.mark.thorough
def test_hostile_text_reaches_no_terminal(terminal: Start, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    shown = terminal("--model", "demo", "--cwd", str(work))
    shown.until(b"demo")
    start = len(shown.painted)
    shown.press("!printf '\\033]52;c;aGk=\\007 \\033]0;owned\\007 \\302\\233m otter-%d' $((40+2))\r")
    shown.until(b"otter-42", since=start)
    drawn = shown.painted[start:]
    assert b"\x1b]52" not in drawn and b"\x1b]0;" not in drawn and b"\xc2\x9b" not in drawn


@pytest.mark.thorough
def test_an_answer_reaches_the_terminal_past_the_frames_of_the_screen(terminal: Start) -> None:
    shown = terminal("--model", "demo")
    shown.until(b"What should I do?")
    shown.press("hello")
    shown.until(b"hello")
    time.sleep(0.1)
    since = len(shown.painted)
    shown.press("\r")
    # This terminal never said that it knows these; the frames of the screen come without them.
    shown.until(b"\x1b[?2026h", since=since)


@pytest.mark.thorough
def test_the_tour_asks_for_itself(terminal: Start) -> None:
    shown = terminal("--demo")
    shown.until(b"Show me the tour.")
    shown.until(b"An agent begins with a plan")

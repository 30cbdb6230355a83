"""Starting on a real terminal: early keys, early signals, errors, sizes, and what is read by then."""

from __future__ import annotations

import signal
import termios
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyte
import pytest

from tests.support.command import HERMES, STARTED, environment
from tests.support.first_seconds import check_restored
from tests.support.terminal import Terminal

LIVE = b"\x1b]22;"
"""The shape of the pointer: the first thing the application says after it took over."""
FRAME = b"\x1b[?2026l"

Start = Callable[..., Terminal]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(
            *arguments: str, size: tuple[int, int] = (80, 24), command: list[str] = STARTED, **more: str
        ) -> Terminal:
            env = environment(tmp_path / "home", **more)
            return stack.enter_context(Terminal([*command, *arguments], env, tmp_path, size))

        yield begin


def shown(terminal: Terminal, size: tuple[int, int] = (80, 24), *, upto: int | None = None) -> list[str]:
    screen = pyte.Screen(*size)
    pyte.ByteStream(screen).feed(bytes(terminal.painted[:upto]))
    return list(screen.display)


def settings_of(terminal: Terminal) -> list[object]:
    return termios.tcgetattr(terminal.fd)


@pytest.mark.thorough
def test_keys_typed_before_anything_is_drawn_arrive_in_order(start: Start) -> None:
    terminal = start("--model", "demo")
    terminal.press("aä")
    terminal.press("龍 b")
    terminal.until(FRAME)
    terminal.press("cé")
    terminal.until(LIVE)
    terminal.press("d")
    terminal.until(
        lambda: "aä龍 bcéd" in shown(terminal)[-1].replace("龍 ", "龍", 1) or "aä龍" in shown(terminal)[-1]
    )
    # The emulator draws the wide character over two columns, the second one empty.
    terminal.until(lambda: shown(terminal)[-1].split("⏎")[0].strip() == "❯ aä龍 bcéd")


@pytest.mark.thorough
def test_enter_typed_early_sends(start: Start) -> None:
    terminal = start("--model", "demo")
    terminal.press("hello\r")
    terminal.until("◆".encode())
    assert "hello" not in shown(terminal)[-1]


@pytest.mark.thorough
def test_enter_typed_onto_the_still_frame_sends(start: Start) -> None:
    terminal = start("--model", "demo")
    terminal.until(FRAME)
    terminal.press("hello\r")
    terminal.until("◆".encode())
    assert "hello" not in shown(terminal)[-1]


@pytest.mark.thorough
def test_early_text_is_echoed_in_the_still_frame_and_no_other_key(start: Start) -> None:
    terminal = start("--model", "demo")
    terminal.until(FRAME)
    terminal.press("zebra\x1b[Dx")
    terminal.until(LIVE)
    still = terminal.painted[: terminal.painted.find(LIVE)]
    assert b"zebra" in still
    assert b"^[" not in still and b"zebrax" not in still and b"zebrxa" not in still


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_during_the_still_frame_gives_the_terminal_back(
    start: Start, number: signal.Signals, code: int
) -> None:
    terminal = start("--model", "demo")
    before = terminal.settings
    terminal.until(FRAME)
    assert settings_of(terminal) != before
    terminal.process.send_signal(number)
    terminal.process.wait(timeout=100)
    assert settings_of(terminal) == before
    assert terminal.drain() == code
    assert terminal.painted.find(b"\x1b[?1049l") > 0 and terminal.painted.find(b"\x1b[?25h") > 0
    assert b"Traceback" not in terminal.painted


@pytest.mark.parametrize("arguments", [("--model", "demo"), ("--attach",)])
def test_ctrl_c_during_the_still_frame_leaves_cleanly(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    leading = "import os, sys, fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    command = [*HERMES[:-1], leading + HERMES[-1], *arguments]
    with Terminal(command, environment(tmp_path / "home"), tmp_path, (80, 24)) as terminal:
        before = terminal.settings
        terminal.until(FRAME)
        terminal.press("\x03")
        terminal.process.wait(timeout=100)
        assert settings_of(terminal) == before
        assert terminal.drain() == 130
        assert b"\x1b[?1049l" in terminal.painted and b"Traceback" not in terminal.painted


def test_ctrl_c_held_down_as_the_application_begins_gives_the_terminal_back(start: Start) -> None:
    terminal = start("--model", "demo")
    terminal.until(b"\x1b[?1004h")
    while terminal.process.poll() is None:
        terminal.process.send_signal(signal.SIGINT)
        terminal.read(0.004)
    assert terminal.drain() == 130
    check_restored(terminal)


@pytest.mark.thorough
def test_after_quitting_the_terminal_is_as_before_the_still_frame(start: Start) -> None:
    terminal = start("--model", "demo")
    before = terminal.settings
    terminal.until(b"What should I do?")
    terminal.process.send_signal(signal.SIGTERM)
    terminal.process.wait(timeout=100)
    assert settings_of(terminal) == before


@pytest.mark.thorough
def test_an_error_after_the_still_frame_is_read_on_the_normal_screen(start: Start, tmp_path: Path) -> None:
    terminal = start("--cwd", str(tmp_path / "nowhere"))
    before = terminal.settings
    terminal.until(b"There is no folder")
    terminal.process.wait(timeout=100)
    left = terminal.painted.find(b"\x1b[?1049l")
    assert 0 < left < terminal.painted.find(b"hermes: There is no folder")
    assert settings_of(terminal) == before


def test_a_mistake_in_an_option_is_read_on_the_normal_screen(start: Start) -> None:
    terminal = start("--approve", "maybe")
    terminal.until(b", not '")
    assert terminal.drain() == 2
    left = terminal.painted.find(b"\x1b[?1049l")
    assert 0 < left < terminal.painted.find(b", not '")


def test_a_terminal_of_which_nothing_is_known_gets_lines(start: Start) -> None:
    terminal = start("--model", "demo", command=["env", "-u", "TERM", *STARTED])
    terminal.until("❯ ".encode())
    terminal.press("\x04")
    assert terminal.drain() == 0
    assert b"\x1b" not in terminal.painted


@pytest.mark.thorough
@pytest.mark.parametrize("option", ["--plain", "--version", "--help"])
def test_other_surfaces_get_no_still_frame(start: Start, option: str) -> None:
    terminal = start(option)
    terminal.press("\x04")
    terminal.drain()
    assert b"\x1b[?1049h" not in terminal.painted


@pytest.mark.thorough
@pytest.mark.parametrize("size", [(120, 40), (80, 24), (50, 20)])
def test_the_still_frame_is_the_first_real_frame_without_its_words(
    start: Start, size: tuple[int, int]
) -> None:
    terminal = start("--model", "demo", size=size, COLORTERM="truecolor")
    terminal.until(FRAME)
    still = shown(terminal, size, upto=terminal.painted.find(FRAME))
    terminal.until(b"What should I do?")
    terminal.until(lambda: shown(terminal, size)[-1] == still[-1])
    real = shown(terminal, size)
    assert terminal.painted.count(b"\x1b[?1049h") == 1
    assert still[0].split() == ["hermes"]
    moved = [
        (row, column)
        for row, line in enumerate(still)
        for column, glyph in enumerate(line)
        if glyph not in (" ", real[row][column]) and not (glyph in "─│┬┴" and real[row][column] in "├┤┼┬┴")
    ]
    assert moved == []


@pytest.mark.thorough
@pytest.mark.parametrize("size", [(1, 1), (10, 3), (20, 5), (400, 10)])
def test_it_starts_in_a_terminal_of_any_size(start: Start, size: tuple[int, int]) -> None:
    terminal = start("--model", "demo", size=size)
    terminal.until(LIVE)
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.drain() == 143
    assert b"Traceback" not in terminal.painted and b"Internal error" not in terminal.painted

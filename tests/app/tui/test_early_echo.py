"""Typed text is drawn into the still frame as by the prompt, and every byte reaches the application."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tui.startup.early_echo import EarlyEcho, cells, wrapped
from tests.support import command
from tests.support.terminal import Terminal
from widgets.prompt import grapheme_cells
from widgets.prompt.picture import lay_out

ASCII = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)


@settings(max_examples=60)
@given(ASCII, st.integers(1, 30))
def test_rows_are_wrapped_as_the_prompt_wraps_them(text: str, width: int) -> None:
    assert wrapped(text, width) == [text[start:end] for start, end in lay_out(text, width, {})]


@settings(max_examples=60)
@given(st.text(st.characters(codec="utf-8"), max_size=8))
def test_text_is_as_wide_as_in_the_prompt_or_not_drawn(text: str) -> None:
    if text.isprintable() and cells(text) >= 0:
        assert cells(text) == grapheme_cells.width(text)


def typed(*pieces: bytes, width: int = 20, rows: int = 3) -> tuple[list[str], bytes]:
    """The rows drawn last, and the bytes for the application, of pieces that a terminal sent."""
    drawn: list[list[str]] = [[""]]
    out, into = os.pipe()
    echo = EarlyEcho(out, width, rows, drawn.append)
    echo.start()
    expected = b"".join(pieces)
    for piece in pieces:
        os.write(into, piece)
        time.sleep(0.005)
    end = time.monotonic() + 20
    while len(echo._read) < len(expected) and time.monotonic() < end:
        time.sleep(0.001)
    read = echo.stop()
    assert echo.stop() == b""
    os.close(into)
    os.close(out)
    return drawn[-1], read


def test_text_comes_out_whole_though_a_character_is_split() -> None:
    dragon = "龍".encode()
    assert typed(b"a", dragon[:1], dragon[1:], b"bc\x7f") == (["a龍b"], b"a" + dragon + b"bc\x7f")


def test_nothing_is_drawn_from_the_first_other_key_on() -> None:
    for key in (
        b"\r",
        b"\x1b[D",
        b"\t",
        b"\x1b[200~pasted\x1b[201~",
        b"\x01",
        "e\u0301".encode()[1:],
        b"\xff",
    ):
        assert typed(b"be", key, b"fore\x7f") == (["be"], b"be" + key + b"fore\x7f")


def test_text_that_does_not_fit_waits_for_the_prompt() -> None:
    long = b"word " * 30
    rows, read = typed(long)
    assert read == long and len(rows) == 3 and all(len(row) <= 20 for row in rows)
    wide = "龍".encode() * 11
    assert typed(*[wide[at : at + 3] for at in range(0, 33, 3)]) == (["龍" * 10], wide)


def test_a_backspace_on_an_empty_prompt_draws_nothing() -> None:
    assert typed(b"\x7f\x7fa\x7f\x7fb") == (["b"], b"\x7f\x7fa\x7f\x7fb")


def test_the_still_frame_shows_what_the_live_prompt_shows(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    env = command.environment(tmp_path / "home")
    with Terminal([*command.STARTED, "--model", "demo"], env, tmp_path / "work", (80, 24)) as terminal:
        terminal.until(b"\x1b[?2026l")
        terminal.press("Or" + "x" * 70 + " second row\x7f!")
        terminal.until(b"ro!")
        still = rows_of(terminal)
        assert still[-1].startswith("   second ro!") and "⏎ send" in still[-1]
        terminal.until(b"\x1b]22;")
        since = terminal.painted.find(b"\x1b]22;")
        terminal.until(b"ro!", since=since)
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            terminal.read(0.05)
        assert rows_of(terminal)[-2:] == still[-2:]


def rows_of(terminal: Terminal) -> list[str]:
    screen = pyte.Screen(80, 24)
    pyte.ByteStream(screen).feed(bytes(terminal.painted))
    return [row.rstrip() for row in screen.display]

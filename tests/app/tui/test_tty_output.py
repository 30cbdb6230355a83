"""The line to the terminal, on real pseudo-terminals: nobody waits for it, and its loss is told once."""

from __future__ import annotations

import asyncio
import os
import tty
from collections.abc import Callable, Iterator

import pytest

from app.tui.terminal import tty_output as lines
from app.tui.terminal.tty_output import LIMIT, TtyOutput


@pytest.fixture(autouse=True)
def kept_streams(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The standard streams of the tests stay where they are."""
    led: list[bool] = []
    monkeypatch.setattr(lines, "_redirect_to_null", lambda: led.append(True))
    monkeypatch.setattr(lines, "PATIENCE", 0.05)
    monkeypatch.setattr(lines, "SLOW", 600.0)
    return led


class Ends:
    """Both ends of a pseudo-terminal, and what its line told."""

    def __init__(self) -> None:
        self.outer, self.inner = os.openpty()
        tty.setraw(self.inner)
        os.set_blocking(self.outer, False)
        self.told: list[str] = []
        self.line: TtyOutput | None = None

    def open(self) -> TtyOutput:
        self.line = TtyOutput(
            self.inner, lambda: self.told.append("lost"), lambda: self.told.append("caught up")
        )
        return self.line

    def read(self) -> bytes:
        got = bytearray()
        try:
            while piece := os.read(self.outer, 1 << 16):
                got += piece
        except BlockingIOError:
            pass
        return bytes(got)

    def hang_up(self) -> None:
        os.close(self.outer)
        self.outer = -1


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    for number in (made.outer, made.inner):
        if number >= 0:
            os.close(number)


async def until(wanted: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not wanted():
            await asyncio.sleep(0.01)


async def test_what_is_written_is_at_the_terminal_at_once(ends: Ends) -> None:
    ends.open().write(b"hello")
    assert ends.read() == b"hello"


async def test_a_terminal_that_is_slow_gets_everything_in_order(ends: Ends) -> None:
    line = ends.open()
    sent = b"".join(b"%07d " % number for number in range(LIMIT // 8))
    line.write(sent[: LIMIT // 2])
    line.write(sent[LIMIT // 2 :])
    got = bytearray()

    def all_there() -> bool:
        got.extend(ends.read())
        return len(got) >= len(sent)

    await until(all_there)
    assert bytes(got) == sent and ends.told == []


async def test_a_terminal_that_stops_reading_holds_nobody_up_and_is_drawn_anew_later(ends: Ends) -> None:
    line = ends.open()
    frame = b"<" + b"x" * 9_998 + b">"
    for _ in range(100):
        line.write(frame)
    got = bytearray()

    def caught_up() -> bool:
        got.extend(ends.read())
        return bool(ends.told)

    await until(caught_up)
    assert ends.told == ["caught up"]
    whole, rest = divmod(len(got), len(frame))
    assert bytes(got) == frame * whole and rest == 0, "no picture is cut in the middle"
    assert whole < 100
    line.write(b"again")
    assert ends.read() == b"again"


async def test_a_terminal_that_reads_slowly_gets_one_picture_instead_of_all_that_came_meanwhile(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "SLOW", -1.0)
    line = ends.open()
    first = b"<" + b"x" * 100_000 + b">"
    line.write(first)
    copied = b"\x1b]52;c;" + b"eA==" * 100 + b"\x07"
    for word in (b"picture", b"\x1b[?1000h", b"\x1b[?2026h\x1b[1;1Hrow\x1b[?2026l", copied, b"another"):
        line.write(word)
    got = bytearray()

    def caught_up() -> bool:
        got.extend(ends.read())
        return bool(ends.told)

    await until(caught_up)
    assert bytes(got) + ends.read() == first + b"\x1b[?1000h" + copied
    assert ends.told == ["caught up"]


async def test_a_terminal_that_had_room_again_unnoticed_is_not_slow(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "SLOW", -1.0)
    line, first = ends.open(), b"<" + b"x" * 30_000 + b">"
    line.write(first)
    got = b""
    while len(got) < len(first):  # the event loop does not turn meanwhile
        got += ends.read()
        line.write(b"\x1b[?7l")
    line.write(b"picture")
    assert (got + ends.read()).replace(b"\x1b[?7l", b"") == first + b"picture"


async def test_what_is_copied_into_a_terminal_that_stopped_has_an_end(ends: Ends) -> None:
    line = ends.open()
    for _ in range(100):
        line.write(b"\x1b]52;c;" + b"eA==" * 20_000 + b"\x07")
    line.settle()
    assert line.backlog <= lines.WORDS_LIMIT + 100_000


async def test_what_is_about_the_terminal_itself_is_never_left_out(ends: Ends) -> None:
    line = ends.open()
    for _ in range(100):
        line.write(b"x" * 10_000)
    line.hold()
    line.write(b"<leave>")
    line.settle()  # nobody reads: it gives up
    got = bytearray()

    def left() -> bool:
        got.extend(ends.read())
        return got.endswith(b"<leave>")

    await until(left)


async def test_a_terminal_that_hangs_up_is_noticed_without_a_word_to_it(
    ends: Ends, monkeypatch: pytest.MonkeyPatch, kept_streams: list[bool]
) -> None:
    monkeypatch.setattr(lines, "LOOK", 0.01)
    line = ends.open()
    ends.hang_up()
    await until(lambda: ends.told)
    for _ in range(100):
        line.write(b"x" * 10_000)
    line.settle()
    await asyncio.sleep(0.05)
    assert line.gone and ends.told == ["lost"] and kept_streams == [True]


async def test_a_terminal_that_hangs_up_with_pictures_waiting_is_told_once(ends: Ends) -> None:
    line = ends.open()
    for _ in range(20):
        line.write(b"x" * 10_000)
    ends.hang_up()
    line.write(b"more")
    await until(lambda: ends.told)
    await asyncio.sleep(0.05)
    assert ends.told == ["lost"]


async def test_a_terminal_that_cannot_be_opened_anew_is_written_to_in_small_pieces(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_number: int) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(os, "ttyname", refuse)
    line = ends.open()
    sent = b"".join(b"%07d " % number for number in range(10_000))
    line.write(sent)
    got = bytearray()

    def all_there() -> bool:
        got.extend(ends.read())
        return len(got) >= len(sent)

    await until(all_there)
    assert bytes(got) == sent

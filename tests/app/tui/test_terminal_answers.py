"""The clipboard of the terminal itself (OSC 5522), told in bytes as a terminal sends them."""

from __future__ import annotations

import base64
import time

import pytest

from app.tui.terminal import terminals
from app.tui.terminal.terminals import (
    OFFERED,
    ClipboardRefusedError,
    TerminalAnswers,
    clipboard_of_terminal,
    sixel_cell,
)
from app.tui.terminal.tty_input import Answered, InputDecoder
from tests.support.images import png

DEVICE = b"\x1b[?62;22;52c"
PICTURE = png(40, 30, padding=9_000)


def packet(told: str, payload: bytes = b"") -> bytes:
    body = b";" + base64.b64encode(payload) if payload else b""
    return f"\x1b]5522;type=read:{told}".encode() + body + b"\x1b\\"


def data(kind: str, payload: bytes) -> bytes:
    mime = base64.b64encode(kind.encode()).decode()
    pieces = [payload[at : at + 4096] for at in range(0, len(payload), 4096)]
    return b"".join(packet(f"status=DATA:mime={mime}", piece) for piece in pieces)


OFFERS = b"\x1b[?5522;2$y" + DEVICE
FOUND = (
    packet("status=OK") + data("image/jpeg", b"\xff\xd8") + data("image/png", PICTURE) + packet("status=DONE")
)


async def asked(offer: bytes, clipboard: bytes, piece: int = 1_000) -> tuple[bytes | None, list[str]]:
    """What is found, and the keys that came between."""
    decoder, heard, keys = InputDecoder(), TerminalAnswers(), list[str]()

    def write(question: str) -> None:
        said = (offer if question == OFFERED else clipboard) + b"x"
        for at in range(0, len(said), piece):
            for found in decoder.feed(said[at : at + piece], time.monotonic()):
                if isinstance(found, Answered):
                    heard.receive_answer(found.text)
                else:
                    keys.append(str(found))

    return await clipboard_of_terminal(write, heard, 100_000), keys


@pytest.mark.parametrize("piece", [7, 1_000, 1 << 16])
async def test_an_image_comes_whole_however_it_is_cut_and_keys_stay_keys(piece: int) -> None:
    assert await asked(OFFERS, FOUND, piece) == (PICTURE, ["x", "x"])


@pytest.mark.parametrize("offer", [b"\x1b[?5522;0$y" + DEVICE, DEVICE])
async def test_a_terminal_without_it_is_not_asked(offer: bytes) -> None:
    assert await asked(offer, FOUND) == (None, ["x"])


async def test_a_terminal_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminals, "OFFER_SECONDS", 0.01)
    assert await asked(b"", FOUND) == (None, ["x"])


@pytest.mark.parametrize(
    ("clipboard", "said"),
    [
        (packet("status=EPERM"), "not allowed"),
        (packet("status=EBUSY"), "EBUSY"),
        (packet("status=OK") + data("image/png", bytes(200_000)), "too large"),
        (packet("status=OK") + b"\x1b]5522;type=read:status=DATA:mime=!;!\x1b\\", "damaged"),
    ],
)
async def test_a_refusal_is_told(clipboard: bytes, said: str) -> None:
    with pytest.raises(ClipboardRefusedError, match=said):
        await asked(OFFERS, clipboard)


async def test_a_clipboard_without_images_is_empty() -> None:
    assert (await asked(OFFERS, packet("status=OK") + packet("status=DONE")))[0] == b""


def test_answers_that_nobody_waits_for_are_dropped() -> None:
    TerminalAnswers().receive_answer("\x1b[?62c")


@pytest.mark.parametrize(
    ("said", "cell"),
    [
        (b"\x1b[6;20;10t\x1b[?62;4;22c", (10, 20)),  # foot, xterm as vt340, WezTerm
        (b"\x1b[6;20;10t\x1b[?62;22c", None),
        (b"\x1b[?65;4;6c", None),  # it says nothing of its cells
        (b"\x1b[6;0;0t\x1b[?62;4c", None),
        (b"\x1b[6;20;10t\x1b[?4c", None),  # a class of terminals, no ability
        (b"", None),
    ],
)
async def test_a_terminal_is_asked_whether_it_has_sixel_graphics(
    monkeypatch: pytest.MonkeyPatch, said: bytes, cell: tuple[int, int] | None
) -> None:
    monkeypatch.setattr(terminals, "OFFER_SECONDS", 0.05)
    decoder, heard = InputDecoder(), TerminalAnswers()

    def write(question: str) -> None:
        assert question == terminals.GRAPHICS
        for at in range(0, len(said), 5):
            for found in decoder.feed(said[at : at + 5], time.monotonic()):
                assert isinstance(found, Answered), "an answer was taken for a key"
                heard.receive_answer(found.text)

    assert await sixel_cell(write, heard) == cell

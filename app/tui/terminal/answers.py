"""Answers of the terminal to queries about its abilities and its clipboard."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tools.kit.lazy_pattern import lazy_pattern

OFFERED = "\x1b[?5522$p\x1b[c"
"""Asks whether the terminal gives access to its clipboard, then a query that every terminal answers."""
KINDS = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/tiff")
OFFER_SECONDS = 1.0
CONSENT_SECONDS = 60.0
"""Time for the person to answer the terminal's question."""
PIECE_SECONDS = 10.0
_MODE, _DEVICE, _CLIPBOARD = "\x1b[?5522;", "\x1b[?", "\x1b]5522;"


GRAPHICS = "\x1b[16t\x1b[c"
"""Asks for the size of a cell in pixels, then for the terminal's attributes, which include sixel."""
_CELL = lazy_pattern(r"\x1b\[6;(\d{1,4});(\d{1,4})t")
_SMALLEST, _LARGEST = 4, 200
"""Plausible pixels of a cell."""


class ClipboardRefusedError(Exception):
    """The terminal refuses access to its clipboard, or did not finish its answer."""


class TerminalAnswers:
    """Passes answers of the terminal to the current listener; without one they are dropped."""

    def __init__(self) -> None:
        self._listener: tuple[asyncio.AbstractEventLoop, asyncio.Queue[str]] | None = None

    def receive_answer(self, answer: str) -> None:
        """Pass an answer to the listener. May be called from every thread."""
        if self._listener is not None:
            loop, queue = self._listener
            loop.call_soon_threadsafe(queue.put_nowait, answer)

    @contextmanager
    def listen(self) -> Iterator[asyncio.Queue[str]]:
        """Yield a queue of the answers that arrive during the block. The latest listener gets them."""
        queue: asyncio.Queue[str] = asyncio.Queue()
        before, self._listener = self._listener, (asyncio.get_running_loop(), queue)
        try:
            yield queue
        finally:
            self._listener = before


async def sixel_cell(write: Callable[[str], None], answers: TerminalAnswers) -> tuple[int, int] | None:
    """Return the width and height of a cell in pixels if the terminal supports sixel graphics, else None."""
    cell: tuple[int, int] | None = None
    with answers.listen() as queue:
        write(GRAPHICS)
        with suppress(TimeoutError):
            async with asyncio.timeout(OFFER_SECONDS):
                while True:
                    answer = await queue.get()
                    if found := _CELL.fullmatch(answer):
                        cell = int(found[2]), int(found[1])
                    elif answer.startswith(_DEVICE) and answer.endswith("c"):
                        knows = "4" in answer[len(_DEVICE) : -1].split(";")[1:]
                        is_sane = cell is not None and all(_SMALLEST <= each <= _LARGEST for each in cell)
                        return cell if knows and is_sane else None
    return None


async def clipboard_of_terminal(
    write: Callable[[str], None], answers: TerminalAnswers, largest: int
) -> bytes | None:
    """Return the image in the terminal's clipboard (OSC 5522), which also works over SSH.

    Empty without an image; None if the terminal does not support this. Raises `ClipboardRefusedError`.
    """
    with answers.listen() as queue:
        write(OFFERED)
        try:
            async with asyncio.timeout(OFFER_SECONDS):
                if not await _offers(queue):
                    return None
        except TimeoutError:
            return None
        wanted = base64.b64encode(" ".join(KINDS).encode()).decode()
        write(f"\x1b]5522;type=read;{wanted}\x1b\\")
        return await _image(queue, largest)


async def _offers(queue: asyncio.Queue[str]) -> bool:
    while True:
        answer = await queue.get()
        if answer.startswith(_MODE):
            return answer[len(_MODE) :].partition("$")[0] in ("1", "2", "3")
        if answer.startswith(_DEVICE) and answer.endswith("c"):
            return False  # the terminal does not know the mode


async def _image(queue: asyncio.Queue[str], largest: int) -> bytes:
    """Return the first complete image of a supported type."""
    found: dict[str, bytearray] = {}
    seconds = CONSENT_SECONDS
    while True:
        try:
            async with asyncio.timeout(seconds):
                answer = await queue.get()
        except TimeoutError:
            raise ClipboardRefusedError("it gave no answer") from None
        if not answer.startswith(_CLIPBOARD):
            continue
        seconds = PIECE_SECONDS
        told, _, payload = answer[len(_CLIPBOARD) :].rstrip("\x07\x1b\\").partition(";")
        facts = {name: value for name, _, value in (each.partition("=") for each in told.split(":"))}
        match facts.get("status"):
            case "OK":
                continue
            case "DATA":
                held = found.setdefault(_plain(facts.get("mime", "")).decode("ascii", "replace"), bytearray())
                held += _plain(payload)
                if sum(map(len, found.values())) > largest:
                    raise ClipboardRefusedError("the image is too large")
            case "DONE":
                return bytes(next((found[kind] for kind in KINDS if found.get(kind)), b""))
            case status:
                raise ClipboardRefusedError(
                    "it was not allowed" if status == "EPERM" else f"it said {status}"[:60]
                )


def _plain(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ClipboardRefusedError("its answer is damaged") from None

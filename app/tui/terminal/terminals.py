"""The terminal that Hermes runs in: what it is, and what it supports according to `terminals.yaml`."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from tools.kit.lazy_pattern import lazy_pattern

VERSION = "\x1b[>q\x1b[c"
"""Asks for the terminal's name and version, then a query that every terminal answers."""
PAGE = "\x1b]11;?\x1b\\"
"""Asks for the background colour. Not every terminal answers, and some answer only after later queries."""
_PAGE = lazy_pattern(
    r"\x1b\]11;(?:rgba?:|#(?=(?:[0-9a-fA-F]{6}|[0-9a-fA-F]{12})\x1b|))"
    r"([0-9a-fA-F]{2,4})/?([0-9a-fA-F]{2,4})/?([0-9a-fA-F]{2,4})(?:/[0-9a-fA-F]+)?(?:\x1b\\|\x07)"
)
_NAMED = lazy_pattern(r"\x1bP>\|([ -~]{1,200})(?:\x1b\\|\x07)")


@dataclass(frozen=True, slots=True)
class Terminal:
    """One terminal's row of the table."""

    name: str
    copies: Literal["yes", "no", "perhaps"]
    """Whether text for the clipboard (OSC 52) is accepted in the default configuration."""
    notifies: str
    """The number of the sequence that shows a notification; empty if there is none."""
    copy_limit: int = 0
    """The longest payload in bytes that is accepted; 0 means any."""
    hint: str = ""
    """How copying can be enabled, if it does not work by default."""
    sets_keys: Literal["yes", "no"] = "yes"
    """Whether the Kitty keyboard protocol may be requested; elsewhere its sequences mean something else."""
    asks_modes: Literal["yes", "no"] = "yes"
    """Whether queries about modes (DECRQM) and colours are allowed; some terminals print them."""
    protocol: Literal["yes", "no", "perhaps"] = "no"
    """Whether the terminal supports the Kitty keyboard protocol."""
    alt: Literal["yes", "no", "perhaps"] = "yes"
    """Whether alt with a key arrives as such without that protocol."""
    doubles_escape: Literal["yes", "no"] = "no"
    """Whether alt with a key without a character arrives as escape and the sequence of that key."""
    keys_hint: str = ""
    """How alt can be made to arrive, if it does not."""
    progress: Literal["yes", "no"] = "no"
    """Whether the terminal shows progress (OSC 9;4); others take it for a notification."""
    takes: Sequence[str] = ()
    """Keys that the terminal uses itself in its default configuration."""
    answer: str = ""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_known(self) -> bool:
        """True unless this is the last row, which stands for unknown terminals."""
        return bool(self.answer or self.variables)


def multiplexer(environ: Mapping[str, str]) -> Literal["tmux", "screen", ""]:
    """Return the multiplexer that this process runs in; empty if there is none. Pure."""
    return "tmux" if environ.get("TMUX") else "screen" if environ.get("STY") else ""


def is_remote(environ: Mapping[str, str]) -> bool:
    """Return whether the user is at another machine, connected by SSH. Pure."""
    return bool(environ.get("SSH_CONNECTION") or environ.get("SSH_TTY") or environ.get("SSH_CLIENT"))


def mouse_policy(setting: str, environ: Mapping[str, str]) -> str:
    """Return the value of `display.mouse` to use here. Pure.

    While the mouse is reported, GNU screen 4.9 holds back a pressed escape until the next key; that escape
    stops a turn matters more.
    """
    return "off" if multiplexer(environ) == "screen" else setting


def known_terminal(environ: Mapping[str, str], answer: str = "") -> Terminal:
    """Return the row of a terminal, found by its answer, or without one by its environment variables.

    In a multiplexer the variables are those of the terminal that started it, so only an answer counts there.
    An unknown terminal gets the last row.
    """
    rows = _table()
    if answer:
        return next((row for row in rows if row.answer and re.search(row.answer, answer)), rows[-1])
    if multiplexer(environ):
        return rows[-1]
    return next((row for row in rows if _matches(row, environ)), rows[-1])


async def ask_version(write: Callable[[str], None], answers: TerminalAnswers) -> str:
    """Ask the terminal for its name and version, and return them; empty if it does not answer in time."""
    import asyncio

    with answers.listen() as queue, suppress(TimeoutError):
        write(VERSION)
        async with asyncio.timeout(OFFER_SECONDS):
            return await _version(queue)
    return ""


async def ask_background(write: Callable[[str], None], answers: TerminalAnswers) -> bool | None:
    """Ask the terminal whether its background is light; return None if it does not answer in time."""
    import asyncio

    with answers.listen() as queue, suppress(TimeoutError):
        write(PAGE)
        async with asyncio.timeout(OFFER_SECONDS):
            while True:
                answer = await queue.get()
                if found := _PAGE.fullmatch(answer):
                    return is_light(*found.groups())
    return None


def background_report(answer: str) -> bool | None:
    """Parse a report of a light or dark background (mode 2031); None for any other answer. Pure."""
    return {"\x1b[?997;1n": False, "\x1b[?997;2n": True}.get(answer)


def takes_questions(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal may be asked about colours; others print the query, or answer too late."""
    return known_terminal(environ).asks_modes == "yes" and multiplexer(environ) != "screen"


def is_light(*channels: str) -> bool:
    """Return whether a colour is light, given by red, green and blue in hexadecimal digits. Pure."""
    red, green, blue = (int(each, 16) / (16 ** len(each) - 1) for each in channels)
    return 0.299 * red + 0.587 * green + 0.114 * blue > 0.5


async def _version(queue: asyncio.Queue[str]) -> str:
    while True:
        answer = await queue.get()
        if found := _NAMED.fullmatch(answer):
            return found[1]
        if answer.startswith("\x1b[?") and answer.endswith("c"):
            return ""


@cache
def _table() -> tuple[Terminal, ...]:
    from tools.kit.yaml_text import load_table

    return tuple(Terminal(**row) for row in load_table(Path(__file__).with_name("terminals.yaml")))


def _matches(row: Terminal, environ: Mapping[str, str]) -> bool:
    values = row.variables.items()
    return bool(values) and all(re.search(form, environ.get(name, "")) for name, form in values)


OFFERED = "\x1b[?5522$p\x1b[c"
"""Asks whether the terminal gives access to its clipboard, then a query that every terminal answers."""
KINDS = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/tiff")
OFFER_SECONDS = 1.0
CONSENT_SECONDS = 60.0
"""Seconds that the user has to answer the terminal's own question whether to allow access."""
PIECE_SECONDS = 10.0
_MODE, _DEVICE, _CLIPBOARD = "\x1b[?5522;", "\x1b[?", "\x1b]5522;"


GRAPHICS = "\x1b[16t\x1b[c"
"""Asks for the size of a cell in pixels, then for the terminal's attributes, which include sixel."""
_CELL = lazy_pattern(r"\x1b\[6;(\d{1,4});(\d{1,4})t")
_SMALLEST, _LARGEST = 4, 200
"""The smallest and the largest plausible width or height of a cell, in pixels."""


class ClipboardRefusedError(Exception):
    """Raised if the terminal refuses access to its clipboard, or does not finish its answer."""


class TerminalAnswers:
    """Passes the terminal's answers to the current listener; without a listener they are dropped."""

    def __init__(self) -> None:
        self._listener: tuple[asyncio.AbstractEventLoop, asyncio.Queue[str]] | None = None

    def receive_answer(self, answer: str) -> None:
        """Pass an answer to the listener. May be called from any thread."""
        if self._listener is not None:
            loop, queue = self._listener
            loop.call_soon_threadsafe(queue.put_nowait, answer)

    @contextmanager
    def listen(self) -> Iterator[asyncio.Queue[str]]:
        """Yield a queue of the answers that arrive during the block. Only the latest listener gets them."""
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
    """Return the first complete image of a supported type, or no bytes. Raises `ClipboardRefusedError`."""
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

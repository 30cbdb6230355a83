"""The terminal behind the screen: what it calls itself, and what it takes by the table `terminals.yaml`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from app.tui.terminal.answers import OFFER_SECONDS
from tools.kit.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    import asyncio

    from app.tui.terminal.answers import TerminalAnswers

VERSION = "\x1b[>q\x1b[c"
"""Asks for the terminal's name and version, then a query that every terminal answers."""
PAGE = "\x1b]11;?\x1b\\"
"""Asks for the background colour. Not every terminal answers, and some only after later questions."""
_PAGE = lazy_pattern(
    r"\x1b\]11;(?:rgba?:|#(?=(?:[0-9a-fA-F]{6}|[0-9a-fA-F]{12})\x1b|))"
    r"([0-9a-fA-F]{2,4})/?([0-9a-fA-F]{2,4})/?([0-9a-fA-F]{2,4})(?:/[0-9a-fA-F]+)?(?:\x1b\\|\x07)"
)
_NAMED = lazy_pattern(r"\x1bP>\|([ -~]{1,200})(?:\x1b\\|\x07)")


@dataclass(frozen=True, slots=True)
class Terminal:
    """One row of the table."""

    name: str
    copies: Literal["yes", "no", "perhaps"]
    """Whether text for the clipboard (OSC 52) arrives as the terminal comes."""
    notifies: str
    """The number of the sequence that shows a notification; empty if there is none."""
    copy_limit: int = 0
    """The longest payload in bytes that it swallows whole; 0 means any."""
    hint: str = ""
    """What makes copying work where it does not."""
    sets_keys: Literal["yes", "no"] = "yes"
    """Whether the Kitty keyboard protocol may be asked for; elsewhere its sequences mean something else."""
    asks_modes: Literal["yes", "no"] = "yes"
    """Whether it may be asked about modes (DECRQM) and colours; some print the question."""
    protocol: Literal["yes", "no", "perhaps"] = "no"
    """Whether it knows the Kitty keyboard protocol."""
    alt: Literal["yes", "no", "perhaps"] = "yes"
    """Whether alt and a key arrive as such without that protocol."""
    doubles_escape: Literal["yes", "no"] = "no"
    """Whether alt and a key without a character arrive as escape and the sequence of that key."""
    keys_hint: str = ""
    """What makes alt arrive where it does not."""
    progress: Literal["yes", "no"] = "no"
    """Whether it shows progress (OSC 9;4); others take it for a notification."""
    takes: Sequence[str] = ()
    """Keys that it uses itself as it comes."""
    answer: str = ""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_known(self) -> bool:
        """True unless this is the last row, which holds for terminals that nobody knows."""
        return bool(self.answer or self.variables)


def multiplexer(environ: Mapping[str, str]) -> Literal["tmux", "screen", ""]:
    """Return the multiplexer that this process runs in. Pure."""
    return "tmux" if environ.get("TMUX") else "screen" if environ.get("STY") else ""


def is_remote(environ: Mapping[str, str]) -> bool:
    """Return whether the person is at another machine. Pure."""
    return bool(environ.get("SSH_CONNECTION") or environ.get("SSH_TTY") or environ.get("SSH_CLIENT"))


def mouse_policy(setting: str, environ: Mapping[str, str]) -> str:
    """Return the value of `display.mouse` to use here. Pure.

    While the mouse is reported, GNU screen 4.9 holds back a pressed escape until the next key; that escape
    stops a turn matters more.
    """
    return "off" if multiplexer(environ) == "screen" else setting


def known_terminal(environ: Mapping[str, str], answer: str = "") -> Terminal:
    """Return the row of a terminal from what it answered, else from its own variables.

    In a multiplexer the variables are those of the terminal that started it, so only an answer counts there.
    """
    rows = _table()
    if answer:
        return next((row for row in rows if row.answer and re.search(row.answer, answer)), rows[-1])
    if multiplexer(environ):
        return rows[-1]
    return next((row for row in rows if _matches(row, environ)), rows[-1])


async def ask_version(write: Callable[[str], None], answers: TerminalAnswers) -> str:
    """Return the name and version that the terminal gives itself; empty if it says nothing."""
    import asyncio

    with answers.listen() as queue, suppress(TimeoutError):
        write(VERSION)
        async with asyncio.timeout(OFFER_SECONDS):
            return await _version(queue)
    return ""


async def ask_page(write: Callable[[str], None], answers: TerminalAnswers) -> bool | None:
    """Return whether the background of the terminal is light; None if it does not say."""
    import asyncio

    with answers.listen() as queue, suppress(TimeoutError):
        write(PAGE)
        async with asyncio.timeout(OFFER_SECONDS):
            while True:
                answer = await queue.get()
                if found := _PAGE.fullmatch(answer):
                    return is_light(*found.groups())
    return None


def page_report(answer: str) -> bool | None:
    """Return whether a terminal reports (mode 2031) that its page is light; None if it reports no such thing.
    Pure.
    """
    return {"\x1b[?997;1n": False, "\x1b[?997;2n": True}.get(answer)


def takes_questions(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal may be asked about colours: others print it, or answer too late."""
    return known_terminal(environ).asks_modes == "yes" and multiplexer(environ) != "screen"


def is_light(*channels: str) -> bool:
    """Return whether red, green and blue, each of up to four hexadecimal digits, are a light colour. Pure."""
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

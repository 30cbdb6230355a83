"""What comes from the terminal, on its way to the application: keys for the parser, pastes whole.

Textual reads strict UTF-8 and looks for keys within pastes as well: one wrong byte would leave the
application deaf, and a pasted escape sequence would press keys. So pastes are taken out before its
parser sees them, wrong bytes are replaced, and what the parser stumbles over is dropped. Nothing is
read while the application is behind, and of a mouse on its way only the last place counts, so that
a storm of events waits in the terminal instead of in here.
"""

from __future__ import annotations

import codecs
import logging
import os
import re
import select
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Event

from textual import events

# What terminals send for keys has no public reader.
from textual._xterm_parser import XTermParser
from textual.message import Message

log = logging.getLogger(__name__)

BEGIN, END = b"\x1b[200~", b"\x1b[201~"
PIECE = 1 << 16
"""Bytes read at once."""
LARGEST = 1 << 25
"""Bytes after which an open paste is handed on in parts."""
TICK = 0.1
"""Seconds between two looks whether reading is to end."""
REST = 0.02
"""Seconds the rest of a sequence that may begin a paste is waited for."""
SILENCE = 1.0
"""Seconds without a byte after which an open paste may have lost its end."""
MOST_WAITING = 64
"""Messages the application may be behind with while more are read."""
_ANSWERS = re.compile(
    r"\x1b\[[?>=][\d;:]*[cun]|\x1b\[[03]n|\x1b\[[4689];\d+;\d+t"
    r"|\x1b\]\d+;[^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"
    r"|\x1b(?:P[>\d!$+=|]|_G)[^\x1b]{0,4096}\x1b\\"
)
"""What terminals answer to questions we do not ask: what they are and can do, their size and colours."""
_ABORTS = (b"\x1b", b"\x03")


@dataclass(frozen=True, slots=True)
class Pasted:
    """The text of a paste, or a part of it; as it was sent, but for zero bytes."""

    text: str


class Sieve:
    """Takes bytes apart into keys (text for a parser) and pastes. Times are seconds of any clock."""

    def __init__(self) -> None:
        self._keys = _decoder()
        self._held = self._gone = b""
        self._paste: bytearray | None = None
        self._text = _decoder()
        self._searched = 0
        self._last = 0.0

    @property
    def waits(self) -> bool:
        """Whether bytes are held back that may begin a paste; `let_go` when no more come."""
        return bool(self._held)

    def feed(self, data: bytes, now: float) -> list[str | Pasted]:
        """What has become complete with `data`."""
        silent, self._last = now - self._last >= SILENCE, now
        found: list[str | Pasted] = []
        if self._paste is not None and silent and data.startswith(_ABORTS) and not _is_end(data):
            # The end of the paste got lost; a person wants to be heard again.
            found += self._part()
            self._paste = None
        data, self._held = self._held + data, b""
        gone, self._gone = self._gone, b""
        if gone and gone + data != BEGIN and BEGIN.startswith(gone + data):
            self._gone, self._held = gone, data
            return found
        if (gone + data).startswith(BEGIN):
            # The parser has heard the first bytes of it, which it takes for keys; the paste is none.
            data = gone + data
        while data:
            data = self._pasted(data, found) if self._paste is not None else self._typed(data, found)
        return found

    def let_go(self) -> list[str | Pasted]:
        """What was held back for more that did not come."""
        data, self._held = self._held, b""
        self._gone += data
        return [self._keys.decode(data)] if data else []

    def idle(self, now: float) -> list[str | Pasted]:
        """What there is of an open paste that does not go on."""
        return self._part() if self._paste and now - self._last >= SILENCE else []

    def _typed(self, data: bytes, found: list[str | Pasted]) -> bytes:
        keys, begin, rest = data.partition(BEGIN)
        if begin:
            self._paste, self._text, self._searched = bytearray(), _decoder(), 0
        else:
            kept = _beginning_at_end(keys)
            keys, self._held = keys[: len(keys) - kept], keys[len(keys) - kept :]
        if text := self._keys.decode(keys):
            found.append(text)
        return rest

    def _pasted(self, data: bytes, found: list[str | Pasted]) -> bytes:
        assert self._paste is not None
        self._paste += data
        end = self._paste.find(END, self._searched)
        if end < 0:
            self._searched = max(0, len(self._paste) - len(END) + 1)
            if len(self._paste) > LARGEST:
                found += self._part()
            return b""
        found.append(Pasted(self._decoded(end, final=True)))
        rest, self._paste = bytes(self._paste[end + len(END) :]), None
        return rest

    def _part(self) -> list[str | Pasted]:
        """Hand on what there is of the paste; what may be a part of its end stays."""
        assert self._paste is not None
        whole = len(self._paste) - _beginning_at_end(bytes(self._paste[-len(END) :]), END)
        text = self._decoded(whole, final=False)
        del self._paste[:whole]
        self._searched = 0
        return [Pasted(text)] if text else []

    def _decoded(self, size: int, *, final: bool) -> str:
        """The first bytes of the paste as text; a character that is not whole waits unless it is `final`."""
        assert self._paste is not None
        return self._text.decode(bytes(self._paste[:size]), final).replace("\x00", "")


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")


def _is_end(data: bytes) -> bool:
    return data.startswith(END) or END.startswith(data)


def _beginning_at_end(data: bytes, marker: bytes = BEGIN) -> int:
    """How many of the last bytes may be the first ones of `marker`."""
    return next((size for size in range(len(marker) - 1, 0, -1) if data.endswith(marker[:size])), 0)


def read_terminal(
    number: int, ended: Event, deliver: Callable[[Message], None], behind: Callable[[], int] = int
) -> None:
    """Read the terminal behind a descriptor until `ended` is set. Raises `OSError` once it has gone.

    `behind` tells how many messages the application has not taken yet.
    """
    sieve, parser = Sieve(), XTermParser()
    poll = select.poll()
    poll.register(number, select.POLLIN)
    while not ended.is_set():
        if behind() > MOST_WAITING:
            ended.wait(REST)
            continue
        if poll.poll((REST if sieve.waits else TICK) * 1000):
            data = os.read(number, PIECE)
            if not data:
                raise OSError("its input has ended")
            found = sieve.feed(data, time.monotonic())
        else:
            found = sieve.let_go() or sieve.idle(time.monotonic())
        for piece in found:
            parser = _deliver(piece, parser, deliver)
        for event in parser.tick():
            deliver(event)


def _deliver(piece: str | Pasted, parser: XTermParser, deliver: Callable[[Message], None]) -> XTermParser:
    """Hand on what was found; the parser for what comes next."""
    try:
        for event in merged(_events(piece, parser)):
            deliver(event)
    except Exception:
        log.warning("keys that cannot be read were dropped", exc_info=True)
        return XTermParser()
    return parser


def merged(found: Iterable[Message]) -> Iterator[Message]:
    """Of moves of the mouse that follow each other only the last; everything else as it came."""
    move: events.MouseMove | None = None
    for event in found:
        if move is not None and not isinstance(event, events.MouseMove):
            yield move
        move = event if isinstance(event, events.MouseMove) else None
        if move is None:
            yield event
    if move is not None:
        yield move


def without_answers(keys: str) -> str:
    """Keys without what a terminal answers to a program that asked before us, or beside us. Pure.

    The parser, which does not know such answers, would type them.
    """
    return _ANSWERS.sub("", keys) if "\x1b" in keys else keys


def _events(piece: str | Pasted, parser: XTermParser) -> Iterator[Message]:
    if isinstance(piece, Pasted):
        yield events.Paste(piece.text)
    elif keys := without_answers(piece):  # nothing at all would be the end of the input to the parser
        yield from parser.feed(keys)

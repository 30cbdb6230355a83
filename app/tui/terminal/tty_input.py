"""Input from the terminal: it is turned into keys for Textual's parser, and pastes as whole texts.

Textual reads strict UTF-8 and looks for keys within pastes as well: one wrong byte would stop all input, and
a pasted escape sequence would press keys. So pastes are removed before its parser sees them, wrong bytes are
replaced, and sequences on which the parser fails are dropped. Nothing is read while the application is
behind, and of successive mouse moves only the last counts, so that a flood of events waits in the terminal.
"""

from __future__ import annotations

import codecs
import logging
import math
import os
import re
import select
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, cast

from textual import constants, events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import XTermParser
from textual.keys import _character_to_key
from textual.message import Message

from tools.kit.lazy_pattern import lazy_pattern

ESCAPE = b"\x1b"
LONGEST = 66_000
"""The longest sequence in bytes whose end is waited for."""
_CONTROL = r"\x00-\x1f\x7f"
_BODY = rf"[^{_CONTROL}]{{0,8192}}"
_OSC = rf"\]\d{{1,5}};{_BODY}"
_DCS = rf"(?:P[>\d!$+=|]|_G){_BODY}"
_CSI = r"\[(?:[\d:]{0,24};[\d:]{0,8};[\d:]{0,65536}|[0-?]{0,256})[ -/]{0,4}"

_ANSWER = rf"""\x1b(?:
    \[[?>=][\d;:]*[cun] | \[[03]n | \[[4689];\d+;\d+t
  | {_OSC}(?:\x07|\x1b\\)
  | {_DCS}\x1b\\
)"""
_SEQUENCE = rf"""\x1b(?:
    \[\[. | \[M.{{3}} | \[\d{{1,3}}\$  # Linux, mouse of X10, rxvt
  | {_CSI}[@-Z^_a-z~]
  | O[1-9;]{{0,4}}[A-Za-z]
)"""
_BROKEN = rf"\x1b(?: (?!\[[{_CONTROL}]|\[\Z){_CSI} | {_OSC} | {_DCS} )(?=[{_CONTROL}]|\Z)"
_LETTER = r"[\x00-\x1a\x1c-\x7f]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
_BEGUN = rf"""\x1b(?:
    \[(?:\[|M.{{0,2}})? | (?!\[\d{{1,3}}\$){_CSI} | O[1-9;]{{0,4}}
  | \]\d{{0,5}} | {_OSC}\x1b? | P | _ | {_DCS}\x1b?
  | [\xc2-\xdf] | [\xe0-\xef][\x80-\xbf]? | [\xf0-\xf4][\x80-\xbf]{{0,2}}
)?\Z"""
_REPORT = rf"""{_ANSWER} | \x1b\[(?:
    <\d+;-?\d+;-?\d+[Mm] | \d+;\d+R | \??\d+;\d\$y | 48;[\d;:]+t | [IO]\Z
)"""


_PIECE = (
    rf"(?P<ANSWER>{_ANSWER})|(?P<SEQUENCE>{_SEQUENCE})|(?P<BROKEN>{_BROKEN})"
    rf"|(?P<KEY>\x1b(?:{_LETTER})?)|(?P<TEXT>[^\x1b]+)"
)


@cache
def _compile_pattern(pattern: str) -> re.Pattern[bytes]:
    """Compile a pattern on first use, as the first frame does not need it."""
    return re.compile(pattern.encode("ascii"), re.VERBOSE | re.DOTALL)


class SequenceKind(Enum):
    """The kind of a piece of input."""

    TEXT = auto()
    """Typed characters without an escape character."""
    KEY = auto()
    """An escape character alone, or with one character that was pressed with alt."""
    SEQUENCE = auto()
    """A key, a mouse event, or a report that was requested."""
    ANSWER = auto()
    """The terminal's answer to another program."""
    BROKEN = auto()
    """An incomplete sequence."""


class InputPiece(NamedTuple):
    """A piece of the input, as bytes with their kind."""

    kind: SequenceKind
    data: bytes


def pieces(data: bytes) -> Iterator[InputPiece]:
    """Split input into pieces; it must not end within a sequence. No byte is left out. Pure."""
    if data and ESCAPE not in data:
        yield InputPiece(SequenceKind.TEXT, data)
        return
    for found in _compile_pattern(_PIECE).finditer(data):
        assert found.lastgroup is not None
        yield InputPiece(SequenceKind[found.lastgroup], found[0])


def unfinished_length(data: bytes) -> int:
    """Return the number of bytes at the end that may begin an unfinished sequence. Pure."""
    found = _compile_pattern(_BEGUN).search(data, max(0, len(data) - LONGEST)) if ESCAPE in data else None
    return len(data) - found.start() if found else 0


def is_pressed(begun: bytes) -> bool:
    """Return whether an unfinished sequence, if it is not continued, consists of pressed keys. Pure."""
    return len(begun) <= len(b"\x1b[") or not begun.startswith(ESCAPE)


def is_key(piece: str) -> bool:
    """Return whether a piece that has no meaning as a whole consists of pressed keys. Pure."""
    return len(piece) <= len("\x1b[") or piece.startswith("\x1bO")


def continues_report(begun: bytes, data: bytes) -> bool:
    """Return whether `data` continues a report whose beginning `begun` was dropped as incomplete. Pure."""
    found = _compile_pattern(_REPORT).match(begun + data)
    # One byte may be a key as well.
    return found is not None and found.end() > len(begun) + 1


# What terminals send for keys has no public reader.


log = logging.getLogger(__name__)

BEGIN, END = b"\x1b[200~", b"\x1b[201~"
PIECE = 1 << 16
"""The number of bytes that are read at once."""
LARGEST = 1 << 25
"""The number of bytes after which an unfinished paste is passed on in parts."""
TICK = 0.1
"""Seconds between two checks whether a paste or sequence, or reading itself, has ended."""
REST = 0.02
"""Seconds between two checks whether an application that is behind has caught up."""
SILENCE = 1.0
"""Seconds without input after which the end of a paste or sequence is taken for lost."""
MOST_WAITING = 64
"""The number of unhandled messages of the application above which no more input is read."""
MODES_ASKED = (b"\x1b[?5522;", b"\x1b[?1036;", b"\x1b[?1039;", b"\x1b[?2031;")
PAGE_CHANGED = b"\x1b[?997;"
"""The beginning of a report that the terminal switched to dark or light colours (mode 2031)."""
CLIPBOARD = b"\x1b]5522;"
"""The beginning of a terminal's answer about its clipboard."""
_ABORTS = (b"\x1b", b"\x03")


@dataclass(frozen=True, slots=True)
class Pasted:
    """The text of a paste or of a part of one, unchanged except for removed zero bytes."""

    text: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The terminal's answer to a query from Hermes, as a complete sequence."""

    text: str


class InputDecoder:
    """Splits bytes into keys, pastes and answers. Times are seconds of any clock.

    A key is text without an escape character, or a whole sequence that begins with one. Answers to other
    programs and incomplete sequences are dropped; possible answers to queries from Hermes become `Answered`.
    """

    def __init__(self) -> None:
        self._keys = _decoder()
        self._held = self._gone = b""
        self._paste: bytearray | None = None
        self._text = _decoder()
        self._searched = 0
        self._last = 0.0

    @property
    def deadline(self) -> float | None:
        """The time at which `idle` gives up held bytes that may be the start of a sequence; None without such
        bytes.
        """
        if not self._held:
            return None
        return self._last + (constants.ESCAPE_DELAY if is_pressed(self._held) else SILENCE)

    @property
    def is_open(self) -> bool:
        """True if a paste or a sequence has begun, so that `idle` may complete it."""
        return self._paste is not None or bool(self._held)

    def feed(self, data: bytes, now: float) -> list[Heard]:
        """Return the keys, pastes and answers that `data` completes, given at the time `now`."""
        silent, self._last = now - self._last >= SILENCE, now
        found: list[Heard] = []
        if self._paste is not None and silent and data.startswith(_ABORTS) and not _is_end(data):
            # The end marker of the paste got lost: treat further input as keys again.
            found += self._part()
            self._paste = None
        data, self._held = self._held + data, b""
        gone, self._gone = self._gone, b""
        if gone and gone + data != BEGIN and BEGIN.startswith(gone + data):
            self._gone, self._held = gone, data
            return found
        if gone and ((gone + data).startswith(BEGIN) or continues_report(gone, data)):
            # The sequence was given up too early: its rest is not typed text.
            data = gone + data
        while data:
            data = (
                self._decode_paste(data, found)
                if self._paste is not None
                else self._decode_typed(data, found)
            )
        return found

    def idle(self, now: float) -> list[Heard]:
        """Return the keys and the part of a paste that a pause in the input completes at the time `now`."""
        if self.deadline is not None and now >= self.deadline:
            return self._let_go()
        return self._part() if self._paste and now - self._last >= SILENCE else []

    def _let_go(self) -> list[Heard]:
        """Stop waiting for the held sequence: return it as a key, or drop it if it is incomplete."""
        data, self._held = self._held, b""
        self._gone += data
        if not is_pressed(data):
            # An escape at its end may have been pressed as a key.
            data = ESCAPE if data.endswith(ESCAPE) else b""
        return _some(self._keys.decode(data))

    def _decode_typed(self, data: bytes, found: list[Heard]) -> bytes:
        keys, begin, rest = data.partition(BEGIN)
        if begin:
            self._paste, self._text, self._searched = bytearray(), _decoder(), 0
        elif kept := unfinished_length(keys):
            keys, self._held = keys[:-kept], keys[-kept:]
        for kind, piece in pieces(keys):
            if kind is not SequenceKind.TEXT:
                found += _some(self._keys.decode(b"", True))  # an incomplete character
            if kind is not SequenceKind.BROKEN and _is_answer(kind, piece):
                found.append(Answered(piece.decode("ascii", "replace")))
            elif kind not in (SequenceKind.ANSWER, SequenceKind.BROKEN):
                found += _some(self._keys.decode(piece))
        return rest

    def _decode_paste(self, data: bytes, found: list[Heard]) -> bytes:
        assert self._paste is not None
        self._paste += data
        end = self._paste.find(END, self._searched)
        if end < 0:
            self._searched = max(0, len(self._paste) - len(END) + 1)
            if len(self._paste) > LARGEST:
                found += self._part()
            return b""
        found.append(Pasted(self._decode_text(end, final=True)))
        rest, self._paste = bytes(self._paste[end + len(END) :]), None
        return rest

    def _part(self) -> list[Heard]:
        """Return the paste received so far, except bytes that may be a part of its end marker."""
        assert self._paste is not None
        whole = len(self._paste) - _beginning_at_end(bytes(self._paste[-len(END) :]), END)
        text = self._decode_text(whole, final=False)
        del self._paste[:whole]
        self._searched = 0
        return [Pasted(text)] if text else []

    def _decode_text(self, size: int, *, final: bool) -> str:
        """Decode the first `size` bytes of the paste; unless `final`, keep an incomplete character back."""
        assert self._paste is not None
        return self._text.decode(bytes(self._paste[:size]), final).replace("\x00", "")


Heard = str | Pasted | Answered

_EXTENDED = lazy_pattern(
    r"\x1b\[(?P<code>\d{0,7}(?::\d{0,7}){0,2})"
    r"(?:;(?P<held>\d{0,4})(?::(?P<event>\d))?)?(?:;(?P<text>[\d:]*))?(?P<end>[u~ABCDEFHPQS])"
)
"""A key in the Kitty protocol: its code and alternates, modifiers and kind of event, and its text."""
_LOCKS, _COMMANDING = 0b11000000, 0b00101110
"""The bits of caps lock and num lock; those of alt, ctrl, super and meta."""
_SHIFT, _CTRL = 0b1, 0b100
_CONTROLS = frozenset(str(ord(sign)) for sign in "@^_")
"""Characters with a control character that are typed with another key: ctrl+_ means that, on any layout."""
_TYPED = 64
"""The number of characters from an input method up to which they are handled as keys."""


def _is_answer(kind: SequenceKind, piece: bytes) -> bool:
    """Return whether a sequence may answer a query from Hermes. Pure."""
    if kind is SequenceKind.ANSWER:
        is_device = piece.startswith(b"\x1b[?") and piece.endswith(b"c")
        return is_device or piece.startswith((CLIPBOARD, b"\x1b[6;", b"\x1b]11;", b"\x1bP>|", PAGE_CHANGED))
    return piece.startswith(MODES_ASKED) and piece.endswith(b"$y")


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")


def _some(text: str) -> list[Heard]:
    return [text] if text else []


def _is_end(data: bytes) -> bool:
    return data.startswith(END) or END.startswith(data)


def _beginning_at_end(data: bytes, marker: bytes) -> int:
    """Return the number of bytes at the end of `data` that may be the beginning of `marker`."""
    return next((size for size in range(len(marker) - 1, 0, -1) if data.endswith(marker[:size])), 0)


class WakingEvent(Event):
    """An event that also wakes threads waiting for descriptors: `number` is readable while it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.number, self._end = os.pipe()
        weakref.finalize(self, _close, self.number, self._end)

    def set(self) -> None:
        # The woken thread looks whether it is set.
        woken = self.is_set()
        super().set()
        if not woken:
            os.write(self._end, b"\0")

    def clear(self) -> None:
        if self.is_set():
            os.read(self.number, 1)
        super().clear()


def _close(*numbers: int) -> None:
    for number in numbers:
        os.close(number)


def read_terminal(
    number: int,
    ended: WakingEvent,
    deliver: Callable[[Message], None],
    behind: Callable[[], int] = int,
    answered: Callable[[str], None] = lambda _answer: None,
    first: bytes = b"",
    keyboard: Keyboard | None = None,
) -> None:
    """Read the terminal behind a descriptor until `ended` is set. Raises `OSError` once it has gone.

    `first` are bytes that were already read. `behind` returns how many messages the application has not
    handled yet; `answered` receives the terminal's answers to queries that are not part of drawing.
    """
    decoder, keyboard = InputDecoder(), keyboard or Keyboard()
    poll = select.poll()
    poll.register(number, select.POLLIN)
    poll.register(ended.number, select.POLLIN)
    while not ended.is_set():
        if behind() > MOST_WAITING:
            ended.wait(REST)
            continue
        ready = {} if first else dict(poll.poll(_wait(decoder)))
        if ended.number in ready:
            return
        if first or ready:
            data, first = first or os.read(number, PIECE), b""
            if not data:
                raise OSError("its input has ended")
            found = decoder.feed(data, time.monotonic())
        else:
            found = decoder.idle(time.monotonic())
        for each in found:
            if isinstance(each, Answered):
                answered(each.text)
        for event in merge_mouse_moves(keyboard.to_messages(found)):
            deliver(event)


def _wait(decoder: InputDecoder) -> float | None:
    """Return the milliseconds after which `decoder` must be checked without input; None to wait for input."""
    if not decoder.is_open:
        return None
    return 1000 * min(TICK, max(0.0, (decoder.deadline or math.inf) - time.monotonic()))


class Keyboard:
    """Turns decoded input into events. Textual's parser gets complete sequences, so it never waits for more.

    `doubles_escape` returns whether the terminal sends alt with a key as escape and the key's sequence; it is
    called only when the two arrive together, as it reads a table.
    """

    def __init__(self, doubles_escape: Callable[[], bool] = lambda: False) -> None:
        self._parser = XTermParser()
        self._doubles_escape = doubles_escape

    def to_messages(self, found: Iterable[Heard]) -> Iterator[Message]:
        """Yield the events; input that is unreadable or means nothing here is dropped."""
        for piece in _with_escapes(found, self._doubles_escape):
            if isinstance(piece, Pasted):
                yield events.Paste(piece.text)
                continue
            if isinstance(piece, Answered):
                continue
            try:
                if text := composed_text(piece):
                    yield from _letter_events(text)
                elif key := follow_key(piece):
                    yield from self._events(key)
            except Exception:
                log.warning("keys that cannot be read were dropped", exc_info=True)
                self._begin_anew()

    def _events(self, piece: str) -> Iterator[Message]:
        if piece.startswith("\x1b\x1b["):
            return map(_with_alt, self._events(piece[1:]))
        made = list(self._parser.feed(piece))
        if piece.startswith("\x1b"):
            if not made and is_key(piece):
                # The parser waits for more bytes; the end of input makes it finish.
                made = list(self._parser.feed(""))
            if not made or self._parser.is_eof:
                self._begin_anew()
            if len(piece) == len(ESCAPE) + 1 and piece[-1].isprintable():
                made = list(map(_with_alt, made))
        return iter(made)

    def forget_pixels(self) -> None:
        """Read mouse reports in cells again, because the terminal that reported pixels has gone."""
        self._parser.mouse_pixels = False

    def _begin_anew(self) -> None:
        """Replace the parser by a new one without pending input that knows the same about the terminal."""
        old, self._parser = self._parser, XTermParser()
        for known in ("last_x", "last_y", "mouse_pixels", "terminal_size", "terminal_pixel_size"):
            setattr(self._parser, known, getattr(old, known))


def _with_escapes(found: Iterable[Heard], doubled: Callable[[], bool]) -> Iterator[Heard]:
    """Yield an escape and a sequence that follows it as one piece, if `doubled` returns True."""
    escape = ""
    for piece in found:
        if escape and isinstance(piece, str) and piece.startswith("\x1b[") and doubled():
            piece = escape + piece
        elif escape:
            yield escape
        escape = "\x1b" if piece == "\x1b" else ""
        if not escape:
            yield piece
    if escape:
        yield escape


def follow_key(piece: str) -> str:
    """Return a key's sequence without the parts that Textual does not know; empty for a released key. Pure.

    With ctrl or alt, a letter that is not Latin becomes the key at its position on a Latin layout. Num lock
    and caps lock are removed.
    """
    if len(piece) == 2 and piece[0] == "\x1b":
        return "\x1b" + (piece[1] if piece[1].isascii() else latin_key(piece[1]) or piece[1])
    found = _EXTENDED.fullmatch(piece)
    if not found or (found["end"] != "u" and ":" not in piece and not found["held"]):
        return piece
    code, _, alternates = found["code"].partition(":")
    held, text = max(int(found["held"] or "1") - 1, 0) & ~_LOCKS, found["text"] or ""
    if found["event"] == "3" or not (int(code or "1") or text):
        return ""
    if held & _COMMANDING and not text and found["end"] == "u" and code and _is_foreign(int(code)):
        base = alternates.partition(":")[2]
        named = latin_key(chr(int(code)))
        code = base if base and 0x20 < int(base) < 0x7F else str(ord(named)) if named else code
    if held & _SHIFT and held & _CTRL and (shifted := alternates.partition(":")[0]) in _CONTROLS:
        code, held = shifted, held & ~_SHIFT
    shown = str(held + 1) if held or found["end"] != "u" else ""
    return f"\x1b[{code};{shown}{';' + text if text else ''}{found['end']}"


def composed_text(piece: str) -> str:
    """Return the text that an input method or a compose key wrote; empty for other keys. Pure."""
    found = _EXTENDED.fullmatch(piece)
    if not found or not (text := found["text"]):
        return ""
    letters = [int(each[:8]) for each in text.split(":") if each]
    if int(found["code"].partition(":")[0] or "0") and len(letters) < 2:
        return ""
    return "".join(chr(each) for each in letters if _is_letter(each))


def latin_key(letter: str) -> str:
    """Return the key of a Latin layout at the position of another layout's letter; empty if unknown."""
    return _layouts().get(letter.lower(), "")


@cache
def _layouts() -> dict[str, str]:
    from tools.kit.yaml_text import load_table

    latin, *others = load_table(Path(__file__).with_name("layouts.yaml"))
    pairs = [pair for layout in others for pair in zip(layout["keys"], latin["keys"], strict=True)]
    return {letter: key for letter, key in reversed(pairs) if not letter.isascii()}


def _is_foreign(code: int) -> bool:
    """Return whether a code is a letter that is not Latin; keys without a letter have private codes."""
    return code >= 0x250 and not (0x1E00 <= code < 0x1F00 or 0xE000 <= code < 0xF900) and code <= 0x10FFFF


def _is_letter(code: int) -> bool:
    return code in (9, 10) or (
        0x20 <= code <= 0x10FFFF and not (0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000)
    )


def _letter_events(text: str) -> Iterator[Message]:
    """Yield a short text as keys; a long one, or one with joined characters, as a paste."""
    if len(text) > _TYPED or not text.isprintable():
        yield events.Paste(text)
        return
    for letter in text:
        yield events.Key(letter if letter.isalnum() else _character_to_key(letter), letter)


def _with_alt(event: Message) -> Message:
    """Return a key event with `alt+` in its name and without a character, as for the Kitty protocol."""
    if not isinstance(event, events.Key):
        return event
    key = event.key if "+" in event.key else f"alt+{event.key}"
    return events.Key(key, None)


def merge_mouse_moves(found: Iterable[Message]) -> Iterator[Message]:
    """Yield only the last of successive mouse moves, and all other events unchanged."""
    move: events.MouseMove | None = None
    for event in found:
        if move is not None and not isinstance(event, events.MouseMove):
            yield move
        move = event if isinstance(event, events.MouseMove) else None
        if move is None:
            yield event
    if move is not None:
        yield move


# Textual's table has no public interface. Without these entries alt+enter would be enter, and send an
# unfinished message; alt and a digit would write a character that one macOS terminal sends: `™` for alt+2.

_SENT = {
    "\x1b\r": "alt+enter",
    "\x1b\x7f": "alt+backspace",
    "\x1b-": "alt+minus",
    "\x1b=": "alt+equals_sign",
    "\x1b[7^": "ctrl+home",  # rxvt; Textual has these two the other way round
    "\x1b[8^": "ctrl+end",
    **{f"\x1b{digit}": f"alt+{digit}" for digit in "0123456789"},
}
_Key = cast(Any, Enum("_Key", [(name, name) for name in _SENT.values()]))


def add_key_sequences() -> None:
    """Make Textual recognize alt+enter, alt with a digit, and rxvt's keys without the Kitty protocol.

    Terminals send escape and the key together. A user who presses both in turn takes longer than Textual
    waits for the rest of a sequence (`ESCDELAY`, 100 ms), so these keys still arrive separately.
    """
    for sequence, name in _SENT.items():
        cast(dict[str, Any], ANSI_SEQUENCES_KEYS)[sequence] = (_Key[name],)

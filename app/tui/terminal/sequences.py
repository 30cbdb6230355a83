r"""Splits terminal input into whole keys and reports, however they came in pieces.

The forms are those of ECMA-48 and of the terminals that came after it. A sequence that has begun is
waited for; what a terminal says to others, and what was cut off, is told from what a person pressed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from functools import cache
from typing import NamedTuple

ESCAPE = b"\x1b"
LONGEST = 8_400
"""Bytes of a sequence that is waited for."""
_CONTROL = r"\x00-\x1f\x7f"
_BODY = rf"[^{_CONTROL}]{{0,8192}}"
_OSC = rf"\]\d{{1,5}};{_BODY}"
_DCS = rf"(?:P[>\d!$+=|]|_G){_BODY}"
_CSI = r"\[[0-?]{0,256}[ -/]{0,4}"

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
def _compiled(pattern: str) -> re.Pattern[bytes]:
    """Compiled when it is first needed: the first picture does without."""
    return re.compile(pattern.encode("ascii"), re.VERBOSE | re.DOTALL)


class SequenceKind(Enum):
    """What a piece is."""

    TEXT = auto()
    """Characters as they were typed, without escape."""
    KEY = auto()
    """Escape alone, or with the one character that was pressed with alt."""
    SEQUENCE = auto()
    """A key, the mouse, or a report that was asked for."""
    ANSWER = auto()
    """What a terminal says to a program that asked before us, or beside us."""
    BROKEN = auto()
    """A sequence that does not go on."""


class InputPiece(NamedTuple):
    """A part of what came, with the bytes it is made of."""

    kind: SequenceKind
    data: bytes


def pieces(data: bytes) -> Iterator[InputPiece]:
    """Take apart what ends with no `unfinished` sequence. Nothing is left out. Pure."""
    if data and ESCAPE not in data:
        yield InputPiece(SequenceKind.TEXT, data)
        return
    for found in _compiled(_PIECE).finditer(data):
        assert found.lastgroup is not None
        yield InputPiece(SequenceKind[found.lastgroup], found[0])


def unfinished(data: bytes) -> int:
    """How many of the last bytes may be the beginning of a sequence. Pure."""
    found = _compiled(_BEGUN).search(data, max(0, len(data) - LONGEST)) if ESCAPE in data else None
    return len(data) - found.start() if found else 0


def is_pressed(begun: bytes) -> bool:
    """Whether an `unfinished` sequence that does not go on is keys that a person pressed. Pure."""
    return len(begun) <= len(b"\x1b[") or not begun.startswith(ESCAPE)


def is_key(piece: str) -> bool:
    """Whether a piece that means nothing as a whole is keys that a person pressed. Pure."""
    return len(piece) <= len("\x1b[") or piece.startswith("\x1bO")


def goes_on(begun: bytes, data: bytes) -> bool:
    """Whether `data` begins with the rest of what only a terminal says, after `begun` was given up. Pure."""
    found = _compiled(_REPORT).match(begun + data)
    # One byte may be a key as well.
    return found is not None and found.end() > len(begun) + 1

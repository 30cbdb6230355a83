"""Marked text: what the shell would make of a word, with the parts that are not plain text marked.

While a word is read, quoting must not be forgotten: `'*'` is a star, `*` is a
glob. Characters from a private area of Unicode stand for what is special;
text that holds such characters itself has them replaced before it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise, product
from math import prod

UNKNOWN = "\ue000"
"""Text that cannot be known without running something: any length, any content, maybe empty."""
ANY = "\ue001"
ONE = "\ue002"
SET = "\ue003"
GLOBS = (ANY, ONE, SET)
"""An active `*`, `?` and `[`."""
OPEN = "\ue004"
CLOSE = "\ue005"
COMMA = "\ue006"
"""`{`, `}` and `,` that may form a brace expansion."""
GAP = "\ue007"
"""Where an unquoted expansion is split into fields."""
KEEP = "\ue008"
"""Keeps a quoted empty text a field of its own."""

ALTERNATIVES = 256
"""Most readings of one word that are followed one by one."""
LONGEST_READINGS = 400_000
"""Characters of all readings of one word together, when they are more than a `FEW`."""
FEW = 16
LONGEST_NAME = 1_024
"""Characters of a glob that are looked at; names of files have at most 255 bytes."""
MOST_BRACES = 4_096
"""Opening braces of one word that are looked at."""
LONGEST_SEQUENCE = 32
"""Elements of `{1..9}` up to which they are spelled out."""

_ACTIVE = str.maketrans({"*": ANY, "?": ONE, "[": SET, "{": OPEN, "}": CLOSE, ",": COMMA})
_GLOBBING = str.maketrans({"*": ANY, "?": ONE, "[": SET})
_LITERAL = str.maketrans(
    {ANY: "*", ONE: "?", SET: "[", OPEN: "{", CLOSE: "}", COMMA: ",", GAP: " ", KEEP: "", UNKNOWN: "…"}
)
_UNBRACED = str.maketrans({OPEN: "{", CLOSE: "}", COMMA: ","})
_is_active = re.compile(r"[*?\[{},(]").search
_is_globbing = re.compile(r"[*?\[]").search
is_special = re.compile(f"[{ANY}-{KEEP}]").search
"""Whether any mark but `UNKNOWN` is in a text."""
_MARKS = re.compile("[\ue000-\ue0ff\r\v\f]")
_EXTENDED = re.compile(r"[?*+@!]\([^()]*\)")
_SET_BODY = re.compile(rf"([!^]?\]?(?:[\[{SET}]:[a-z]+:\]|[^\]])*)\]")
_is_brace = re.compile(f"[{OPEN}{CLOSE}{COMMA}]").finditer
_FLAT = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*{COMMA}[^{OPEN}{CLOSE}]*){CLOSE}")
_SEQUENCE = re.compile(r"(-?\d{1,9}|[A-Za-z])\.\.(-?\d{1,9}|[A-Za-z])(?:\.\.-?\d{1,9})?")


def words(text: str) -> frozenset[str]:
    """The words of a table."""
    return frozenset(text.split())


def unmarked(source: str) -> str:
    """Source text without characters that could be taken for marks; NUL, which shells skip, is dropped.

    Carriage returns, vertical tabs and form feeds are letters of a word to a shell, and blanks to the parser.
    """
    return _MARKS.sub("\ufffd", source.replace("\0", ""))


def active(text: str) -> str:
    """Unquoted text of a word."""
    if _is_active(text) is None:
        return text
    if "(" in text:
        text = _EXTENDED.sub(ANY, text)
    return text.translate(_ACTIVE)


def globbing(text: str) -> str:
    """Text that an unquoted expansion put into a word: globs count, braces do not."""
    return text if _is_globbing(text) is None else text.translate(_GLOBBING)


def literal(text: str) -> str:
    """Marked text as a person would read it."""
    # No mark is an ASCII character, and asking a text for that takes no time.
    return text if text.isascii() else text.translate(_LITERAL)


def value(text: str) -> str:
    """Marked text as the value of a variable: globs are plain characters, the unknown stays unknown."""
    if text.isascii():
        return text
    return UNKNOWN.join(literal(piece) for piece in text.split(UNKNOWN))


@lru_cache(maxsize=512)
def pattern(name: str) -> re.Pattern[str]:
    """A regular expression for one marked part of a path; overlong parts count as matching anything."""
    name = re.sub(f"{ANY}+", ANY, name)
    if len(name) > LONGEST_NAME:
        return re.compile(".*", re.DOTALL)
    pieces: list[str] = []
    at = 0
    while at < len(name):
        mark = name[at]
        at += 1
        if mark in (ANY, UNKNOWN):
            if pieces[-1:] != [".*"]:  # a run of stars must not cost exponential time
                pieces.append(".*")
        elif mark == ONE:
            pieces.append(".")
        elif mark == SET:
            body = _SET_BODY.match(name, at)
            if body is None:
                pieces.append(r"\[")
            else:
                pieces.append(_set(body[1]))
                at = body.end()
        else:
            pieces.append(re.escape(mark))
    expression = "".join(pieces)
    # A leading star does not match hidden names.
    hidden = "" if name.startswith(".") or not name.startswith(GLOBS) else r"(?!\.)"
    return re.compile(hidden + expression, re.DOTALL)


def _set(body: str) -> str:
    negated = body.startswith(("!", "^"))
    inner = body[1:] if negated else body
    if "[:" in literal(inner) or not inner:
        return "."
    safe = re.sub(r"([\\\[\]^&~|])", r"\\\1", literal(inner))
    try:
        re.compile(f"[{safe}]")
    except re.error:
        return "."
    return f"[{'^' if negated else ''}{safe}]"


class TangledError(Exception):
    """The script is too involved to be followed to its end."""


def combine(segments: Sequence[Sequence[str]]) -> list[str]:
    """All texts that take one option from each segment.

    When they are too many, the options of each segment are tried in turn while
    the other open segments count as unknown. Raises `TangledError` when even these are too long.
    """
    for options in segments:
        if len(options) != 1:
            break
    else:
        return ["".join([options[0] for options in segments])]
    count = prod([len(options) for options in segments])
    crossed = count <= ALTERNATIVES
    if not crossed:
        count = sum([len(options) for options in segments if 1 < len(options) <= ALTERNATIVES * 16])
    length = sum([max(map(len, options), default=0) for options in segments])
    if count > FEW and count * length > LONGEST_READINGS:
        raise TangledError
    if crossed:
        return ["".join(choice) for choice in product(*segments)]
    fixed = [options[0] if len(options) == 1 else UNKNOWN for options in segments]
    found: dict[str, None] = {}
    for place, options in enumerate(segments):
        if 1 < len(options) <= ALTERNATIVES * 16:
            before, after = "".join(fixed[:place]), "".join(fixed[place + 1 :])
            found.update((before + option + after, None) for option in options)
    return list(found) or ["".join(fixed)]


def braces(text: str, depth: int = 0) -> list[str]:
    """Marked text after brace expansion. Raises `TangledError` when there are too many braces."""
    if text.isascii():
        return [text]
    if text.count(OPEN) > MOST_BRACES:
        raise TangledError
    if OPEN not in text:
        return [text if CLOSE not in text and COMMA not in text else text.translate(_UNBRACED)]
    pieces = _FLAT.split(text)
    if len(pieces) == 2 * text.count(OPEN) + 1:  # none inside another, as is usual
        segments = [[piece.translate(_UNBRACED)] for piece in pieces]
        segments[1::2] = [piece.split(COMMA) for piece in pieces[1::2]]
        return combine(segments)
    ends, commas = _pairs(text)
    return _expand(text, 0, len(text), ends, commas, depth)


def _pairs(text: str) -> tuple[dict[int, int], dict[int, list[int]]]:
    """For each brace that is closed: where, and the commas directly inside it."""
    ends: dict[int, int] = {}
    commas: dict[int, list[int]] = {}
    stack: list[int] = []
    for match in _is_brace(text):
        mark, place = match[0], match.start()
        if mark == OPEN:
            stack.append(place)
        elif mark == COMMA:
            if stack:
                commas.setdefault(stack[-1], []).append(place)
        elif stack:
            ends[stack.pop()] = place
    return ends, commas


def _expand(
    text: str, start: int, end: int, ends: dict[int, int], commas: dict[int, list[int]], depth: int
) -> list[str]:
    if depth > 20:
        return [UNKNOWN]
    if text.find(OPEN, start, end) < 0:
        return [text[start:end].translate(_UNBRACED)]
    segments: list[list[str]] = []
    at = start
    plain = start
    while (at := text.find(OPEN, at, end)) >= 0:
        close = ends.get(at)
        if close is None or close >= end:
            at += 1
            continue
        segments.append([text[plain:at].translate(_UNBRACED)])
        segments.append(_group(text, at, close, ends, commas, depth))
        at = plain = close + 1
    segments.append([text[plain:end].translate(_UNBRACED)])
    return combine(segments)


def _group(
    text: str, start: int, end: int, ends: dict[int, int], commas: dict[int, list[int]], depth: int
) -> list[str]:
    inside = commas.get(start, [])
    if inside:
        bounds = [start, *inside, end]
        return [
            option
            for low, high in pairwise(bounds)
            for option in _expand(text, low + 1, high, ends, commas, depth + 1)
        ]
    body = text[start + 1 : end]
    if sequence := _SEQUENCE.fullmatch(body):
        return _sequence(sequence[1], sequence[2])
    return ["{" + option + "}" for option in _expand(text, start + 1, end, ends, commas, depth + 1)]


def _sequence(first: str, last: str) -> list[str]:
    numeric = first.lstrip("-").isdigit() and last.lstrip("-").isdigit()
    if not numeric and (first.lstrip("-").isdigit() or last.lstrip("-").isdigit()):
        return [f"{{{first}..{last}}}"]
    low, high = (int(first), int(last)) if numeric else (ord(first), ord(last))
    if abs(high - low) >= (LONGEST_SEQUENCE if numeric else 64):
        return [UNKNOWN]
    step = 1 if high >= low else -1
    return [str(n) if numeric else chr(n) for n in range(low, high + step, step)]


def fields(text: str) -> list[str]:
    """Marked text split into the fields of a command line; nothing but quoted empty fields stays empty."""
    if text.isascii():
        return [text] if text else []
    pieces: Iterable[str] = text.split(GAP) if GAP in text else (text,)
    return [piece.replace(KEEP, "") for piece in pieces if piece]

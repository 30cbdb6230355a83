"""Marked text: what the shell makes of a word, with the parts that are not plain text marked.

While a word is read, quoting must not be forgotten: `'*'` is a star, `*` is a
glob. Characters from a private area of Unicode stand for what is special;
text that holds such characters itself has them replaced before it is read.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product

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

MOST_READINGS = 64
"""Texts that the braces of one word are expanded to; of more, the braces count as unknown."""
LONGEST_NAME = 1_024
"""Characters of a glob that are looked at; names of files have at most 255 bytes."""

_ACTIVE = str.maketrans({"*": ANY, "?": ONE, "[": SET, "{": OPEN, "}": CLOSE, ",": COMMA})
_GLOBBING = str.maketrans({"*": ANY, "?": ONE, "[": SET})
_LITERAL = str.maketrans(
    {ANY: "*", ONE: "?", SET: "[", OPEN: "{", CLOSE: "}", COMMA: ",", GAP: " ", KEEP: "", UNKNOWN: "…"}
)
_UNBRACED = str.maketrans({OPEN: "{", CLOSE: "}", COMMA: ","})
_MARKS = re.compile("[\ue000-\ue0ff\r\v\f]")
_SET_BODY = re.compile(rf"([!^]?\]?(?:[\[{SET}]:[a-z]+:\]|[^\]])*)\]")
_FLAT = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
_SEQUENCE = re.compile(r"(-?\d{1,3}|[A-Za-z])\.\.(-?\d{1,3}|[A-Za-z])")


def words(text: str) -> frozenset[str]:
    """The words of a table."""
    return frozenset(text.split())


def unmarked(source: str) -> str:
    """Source text without characters that could be taken for marks; NUL, which shells skip, is dropped.

    Carriage returns, vertical tabs and form feeds are letters of a word to a shell, and blanks to the parser.
    """
    return _MARKS.sub("\ufffd", source.replace("\0", ""))


def active(text: str) -> str:
    """Unquoted text of a word, backslashes taken away."""
    if "\\" not in text:
        return text.translate(_ACTIVE)
    pieces = re.split(r"\\(\n|.|$)", text, flags=re.DOTALL)
    quoted = ("" if piece == "\n" else KEEP + piece if piece == "~" else piece for piece in pieces[1::2])
    return "".join(
        part
        for pair in zip((p.translate(_ACTIVE) for p in pieces[::2]), (*quoted, ""), strict=False)
        for part in pair
    )


def globbing(text: str) -> str:
    """Text that an unquoted expansion put into a word: globs count, braces do not; blanks part fields."""
    return re.sub(r"[ \t\n]+", GAP, text).translate(_GLOBBING)


def literal(text: str) -> str:
    """Marked text as a person would read it."""
    # No mark is an ASCII character, and asking a text for that takes no time.
    return text if text.isascii() else text.translate(_LITERAL)


def value(text: str) -> str:
    """Marked text as the value of a variable: globs are plain characters, the unknown stays unknown."""
    return text if text.isascii() else UNKNOWN.join(literal(piece) for piece in text.split(UNKNOWN))


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


def fields(text: str) -> list[str]:
    """The fields of a command line that one marked word becomes; only quoted ones stay empty."""
    if text.isascii():
        return [text] if text else []
    found: list[str] = []
    for reading in _braces(text):
        found += [piece.replace(KEEP, "") for piece in reading.split(GAP) if piece]
    return found


def _braces(text: str) -> list[str]:
    if OPEN not in text:
        return [text.translate(_UNBRACED)]
    readings = [text]
    while any(_FLAT.search(each) for each in readings):
        expanded = [reading for each in readings for reading in _innermost(each)]
        if len(expanded) > MOST_READINGS or len(expanded) * len(text) > 100_000:
            return [re.sub(f"{OPEN}.*{CLOSE}", UNKNOWN, text, flags=re.DOTALL).translate(_UNBRACED)]
        readings = expanded
    return [each.translate(_UNBRACED) for each in readings]


def _innermost(text: str) -> list[str]:
    """The text with the braces expanded that hold no others."""
    pieces = _FLAT.split(text)
    choices = [[piece] if at % 2 == 0 else _options(piece) for at, piece in enumerate(pieces)]
    count = 1
    for options in choices:
        count *= len(options)
        if count > MOST_READINGS:
            return [text] * (MOST_READINGS + 1)
    return ["".join(choice) for choice in product(*choices)]


def _options(body: str) -> list[str]:
    if COMMA in body:
        return body.split(COMMA)
    if sequence := _SEQUENCE.fullmatch(body):
        first, last = sequence[1], sequence[2]
        if first.isalpha() == last.isalpha():
            low, high = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
            step = 1 if high >= low else -1
            return [chr(n) if first.isalpha() else str(n) for n in range(low, high + step, step)]
    return ["{" + body + "}"]

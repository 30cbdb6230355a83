"""Small texts for users: on one line, cut to a length, numbers with their noun."""

from __future__ import annotations

from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean

_MARKS = lazy_pattern(r"(?m)^ {0,3}#{1,6}[ \t]+|(?<![\w*])\*\*(?=\S)|(?<=[^\s*])\*\*(?![\w*])")


def one_line(text: str) -> str:
    """Return `text` without control characters, each run of white space as one blank."""
    return " ".join(clean(text).split())


def without_marks(text: str) -> str:
    """Return Markdown without the marks of headings and of bold text, for places that show plain text."""
    return _MARKS.sub("", text)


def brief(text: object, limit: int = 80) -> str:
    """Return `text` on one line of at most `limit` characters."""
    return shorten(one_line(str(text)), limit)


def shorten(text: str, limit: int) -> str:
    """Return `text`, or its beginning and `…`: at most `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def full_stop(text: str) -> str:
    """Return `text` with a full stop, unless it ends with a mark that ends a sentence."""
    return text if text.endswith((".", "!", "?", "…", ":", "。", "！", "？")) else f"{text}."


def plural(count: int, noun: str) -> str:
    """Return a number with its noun, such as `1 file`, `2,000 files`, `2 entries` or `2 matches`."""
    if count != 1:
        ending = "es" if noun.endswith(("ch", "sh", "s", "x")) else "s"
        is_consonant = noun[-2:-1] not in "aeiou"
        noun = f"{noun[:-1]}ies" if noun.endswith("y") and is_consonant else f"{noun}{ending}"
    return f"{count:,} {noun}"


def ago(seconds: float) -> str:
    """Return `seconds` in the largest fitting unit, such as `3 min`, `5 h` or `2 d`; `now` below a minute."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{min(int(seconds // size), 9_999)} {unit}"
    return "now"

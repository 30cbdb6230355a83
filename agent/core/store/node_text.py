"""The words of a node: what a person would read in it, and what the search index is given.

Tool results and arguments of calls are JSON; their escapes would glue `\\n` to
the first word of every line, so the texts inside are taken out.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from tools.text.safe_text import clean
from tools.text.words import shorten

INDEXED_CHARS: Mapping[str, int] = {"user": 100_000, "assistant": 100_000, "tool": 20_000, "notice": 20_000}
"""Kinds that can be searched, and the characters of one node that go into the index."""

_NOT_INDEXED_TOOLS = frozenset({"session_search"})
"""A search that finds earlier searches finds itself."""

_MARKS = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670"
    "\u00ad\u200b-\u200d\u2060\ufe0e\ufe0f\ufeff]"
)
"""Accents, points of vowels in Hebrew and Arabic, and what has no width."""
_PLAIN = str.maketrans(
    {"ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE"}
    | dict(zip("‘’“”øØđĐłŁıς\0", "''\"\"oOdDlLiσ ", strict=True))
)
"""Quotes as they are typed, and letters that Unicode does not take apart."""
_APART = re.compile(
    "[\u2010-\u24ff\u25a0-\u2bff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef"
    "\U0001f000-\U0001faff\U00020000-\U0003ffff]"
)
"""Symbols, emoji and scripts written without blanks (box drawing is left out: it only fills space)."""


def readable(kind: str, content: str, data: Mapping[str, Any]) -> str:
    """What a person would read in a node: JSON results unfolded, calls of an assistant written out."""
    if kind == "tool":
        return _unfold(content)
    if kind == "assistant":
        calls = [f"{name} {_unfold(arguments)}" for name, arguments in calls_of(data)]
        return "\n".join([content, *calls] if content else calls)
    return content


LINE = 160
"""Characters of a line that stands for a message."""


def first_line(text: str) -> str:
    """The first line of a text that says anything, without control characters, at most `LINE` long."""
    line = text.lstrip().partition("\n")[0][: LINE + 1].rstrip()
    if not (line.isascii() and line.isprintable()):
        line = clean(line).strip()
    return shorten(line, LINE)


def searchable(kind: str, content: str, data: Mapping[str, Any]) -> str:
    """The folded text that goes into the index; empty if the node is not searched."""
    limit = INDEXED_CHARS.get(kind)
    if limit is None or data.get("tool") in _NOT_INDEXED_TOOLS:
        return ""
    if kind == "assistant":
        calls = [
            f"{name} {_unfold(arguments)}"
            for name, arguments in calls_of(data)
            if name not in _NOT_INDEXED_TOOLS
        ]
        return fold("\n".join([content, *calls] if content else calls)[:limit])
    return fold(readable(kind, content, data)[:limit])


def calls_of(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Name and arguments (JSON text) of the calls of an assistant node."""
    calls = data.get("calls")
    for call in calls if isinstance(calls, (list, tuple)) else ():
        if isinstance(call, Mapping):
            arguments = call.get("arguments", "")
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            yield str(call.get("name", "")), text


def fold(text: str) -> str:
    """`text` in the form that is compared: accents dropped, symbols and ideographs set apart by blanks.

    Other forms of the same letters (full and half width, ligatures, Arabic as it is
    printed, raised digits) become the plain ones. Character by character, so that
    what is part of a text stays part of it when both are folded; this lets words of
    any length be found in scripts that put no blanks between them.
    """
    if text.isascii():
        return text.replace("\0", " ")
    text = _MARKS.sub("", unicodedata.normalize("NFKD", text)).translate(_PLAIN)
    return _APART.sub(r" \g<0> ", unicodedata.normalize("NFC", text))


def _unfold(text: str) -> str:
    """The texts and numbers inside a JSON object or array, one a line; anything else as it is."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return "\n".join(_leaves(value))


def _leaves(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack.extend(reversed(value.values()))
        elif isinstance(value, list):
            stack.extend(reversed(value))
        elif isinstance(value, str):
            yield value
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield repr(value)

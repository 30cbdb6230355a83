"""Stored nodes, and the text of a node for search and display."""

from __future__ import annotations

import json
import secrets
import time
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tools.kit.lazy_pattern import lazy_pattern
from tools.text.redact import redact
from tools.text.safe_text import clean
from tools.text.words import shorten

Kind = Literal["system", "user", "assistant", "tool", "notice", "compaction", "inner"]
"""The kinds of nodes; `inner` is a call made by a script: stored, but not sent to the model."""

KINDS: frozenset[str] = frozenset(get_args(Kind))

MAIN = "main"
"""The branch that every session begins with."""

TITLE_LENGTH = 60
"""The limit in characters on a title taken from a message."""


@dataclass(frozen=True, slots=True)
class Node:
    """One entry of a session. Ids increase over the whole store and are never reused.

    `created` is in seconds since the epoch. `data` depends on the kind: calls, reasoning and usage of an
    assistant node, the outcome of a tool node.
    """

    id: int
    session: str
    parent: int | None
    kind: str
    created: float
    content: str
    data: Mapping[str, Any]

    @property
    def is_whole_answer(self) -> bool:
        """True if it is an answer of the model that was not cut off and has no calls."""
        whole = self.data.get("state", "complete") == "complete"
        return self.kind == "assistant" and whole and not self.data.get("calls")


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node to be appended."""

    kind: Kind
    content: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BranchHead:
    """The named end of a branch. `node` is its last node, None for an empty branch."""

    session: str
    name: str
    node: int | None
    updated: float


@dataclass(frozen=True, slots=True)
class Session:
    """A session without its nodes. Times are seconds since the epoch."""

    id: str
    title: str
    workspace: str
    model: str
    created: float
    updated: float
    head: int | None
    """The last node of the branch `main`."""
    parent: str | None = None
    """The session that started this one for a subagent; None for a session of the user."""
    archived: bool = False
    length: int = 0
    """The number of nodes on the path to the end of `main`."""


class _Any:
    """The type of `ANY`."""


ANY = _Any()
"""The default of `expected`: append wherever the branch ends now."""

Expected = int | None | _Any


def new_session_id(now: float | None = None) -> str:
    """Return a random id that sorts by time (UTC), such as `20261121-224501-a3f9c2`."""
    moment = time.gmtime(now)
    return f"{time.strftime('%Y%m%d-%H%M%S', moment)}-{secrets.token_hex(3)}"


def title_of(message: str, secrets: Mapping[str, str] | None = None) -> str:
    """Return a message's first non-empty line, secrets masked, cut to 60 characters or at a word before."""
    shown = redact(clean(message[:4_000]), secrets)
    line = next((line for line in shown.splitlines() if line.strip()), "")
    line = " ".join(line.split())
    if len(line) <= TITLE_LENGTH:
        return line
    cut = line[: TITLE_LENGTH - 1]
    at_word = cut.rsplit(" ", 1)[0]
    return (at_word if len(at_word) > TITLE_LENGTH // 2 else cut).rstrip() + "…"


_SURROGATE = lazy_pattern("[\ud800-\udfff]")


def storable(text: str) -> str:
    """Return `text` in a form SQLite can store: surrogate pairs are joined, lone surrogates become U+FFFD."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


INDEXED_CHARS: Mapping[str, int] = {"user": 100_000, "assistant": 100_000, "tool": 20_000, "notice": 20_000}
"""The kinds of nodes that can be searched, with the number of characters of a node that are indexed."""

_NOT_INDEXED_TOOLS = frozenset({"session_search"})
"""Tools whose calls are not indexed: a search would find earlier searches."""

_MARKS = lazy_pattern(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670"
    "\u00ad\u200b-\u200d\u2060\ufe0e\ufe0f\ufeff]"
)
"""Accents, Hebrew and Arabic vowel points, and zero-width characters."""
_PLAIN = str.maketrans(
    {"ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE"}
    | dict(zip("‘’“”øØđĐłŁıς\0", "''\"\"oOdDlLiσ ", strict=True))
)
"""Typographic quotes and letters that Unicode does not decompose, with their plain form."""
_APART = lazy_pattern(
    "[\u2010-\u24ff\u25a0-\u2bff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef"
    "\U0001f000-\U0001faff\U00020000-\U0003ffff]"
)
"""Symbols, emoji and scripts written without spaces. Box drawing is left out, because it only fills space."""


def readable(kind: str, content: str, data: Mapping[str, Any]) -> str:
    """Return a node's readable text: values in JSON results, an assistant's calls after its text."""
    if kind == "tool":
        return _unfold(content)
    if kind == "assistant":
        calls = [f"{name} {_unfold(arguments)}" for name, arguments in calls_of(data)]
        return "\n".join([content, *calls] if content else calls)
    return content


LINE = 160
"""The limit in characters on a line that represents a message."""


def first_line(text: str) -> str:
    """Return the first non-empty line of a text, without control characters, cut to `LINE` characters."""
    line = text.lstrip().partition("\n")[0][: LINE + 1].rstrip()
    if not (line.isascii() and line.isprintable()):
        line = clean(line).strip()
    return shorten(line, LINE)


def searchable(kind: str, content: str, data: Mapping[str, Any]) -> str:
    """Return the folded text of a node for the search index; empty if the node is not indexed."""
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
    """Yield name and arguments (as JSON text) of each call in an assistant node's data."""
    calls = data.get("calls")
    for call in calls if isinstance(calls, (list, tuple)) else ():
        if isinstance(call, Mapping):
            arguments = call.get("arguments", "")
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            yield str(call.get("name", "")), text


def fold(text: str) -> str:
    """Return `text` in the form used for comparison; its case is kept.

    Accents are removed, and symbols and ideographs are put between spaces. Variants of the same letters (full
    and half width, ligatures, Arabic presentation forms, superscript digits) become the plain ones. The
    folding works character by character, so a part of a text is still a part of it after both are folded.
    Words of any length are therefore found in scripts without spaces.
    """
    if text.isascii():
        return text.replace("\0", " ")
    text = _MARKS.sub("", unicodedata.normalize("NFKD", text)).translate(_PLAIN)
    return _APART.sub(r" \g<0> ", unicodedata.normalize("NFC", text))


def _unfold(text: str) -> str:
    """Return the texts and numbers inside a JSON object or array, one per line; other text unchanged."""
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

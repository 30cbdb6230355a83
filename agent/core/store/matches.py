"""Matches of search terms in a text, for showing them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.core.store.node_text import fold
from agent.core.store.query import Query

Span = tuple[int, int]
"""First character, and the one behind the last."""

MOST = 200
"""Places that are shown in one text."""


def spans(text: str, query: Query) -> list[Span]:
    """The places of all terms, in order and apart from each other, at most `MOST`.

    A term stands where the text has it in any case and with or without accents; where the
    text has it nowhere, its words stand side by side. Pure.
    """
    folded, origin = _folded(text)
    found: list[Span] = []
    for term in query.terms:
        wanted = term.strip().lower()
        places = list(_places(folded, re.escape(wanted))) if wanted else []
        if not places and (words := re.findall(r"\w+", wanted)):
            places = list(_places(folded, r"[\W_]+".join(map(re.escape, words))))
        found += [(origin[start], origin[end - 1] + 1) if origin else (start, end) for start, end in places]
    return _apart(sorted(found))[:MOST]


def _places(text: str, pattern: str) -> Iterator[Span]:
    for count, match in enumerate(re.finditer(pattern, text)):
        if count >= MOST:
            return
        yield match.span()


def _folded(text: str) -> tuple[str, list[int]]:
    """The text as it is compared, and for each of its characters the one it came from; none if the same."""
    if text.isascii():
        return text.lower(), []
    pieces: list[str] = []
    origin: list[int] = []
    for index, character in enumerate(text):
        piece = fold(character).lower()
        pieces.append(piece)
        origin += [index] * len(piece)
    return "".join(pieces), origin


def _apart(found: list[Span]) -> list[Span]:
    """Places that overlap, as one."""
    joined: list[Span] = []
    for start, end in found:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined

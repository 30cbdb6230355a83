"""Ranks the newest hits, and cuts out the part of a hit that is shown."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Mapping

from agent.core.store.node_text import fold
from agent.core.store.query import Query
from tools.text.redact import redact
from tools.text.words import one_line

_K, _B, _USUAL = 1.2, 0.75, 400.0
"""BM25's saturation and length weights, and a usual length of a message in characters."""

_READ = 4_000
"""Characters up to which a text is read to count terms; a longer one counts as one occurrence."""

_KIND = {"user": 1.3, "assistant": 1.1, "notice": 0.9, "tool": 0.8}
_WHOLE_WORD = 1.5
_TOGETHER = 1.4
_MONTH = 30 * 86_400.0

RANKED = 200
"""Newest hits that are ranked; older ones follow in their order."""

SNIPPET = 160
"""Characters of a snippet."""

_LEAD = 50
"""Characters shown before the match."""

_MASKED = 400
"""Characters on either side of a snippet that are looked at for secrets."""

_SEARCHED = 200_000


def ranked(connection: sqlite3.Connection, query: Query, found: Mapping[int, bool]) -> list[int]:
    """The ids of `found`, best first. Its values tell which hits hold whole words.

    BM25 without its rarity factor: all hits hold all terms. Newer hits, whole
    words, terms side by side as they were typed and what people said count for more.
    """
    newest = sorted(found, reverse=True)
    rows = connection.execute(
        "SELECT id, kind, created, size, CASE WHEN size <= ? THEN coalesce(body, content) ELSE '' END "
        "FROM nodes WHERE id IN (SELECT value FROM json_each(?))",
        (_READ, json.dumps(newest[:RANKED])),
    )
    now, terms = time.time(), [term.lower() for term in query.terms]
    together = " ".join(terms) if len(terms) > 1 else ""
    standing = None if query.is_plain else list(map(_standing, terms))
    scores: dict[int, float] = {}
    for node, kind, created, size, text in rows:
        text = text.lower()
        length = _K * (1 - _B + _B * size / _USUAL)
        relevance = 0.0
        for term in terms:
            count = text.count(term) or (0.3 if text else 1.0)
            relevance += count * (_K + 1) / (count + length)
        age = max(now - created, 0.0) / _MONTH
        is_whole = found[node] if standing is None else all(each.search(text) for each in standing)
        weight = _KIND.get(kind, 1.0) * (_WHOLE_WORD if is_whole else 1.0)
        weight *= _TOGETHER if together and together in text else 1.0
        scores[node] = relevance / max(len(terms), 1) * weight + 1 / (1 + age)
    return [*sorted(scores, key=lambda node: (-scores[node], -node)), *newest[RANKED:]]


def _standing(term: str) -> re.Pattern[str]:
    """Where a term stands by itself: `#12` does in `see #12.`, and not in `see #123`."""
    before = r"(?<!\w)" if term[:1].isalnum() else ""
    after = r"(?!\w)" if term[-1:].isalnum() else ""
    return re.compile(before + re.escape(term) + after)


def snippet(text: str, query: Query, secrets: Mapping[str, str] | None = None, width: int = SNIPPET) -> str:
    """The part of `text` around the first match, on one line, secrets masked, with `…` where it was cut."""
    text = text[:_SEARCHED]
    at = _first_match(text, query)
    # Whole words around what is shown: a token that is cut off would not be recognised.
    first = max(text.rfind(" ", 0, max(0, at - _MASKED)), 0)
    last = text.find(" ", at + width + _MASKED)
    piece = text[first : last if last >= 0 else None]
    text = redact(piece, secrets)
    at = at - first if text == piece else _first_match(text, query)
    start = max(0, at - _LEAD)
    if start:
        # Begin with a whole word, if one begins before the match.
        blank = text.find(" ", start, at)
        start = blank + 1 if blank >= 0 else start
    piece = one_line(text[start : start + width])
    is_cut = last >= 0 or start + width < len(text)
    return ("…" if start or first else "") + piece + ("…" if is_cut else "")


def _first_match(text: str, query: Query) -> int:
    """Where the first term occurs as it was typed, else its words, else its folded form."""
    lowered = text.lower() if text.isascii() else ""
    for term in query.raw:
        if lowered and term.isascii():
            # Several times as quick as an expression, and right where no letter changes its length.
            if (at := lowered.find(term.lower())) >= 0:
                return at
            if term.isalnum():
                continue
        match = re.search(re.escape(term), text, re.IGNORECASE)
        if match is None and (parts := re.findall(r"\w+", term)):
            match = re.search(r"[\W_]+".join(map(re.escape, parts)), text, re.IGNORECASE)
        if match is not None:
            return match.start()
    return _first_folded(text, query)


def _first_folded(text: str, query: Query) -> int:
    """The place of a match that only folding finds: the line that holds it."""
    at = 0
    for line in text.splitlines(keepends=True):
        folded = fold(line).lower()
        if any(term.lower() in folded for term in query.terms):
            return at + min(_share(folded, query), len(line) - 1)
        at += len(line)
    return 0


def _share(folded: str, query: Query) -> int:
    # Folding changes lengths by little outside scripts that `_first_match` finds anyway.
    return min(at for term in query.terms if (at := folded.find(term.lower())) >= 0)

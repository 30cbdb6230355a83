"""Queries made from what a person typed; none can be a syntax error.

Every word must occur. `"several words"` in quotes belong together. Words are found as
parts of longer ones, so a star at the end of a word (`pyth*`) asks for what is done
anyway and is left out. Nothing else is an operator: `AND`, `%`, stars elsewhere or in
quotes, and lone quotes are text like any other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent.core.store.node_text import fold
from agent.core.store.nodes import storable

MAX_CHARS = 1_000
MAX_TERMS = 32
_TERM = re.compile(r'"(\s*[^"\s][^"]*)"|(\S+)')
"""Blanks alone in quotes are no words that belong together; the quotes are looked for themselves."""
_GRAM = 3
"""Characters of a trigram: shorter texts are not in that index."""
_BEGINNING = re.compile(r"\A(\w+)\*\Z")


@dataclass(frozen=True, slots=True)
class Query:
    """One search. `terms` are folded; the expressions are None where an index cannot help."""

    terms: tuple[str, ...]
    raw: tuple[str, ...]
    """The terms as they were typed, for showing where they occur."""
    words: str | None
    """FTS5 expression over whole words."""
    trigrams: str | None
    """FTS5 expression over parts of words, for the terms that are long enough."""
    short: tuple[str, ...]
    """The terms that are too short for it."""
    is_plain: bool
    """Whether the terms are letters, digits and blanks, so that the index over words is exact for them."""


def parse(text: str) -> Query:
    """The query for a text; one without terms finds nothing."""
    text = storable(text[:MAX_CHARS]).replace("\0", " ")
    raw = [quoted or _BEGINNING.sub(r"\1", plain) for quoted, plain in _TERM.findall(text)]
    raw = list(dict.fromkeys(term.strip() for term in raw if term.strip()))[:MAX_TERMS]
    terms = [fold(term) for term in raw]
    has_words = bool(terms) and all(any(map(str.isalnum, term)) for term in terms)
    long = [term for term in terms if len(term) >= _GRAM]
    return Query(
        tuple(terms),
        tuple(raw),
        " AND ".join(map(_phrase, terms)) if has_words else None,
        " AND ".join(map(_phrase, long)) if long else None,
        tuple(term for term in terms if len(term) < _GRAM),
        all(character.isalnum() or character.isspace() for term in terms for character in term),
    )


def _phrase(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'

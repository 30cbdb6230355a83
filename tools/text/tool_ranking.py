"""The ranking of tools for a query: BM25 over their names, descriptions and parameters. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from tools.kit.lazy_pattern import lazy_pattern

_K1, _B = 1.2, 0.6
_NAME, _PARAMETER, _WORDS = 4, 2, 1
"""The weight of a word by its location."""
_WORD = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
LONGEST_QUERY = 400
SHORTEST_PREFIX = 4
"""The minimum length of a word that is also searched as a beginning or as a misspelling."""
ALIKE = 0.8
"""The similarity, from 0 to 1, that a misspelt word must have."""


@dataclass(frozen=True, slots=True)
class Findable:
    """A tool to be found by its name, description and parameters."""

    name: str
    description: str
    parameters: Mapping[str, Any]


def ranked(query: str, tools: Sequence[Findable]) -> list[Findable]:
    """Return the tools that share a word with the query, best first; a tool with exactly this name comes
    first. Words that no tool uses are taken for the beginnings or misspellings of those that some do.
    """
    query = query.strip()[:LONGEST_QUERY]
    documents = [_weighted(tool) for tool in tools]
    vocabulary = set[str]().union(*documents)
    wanted = {near for word in _words(query) for near in _nearest(word, vocabulary)}
    lengths = [sum(document.values()) for document in documents]
    usual = sum(lengths) / len(lengths) if lengths else 1.0
    scores = [0.0] * len(tools)
    for word in wanted:
        holding = [number for number, document in enumerate(documents) if word in document]
        rarity = math.log(1 + (len(tools) - len(holding) + 0.5) / (len(holding) + 0.5))
        for number in holding:
            count = documents[number][word]
            weight = 1 - _B + _B * lengths[number] / usual
            scores[number] += rarity * count * (_K1 + 1) / (count + _K1 * weight)

    def place(number: int) -> tuple[bool, float, str]:
        name = tools[number].name
        return not _is_named(query, name), -scores[number], name

    found = [number for number, tool in enumerate(tools) if scores[number] or _is_named(query, tool.name)]
    return [tools[number] for number in sorted(found, key=place)]


def _nearest(word: str, vocabulary: Collection[str]) -> Iterable[str]:
    """Return the word if tools use it, else what it begins or what begins it, else similar words."""
    if word in vocabulary:
        return (word,)
    if len(word) < SHORTEST_PREFIX:
        return ()
    related = [
        known
        for known in vocabulary
        if len(known) >= SHORTEST_PREFIX and (known.startswith(word) or word.startswith(known))
    ]
    return related or get_close_matches(word, vocabulary, cutoff=ALIKE)


def _is_named(query: str, name: str) -> bool:
    """Return whether the query is the name of a tool, with or without the server prefix."""
    return query.casefold() in (name.casefold(), name.rpartition("__")[2].casefold())


def _weighted(tool: Findable) -> Counter[str]:
    properties = tool.parameters.get("properties")
    names = " ".join(properties) if isinstance(properties, Mapping) else ""
    found: Counter[str] = Counter()
    for text, weight in ((tool.name, _NAME), (names, _PARAMETER), (tool.description, _WORDS)):
        for word in _words(text):
            found[word] += weight
    return found


def _words(text: str) -> list[str]:
    """Return the words of a text in one form: `createIssues`, `create_issue` and `Create issue` are equal."""
    return [_stem(word.casefold()) for word in _WORD.findall(text)]


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word

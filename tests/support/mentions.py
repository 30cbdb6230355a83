"""Tools that the descriptions of other tools name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any


def unoffered_mentions(
    definitions: Iterable[dict[str, Any]], all_names: Iterable[str]
) -> list[tuple[str, str]]:
    """Pairs (tool, other tool its texts name) where the other one is not on offer.

    A model calls what it reads about. Names with an underscore count wherever
    they stand as a word; a name that is also a plain English word counts in
    backticks, after `use`, `call`, `see`, `via` or `prefer`, and before `tool`.
    """
    definitions = list(definitions)
    offered = {definition["name"] for definition in definitions}
    missing = [(name, _mention(name)) for name in all_names if name not in offered]
    return [
        (definition["name"], name)
        for definition in definitions
        for text in [" \n".join(_texts(definition))]
        for name, pattern in missing
        if pattern.search(text)
    ]


def _mention(name: str) -> re.Pattern[str]:
    word = re.escape(name)
    if "_" in name:
        return re.compile(rf"(?<!\w){word}(?!\w)")
    return re.compile(
        rf"`{word}`|\b(?:[Uu]se|[Cc]all|[Ss]ee|[Vv]ia|[Pp]refer) (?:the )?{word}\b|\b{word} tool\b"
    )


def _texts(value: Any) -> Iterator[str]:
    """Every description in a schema."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "description" and isinstance(item, str):
                yield item
            else:
                yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)

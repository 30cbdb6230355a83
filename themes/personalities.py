"""Personalities: a name, a description, and a paragraph for the system prompt."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from themes.loader import SkinSection, SkinValue, parse
from themes.skin import nearest, short_line

_FILE = Path(__file__).with_name("personalities.yaml")


@dataclass(frozen=True, slots=True)
class Personality:
    """A tone of answers. It never changes what is done or refused."""

    name: str
    description: str
    """A few words for a list."""
    style: str
    """A paragraph for the system prompt, one line."""


@lru_cache(maxsize=1)
def personalities() -> tuple[Personality, ...]:
    """Return all personalities, the usual tone first."""
    found: list[Personality] = []
    for name, node in parse(_FILE.read_bytes(), _fail).entries.items():
        if not isinstance(node, SkinSection):
            raise TypeError(f"{_FILE.name}: {name} is not a section")
        description, style = node.entries.get("description"), node.entries.get("style")
        if not isinstance(description, SkinValue) or not isinstance(style, SkinValue):
            raise TypeError(f"{_FILE.name}: {name} lacks a description or a style")
        found.append(Personality(name, description.text, style.text.strip()))
    return tuple(found)


def personality(name: str) -> Personality:
    """Return the personality `name`, ignoring case. Raises `KeyError` with a sentence if it is unknown."""
    known = {each.name: each for each in personalities()}
    try:
        return known[name.strip().lower()]
    except KeyError:
        raise KeyError(f"there is no personality `{short_line(name)}`{nearest(name, known)}") from None


def _fail(message: str, line: int | None) -> None:
    raise ValueError(f"{_FILE.name}:{line}: {message}")

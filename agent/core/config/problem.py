"""A problem of a setting, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Path = tuple[str | int, ...]
"""A way into settings: keys of mappings and indexes of lists, outermost first."""


class SettingPlace(NamedTuple):
    """A spot in a text file; both numbers count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """One thing wrong with the settings. `str()` is a sentence for a person.

    `origin` is the file's short name or the environment variable; `key` is dotted
    and empty when the file as a whole is meant.
    """

    origin: str
    message: str
    place: SettingPlace | None = None
    key: str = ""

    def __str__(self) -> str:
        where = f" line {self.place.line}, column {self.place.column}" if self.place else ""
        return f"{self.origin}{where}: {self.message}"


def dotted_key(path: Path) -> str:
    """The key of `path` as a person writes it."""
    return ".".join(str(part) for part in path)


def short_text(value: object, limit: int = 60) -> str:
    """`value` as one short line of printable characters, to be quoted in a message."""
    text = value if isinstance(value, str) else repr(value)
    line = "".join(char if char.isprintable() else "�" for char in text[: limit + 1])
    return line if len(text) <= limit else line[:limit] + "…"

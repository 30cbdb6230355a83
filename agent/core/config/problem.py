"""A problem of a setting, and its position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Path = tuple[str | int, ...]
"""A path into settings: keys of mappings and indexes of lists, outermost first."""


class SettingPlace(NamedTuple):
    """A position in a text file; both numbers count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """One problem of the settings. `str()` is a sentence for a person.

    `origin` is the file's short name or the environment variable. `key` is dotted; it is empty if the problem
    is about the whole file.
    """

    origin: str
    message: str
    place: SettingPlace | None = None
    key: str = ""

    def __str__(self) -> str:
        where = f" line {self.place.line}, column {self.place.column}" if self.place else ""
        return f"{self.origin}{where}: {self.message}"


def dotted_key(path: Path) -> str:
    """Return the dotted key of `path`."""
    return ".".join(str(part) for part in path)


def short_text(value: object, limit: int = 60) -> str:
    """Return `value` as one short line of printable characters, to be quoted in a message."""
    text = value if isinstance(value, str) else repr(value)
    line = "".join(char if char.isprintable() else "�" for char in text[: limit + 1])
    return line if len(text) <= limit else line[:limit] + "…"

"""A problem with a setting, and its position in the file."""

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
    """One problem with the settings. `str()` gives a sentence for the user.

    `origin` is the file's short name or the environment variable. `key` is dotted; it is empty if the problem
    concerns the whole file.
    """

    origin: str
    message: str
    place: SettingPlace | None = None
    key: str = ""

    def __str__(self) -> str:
        where = f" line {self.place.line}, column {self.place.column}" if self.place else ""
        return f"{self.origin}{where}: {self.message}"


def dotted_key(path: Path) -> str:
    """Return `path` as one text with dots, such as `terminal.timeout`."""
    return ".".join(str(part) for part in path)


def short_text(value: object, limit: int = 60) -> str:
    """Return `value` as one line of printable characters for a message, cut after `limit` characters."""
    text = value if isinstance(value, str) else repr(value)
    line = "".join(char if char.isprintable() else "�" for char in text[: limit + 1])
    return line if len(text) <= limit else line[:limit] + "…"

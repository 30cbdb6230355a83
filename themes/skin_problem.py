"""A problem of a skin, and where it stands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from themes.skin_text import quoted


class SkinProblem(NamedTuple):
    """One thing wrong with a skin file. `str()` is `file:line: sentence`."""

    origin: str
    """The file's name; for a skin that is nowhere, the name asked for."""
    message: str
    line: int | None = None

    def __str__(self) -> str:
        where = f":{self.line}" if self.line else ""
        return f"{quoted(self.origin, 120)}{where}: {self.message}"


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean …?` when one of `known` looks like `word`, a full stop otherwise."""
    from difflib import get_close_matches

    close = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean `{close[0]}`?" if close else "."

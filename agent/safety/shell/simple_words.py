"""Words of nothing but texts and variables, as most of them are: read without going through their letters.

What is said here of a word is what the reader of `words` would say of it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product
from math import prod
from typing import Protocol

from agent.safety.shell import marks
from agent.safety.shell.marks import FEW, UNKNOWN
from agent.safety.shell.values import Value, split

PIECE = r"(?>[\w./:=@%+,\-{}*?\[\]~^]++|'[^'\n]*+'|\"(?>[^\"\\$`\n]|\$[A-Za-z_0-9@])*+\"|\$[A-Za-z_0-9@])"
"""A regular expression for a part of a raw word that runs nothing and surely ends where it seems to."""
_VARIABLE = re.compile(r"\$([A-Za-z_]\w*|[0-9@*#?$!_-])", re.ASCII)
_NAMED = r"\$(?>[A-Za-z_][A-Za-z0-9_]*+|[0-9@*#?$!_-])"
_SIMPLE = re.compile(rf"'[^']*'|\"(?:[^\"\\$`]|{_NAMED})*+\"|(?:[\w./:=@%+,\-]|{_NAMED})*+")
_SHORT = 80
"""Characters of a word up to which it is remembered how it is made up."""

USUAL_SEPARATORS: list[Value] = [" \t\n"]


class Variables(Protocol):
    """What these words refer to."""

    def values(self, name: str) -> list[Value] | None:
        """All values the variable may have; None when nothing is known of it."""
        ...

    def spend(self, steps: int) -> None:
        """Count work that is done. Raises when there was too much of it."""


def simply(word: str, scope: Variables) -> str | None:
    """The one text a word stands for; None when it takes more to say."""
    pieces = _known_pieces(word) if len(word) <= _SHORT else _pieces(word)
    if pieces is None:
        return None
    if len(pieces) == 1:
        return pieces[0]
    found = list(pieces)
    steps = 0
    for place in range(1, len(pieces), 2):
        values = scope.values(pieces[place]) or [UNKNOWN]
        only = values[0] if len(values) == 1 else None
        if not isinstance(only, str) or not (word[0] == '"' or _is_one_field(only, scope)):
            return None
        found[place] = only
        steps += len(only) // 16
    text = "".join(found)
    if not text.isascii() and marks.is_special(text):
        return None
    if steps:
        scope.spend(steps)
    return text


def several(word: str, scope: Variables) -> list[str] | None:
    """The few texts a word stands for whose variables have several values; None when it takes more to say."""
    pieces = _known_pieces(word) if len(word) <= _SHORT else _pieces(word)
    if pieces is None:
        return None
    quoted = word[0] == '"'
    if not quoted and scope.values("IFS") != USUAL_SEPARATORS:
        return None
    options: list[list[str]] = [[piece] for piece in pieces]
    steps = 0
    for place in range(1, len(pieces), 2):
        texts: dict[str, None] = {}
        for value in scope.values(pieces[place]) or [UNKNOWN]:
            if not isinstance(value, str) or not (quoted or split(value, " \t\n") == value):
                return None
            texts[value] = None
            steps += len(value) // 16
        options[place] = list(texts)
    if prod([len(each) for each in options]) > FEW:
        return None
    found = ["".join(choice) for choice in product(*options)]
    for text in found:
        if not text.isascii() and marks.is_special(text):
            return None
    if steps:
        scope.spend(steps)
    return found


def _is_one_field(text: str, scope: Variables) -> bool:
    """Whether an unquoted variable with this value is neither split nor compared with files."""
    return scope.values("IFS") == USUAL_SEPARATORS and split(text, " \t\n") == text


def _pieces(word: str) -> tuple[str, ...] | None:
    """The texts of such a word, with the names of the variables between them; None for any other word."""
    if _SIMPLE.fullmatch(word) is None or (not word.isascii() and marks.is_special(word)):
        return None
    if word[:1] == "'":
        return (word[1:-1],)
    return tuple(_VARIABLE.split(word[1:-1] if word[:1] == '"' else word))


_known_pieces = lru_cache(maxsize=4_096)(_pieces)

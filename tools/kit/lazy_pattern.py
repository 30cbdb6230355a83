"""Regular expressions that are compiled when they are first used.

Compiling takes 0.3 ms on average. The modules of a first request hold 400 expressions; it uses few of them.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _LazyPattern:
    def __init__(self, pattern: str, flags: int) -> None:
        self._definition = pattern, flags

    def __getattr__(self, name: str) -> Any:
        # The methods become attributes, so that later calls find them without a detour.
        compiled = re.compile(*self._definition)
        for each in ("search", "match", "fullmatch", "sub", "finditer", "findall", "split", "pattern"):
            setattr(self, each, getattr(compiled, each))
        return getattr(compiled, name)


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a lazily compiled pattern with the methods of `re.Pattern`; functions of `re` do not accept it.

    Raises `re.error` at its first use if `pattern` is malformed.
    """
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))

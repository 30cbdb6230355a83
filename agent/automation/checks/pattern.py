"""Regular expressions of checks: no text that a model wrote keeps a search going for ever.

The module `regex` reads the patterns of Python's `re`, gives a search up after a time, and lets other threads
run meanwhile.
"""

from __future__ import annotations

from tools.text.words import shorten

SECONDS = 5.0
"""How long one search may take."""


class PatternError(Exception):
    """A search could not be ended. The text is a clause with the pattern and why."""


def found(pattern: str, text: str, *, by_line: bool = False) -> bool:
    """Whether a pattern occurs in a text; `by_line`: `^` and `$` match at lines. Raises `PatternError`."""
    import regex

    try:
        flags = regex.MULTILINE if by_line else 0
        return regex.search(pattern, text, flags, timeout=SECONDS, concurrent=True) is not None
    except TimeoutError:
        fault = f"takes more than {SECONDS:g} s on this text; write a simpler one"
    except (regex.error, RecursionError, MemoryError, OverflowError) as error:
        fault = f"cannot be used: {error or type(error).__name__}"
    shown = " ".join(pattern.split())
    raise PatternError(f"the pattern {shorten(shown, 60)} {fault}")

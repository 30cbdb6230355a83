"""Watching the output of a background process for lines worth a notice, without becoming a nuisance."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from tools.results import ToolError

INTERVAL = 15.0
"""Seconds between two notices of one process."""

STRIKES = 3
"""Intervals with suppressed matches after which watching gives way to one notice at the end."""

_LINE = 500
_SHOWN = 300
_REPEATS = 3
_PATTERN = 200
_PLAIN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|(?<=\()\?(?:[:=!]|<[=!]|P<\w+>|[a-zA-Z-]+[:)])", re.DOTALL)
_INNERMOST = re.compile(r"\(([^()]*)\)([*+?{]?)")
_UNBOUNDED = re.compile(r"[*+]|\{\d*,\}")
_REPEATED = "\uffff"


class OutputWatch:
    """Matches lines against patterns; `feed` says what to tell, at most one notice per interval."""

    def __init__(self, patterns: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._patterns = [_compile(pattern) for pattern in patterns if pattern]
        self._clock = clock
        self._next = float("-inf")
        self._suppressed = 0
        self._strikes = 0
        self._struck = False
        self.gave_up = False

    def feed(self, text: str) -> str:
        """The notice that whole lines of `text` call for, or empty."""
        if self.gave_up or not self._patterns:
            return ""
        hits = [line for line in text.splitlines() if any(one.search(line[:_LINE]) for one in self._patterns)]
        if not hits:
            return ""
        now = self._clock()
        if now < self._next:
            return self._suppress(len(hits))
        more = self._suppressed + len(hits) - 1
        if not self._struck:
            self._strikes = 0
        self._next, self._suppressed, self._struck = now + INTERVAL, 0, False
        return hits[0][:_SHOWN] + (f" (and {more} more matching lines)" if more else "")

    def _suppress(self, count: int) -> str:
        self._suppressed += count
        if self._struck:
            return ""
        self._struck = True
        self._strikes += 1
        if self._strikes < STRIKES:
            return ""
        self.gave_up = True
        return "its output matches too often; from now on there is one notice when it ends"


def _compile(pattern: str) -> re.Pattern[str]:
    """`pattern` as a regular expression, or literally where it is none.

    Matching happens on a thread of ours and cannot be interrupted, so patterns
    that may take for ever are refused.
    """
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return re.compile(re.escape(pattern))
    if _may_take_for_ever(pattern):
        raise ToolError(
            f"The watch pattern {pattern!r} repeats too much to be safe; use plain text or a simpler one."
        )
    return compiled


def _may_take_for_ever(pattern: str) -> bool:
    """Whether backtracking could explode: too many repeats, or a repeated group with a choice in it."""
    text = _PLAIN.sub("x", pattern)
    if len(pattern) > _PATTERN or len(_UNBOUNDED.findall(text)) > _REPEATS:
        return True
    while (group := _INNERMOST.search(text)) is not None:
        has_choice = any(sign in group[1] for sign in f"*+?{{|{_REPEATED}")
        if has_choice and group[2] in ("*", "+", "{"):
            return True
        text = text[: group.start()] + (_REPEATED if has_choice else "x") + group[2] + text[group.end() :]
    return False

"""Diagnostics as data: read from what a server sent, compared, and put into words. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.text.words import brief

MOST_SHOWN = 10
"""Findings of one edit that are told; the rest is counted."""
MOST_KEPT = 2_000
"""Findings of one file that are read."""
_MESSAGE = 300
_WORDS = {1: "error", 2: "warning"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing a server found. Line and column count from 1."""

    line: int
    column: int
    severity: int
    """1: error, 2: warning."""
    message: str
    origin: str
    """Who found it, with the name of its rule."""

    @property
    def kind(self) -> tuple[int, str, str]:
        """What stays the same when lines above it come or go."""
        return self.severity, self.message, self.origin

    def words(self, path: str) -> str:
        """`src/a.py:3:5 error: it is not defined [Pyright reportUndefined]`."""
        origin = f" [{self.origin}]" if self.origin else ""
        return f"{path}:{self.line}:{self.column} {_WORDS[self.severity]}: {self.message}{origin}"


def findings_of(items: Any) -> tuple[Finding, ...]:
    """Errors and warnings in a list of diagnostics; what is malformed, or merely a hint, is left out."""
    if not isinstance(items, list):
        return ()
    read = (_finding(item) for item in items[:MOST_KEPT])
    return tuple(each for each in read if each is not None)


def _finding(item: Any) -> Finding | None:
    if not isinstance(item, Mapping) or not isinstance(item.get("message"), str):
        return None
    severity = item.get("severity", 1)
    if severity not in _WORDS:
        return None
    try:
        start = item["range"]["start"]
        line, column = int(start["line"]) + 1, int(start["character"]) + 1
    except (KeyError, TypeError, ValueError):
        return None
    code = item.get("code")
    origin = " ".join(str(part) for part in (item.get("source"), code) if isinstance(part, str | int))
    return Finding(
        line=line,
        column=column,
        severity=severity,
        message=brief(item["message"][: 4 * _MESSAGE], _MESSAGE),
        origin=brief(origin[:320]),
    )


def news(before: Iterable[Finding], after: Iterable[Finding]) -> list[Finding]:
    """What is found after an edit and was not before, errors first; where lines moved does not matter."""
    known = Counter(each.kind for each in before)
    fresh: list[Finding] = []
    for each in sorted(after, key=lambda each: (each.line, each.column)):
        if known[each.kind] > 0:
            known[each.kind] -= 1
        else:
            fresh.append(each)
    return sorted(fresh, key=lambda each: each.severity)


def report(found: Sequence[tuple[str, Finding]], pending: Sequence[str]) -> dict[str, Any] | None:
    """What the result of an edit says: findings by path, and servers that are not ready yet."""
    said: dict[str, Any] = {}
    if found:
        ordered = sorted(found, key=lambda each: each[1].severity)
        said["new"] = [finding.words(path) for path, finding in ordered[:MOST_SHOWN]]
        if len(ordered) > MOST_SHOWN:
            said["more"] = len(ordered) - MOST_SHOWN
    if pending:
        said["still_running"] = list(pending)
    return said or None

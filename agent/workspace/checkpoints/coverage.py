"""Gaps in what a step, or the register, can vouch for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent.workspace.checkpoints.entries import NAMED, Coverage, LeftOut, PathChange
from agent.workspace.checkpoints.manifest import KnownPath

_SINGLY = 3
"""Paths of one kind in one folder that are named one by one."""


def coverage_of(
    changes: Iterable[PathChange], closed: Iterable[LeftOut], taken_along: Iterable[LeftOut]
) -> Coverage:
    """What changes leave open. Pure.

    `closed`: folders not looked into; `taken_along`: what is gone for good.
    """
    left = [*taken_along, *closed]
    for change in changes:
        for entry in (change.before, change.after):
            if entry is not None and not entry.kept:
                left.append(LeftOut(change.path, entry.reason or "is no file"))
                break
    return _named(left)


class Uncovered:
    """What could not be taken back if it were changed now, kept up to date path by path.

    A change of one path costs the same in any workspace: paths are held by the folder at
    the top and the reason, and only these groups are gone through for the coverage.
    """

    def __init__(self, known: Mapping[str, KnownPath] | None = None) -> None:
        self._groups: dict[tuple[str, str], dict[str, None]] = {}
        self._reasons: dict[str, str] = {}
        for path, each in (known or {}).items():
            self.note(path, each)

    def note(self, path: str, known: KnownPath | None) -> None:
        """What stands at `path` now; None where nothing does."""
        before = self._reasons.pop(path, None)
        if before is not None:
            group = self._groups[_top(path), before]
            del group[path]
            if not group:
                del self._groups[_top(path), before]
        entry = known.entry if known is not None else None
        if known is None or entry is None or known.blob or entry.kept:
            return
        reason = self._reasons[path] = entry.reason or "is no file"
        self._groups.setdefault((_top(path), reason), {})[path] = None

    def coverage(self, closed: Iterable[LeftOut]) -> Coverage:
        """All of it, with the folders in `closed`; many paths of one kind stand for each other."""
        left = list(closed)
        for (top, reason), paths in self._groups.items():
            if len(paths) <= _SINGLY:
                left += [LeftOut(path, reason) for path in paths]
            else:
                left.append(LeftOut(top, f"{len(paths):,} files: {reason}"))
        return _named(left)


def _top(path: str) -> str:
    return path.split("/", 1)[0]


def _named(left: list[LeftOut]) -> Coverage:
    return Coverage(tuple(left[:NAMED]), max(0, len(left) - NAMED))

"""What a step, or the register as it stands, cannot vouch for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent.workspace.checkpoints.entries import NAMED, Change, Coverage, LeftOut
from agent.workspace.checkpoints.manifest import GIT, Known

_SINGLY = 3
"""Paths of one kind in one folder that are named one by one."""


def coverage_of(
    changes: Iterable[Change], closed: Iterable[LeftOut], taken_along: Iterable[LeftOut]
) -> Coverage:
    """What changes leave open. `closed`: folders not looked into; `taken_along`: what is gone for good."""
    left = [*taken_along, *(item for item in closed if item.reason != GIT)]
    for change in changes:
        for entry in (change.before, change.after):
            if entry is not None and not entry.kept:
                left.append(LeftOut(change.path, entry.reason or "is no file"))
                break
    return _named(left)


def left_out_of(known: Mapping[str, Known], closed: Iterable[LeftOut]) -> Coverage:
    """What could not be taken back if it were changed now; many paths of one kind stand for each other."""
    left = list(closed)
    groups: dict[tuple[str, str], list[str]] = {}
    for path, each in known.items():
        entry = each.entry
        if entry is not None and not each.blob and not entry.kept:
            groups.setdefault((path.split("/", 1)[0], entry.reason or "is no file"), []).append(path)
    for (top, reason), paths in groups.items():
        if len(paths) <= _SINGLY:
            left += [LeftOut(path, reason) for path in paths]
        else:
            left.append(LeftOut(top, f"{len(paths):,} files: {reason}"))
    return _named(left)


def _named(left: list[LeftOut]) -> Coverage:
    return Coverage(tuple(left[:NAMED]), max(0, len(left) - NAMED))

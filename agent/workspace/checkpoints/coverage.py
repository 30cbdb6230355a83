"""Coverage: what a step, or the register of files, cannot restore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.workspace.checkpoints.entries import NAMED, Coverage, KnownPath, LeftOut, PathChange
from agent.workspace.git import common_folder, git_folder, top_folder
from tools.text.words import plural

_SINGLY = 3
"""The number of paths of one kind in one folder up to which each is named."""


def coverage_of(
    changes: Iterable[PathChange], closed: Iterable[LeftOut], taken_along: Iterable[LeftOut]
) -> Coverage:
    """Return which parts of these changes cannot be restored.

    `closed` are folders that were not read, `taken_along` objects that are permanently lost.
    """
    left = [*taken_along, *closed]
    for change in changes:
        for entry in (change.before, change.after):
            if entry is not None and not entry.is_restorable:
                left.append(LeftOut(change.path, entry.reason or "is not a file"))
                break
    return _with_names(left)


class Uncovered:
    """The paths that could not be restored if they changed now. The set is updated path by path.

    Updating one path costs the same in any workspace: paths are grouped by top folder and reason, and only
    the groups are read for the coverage.
    """

    def __init__(self, known: Mapping[str, KnownPath] | None = None) -> None:
        self._groups: dict[tuple[str, str], dict[str, None]] = {}
        self._reasons: dict[str, str] = {}
        for path, each in (known or {}).items():
            self.note(path, each)

    def note(self, path: str, known: KnownPath | None) -> None:
        """Record the current state of `path`; None means that nothing exists there."""
        before = self._reasons.pop(path, None)
        if before is not None:
            group = self._groups[_top(path), before]
            del group[path]
            if not group:
                del self._groups[_top(path), before]
        entry = known.entry if known is not None else None
        if known is None or entry is None or known.blob or entry.is_restorable:
            return
        reason = self._reasons[path] = entry.reason or "is not a file"
        self._groups.setdefault((_top(path), reason), {})[path] = None

    def coverage(self, closed: Iterable[LeftOut]) -> Coverage:
        """Return the coverage, with the unread folders in `closed`; many paths of one kind are summarised."""
        left = list(closed)
        for (top, reason), paths in self._groups.items():
            if len(paths) <= _SINGLY:
                left += [LeftOut(path, reason) for path in paths]
            else:
                left.append(LeftOut(top, f"{plural(len(paths), 'file')}: {reason}"))
        return _with_names(left)


def _top(path: str) -> str:
    return path.split("/", 1)[0]


def _with_names(left: list[LeftOut]) -> Coverage:
    return Coverage(tuple(left[:NAMED]), max(0, len(left) - NAMED))


NO_REPOSITORY = "there is no repository"
ABOVE = "the repository begins above the workspace"
ELSEWHERE = "the repository of this work tree is outside of the workspace"
UNKEPT = "what happens to files is not kept"


@dataclass(frozen=True, slots=True)
class GitCoverage:
    """The kinds of git data in one repository that undo can restore."""

    state: bool
    """True for HEAD, refs, reflogs, stash, the index, settings, hooks, and unfinished operations."""
    history: bool
    """True for commits and contents that nothing refers to any more, whatever git removes."""
    reason: str = ""
    """The reason why it is incomplete, as a clause for the user; empty if complete."""

    @property
    def whole(self) -> bool:
        """Return whether `git reset --hard`, `rebase`, `branch -D`, `stash drop` and so on can be undone."""
        return self.state and self.history


def git_coverage(workspace: Path, folder: Path, coverage: Coverage | None) -> GitCoverage:
    """Return what undo covers in the repository that contains `folder`. Both paths must be resolved.

    `coverage` is that of the recorder of `workspace`; None if steps are not recorded. Data sent elsewhere
    (`git push`) and other work trees are never covered. Checks a few names on the disk; never raises.
    """
    if coverage is None:
        return GitCoverage(state=False, history=False, reason=UNKEPT)
    try:
        top = top_folder(folder)
        git = git_folder(top) if top is not None else None
        if top is None or git is None:
            return GitCoverage(state=False, history=False, reason=NO_REPOSITORY)
        place = common_folder(git).resolve()
        if not top.is_relative_to(workspace):
            return GitCoverage(state=False, history=False, reason=ABOVE)
        if not place.is_relative_to(workspace) or (top / ".git").is_symlink():
            return GitCoverage(state=False, history=False, reason=ELSEWHERE)
    except (OSError, RuntimeError) as error:
        return GitCoverage(state=False, history=False, reason=f"it cannot be looked at: {error}")
    state, history = place.relative_to(workspace).as_posix(), ""
    for item in coverage.left_out:
        path = item.path.rstrip("/")
        if path in (state, ".", "") or state.startswith(f"{path}/"):
            return GitCoverage(state=False, history=False, reason=item.reason)
        if path == f"{state}/objects":
            history = f"its history {item.reason}"
        elif path.startswith(f"{state}/"):
            return GitCoverage(state=False, history=not history, reason=f"{path} {item.reason}")
    return GitCoverage(state=True, history=not history, reason=history)

"""Guarded places that a program changed on its own: what is taken back, and what is only told.

The boundary lays what stands there read-only; a name at which nothing stands, or what git brings along,
it cannot keep from programs. So each step of a program is looked through when it has ended. A change
that nobody said yes to goes back before anything else runs, and a person is asked whether to keep it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from agent.safety.git_programs import file_names_programs, hooks_of_mercurial
from agent.safety.guarded import known_name, led_to
from agent.safety.reader.tree import words
from agent.workspace.checkpoints.entries import PathKind, is_outside
from agent.workspace.checkpoints.git_settings import listed, passes
from tools.kit.files import read_bytes

if TYPE_CHECKING:
    from agent.workspace.checkpoints.entries import PathChange, PathEntry, Step

SHOWN = 5
"""Paths that are named; the rest is counted."""
_SHORT = 4_096
_DEPENDENCIES = words(
    "node_modules bower_components site-packages dist-packages .venv venv .tox .nox __pycache__ vendor target"
)
"""Folders whose programs every program can change anyway, and which package managers fill."""
_FILLED = frozenset({(".yarn", "cache"), (".yarn", "unplugged"), (".husky", "_")})
_STATE = frozenset({(".yarn", "install-state.gz"), (".yarn", "build-state.yml")})


@dataclass(frozen=True, slots=True)
class GuardedChanges:
    """What a step of a program did to guarded places, by paths relative to the workspace, in order."""

    changes: tuple[PathChange, ...] = ()
    brought: tuple[str, ...] = ()
    """What came with a repository that was fetched as a whole into a folder of its own: only told."""

    @property
    def made(self) -> tuple[str, ...]:
        """To be taken back."""
        return _paths(self.changes)

    def without(self, known: frozenset[str]) -> GuardedChanges:
        """The same without what git brought from commits that are not the agent's own."""
        above = {folder for path in known for folder in _above(path)}
        rest = tuple(change for change in self.changes if change.path not in known | above)
        return replace(self, changes=rest if any(not _is_folder(change) for change in rest) else ())


def guarded_changes(step: Step, allowed: Collection[Path] = ()) -> GuardedChanges:
    """Guarded paths that a program changed in this step. Reads settings of git that are new.

    `allowed` are places that a person said yes to in the same call; a folder stands for all below it.
    """
    if step.kind not in ("command", "outside"):
        return GuardedChanges()
    root = Path(step.root)
    fetched = tuple(_fetched(step.changes, root))
    removed = {each.path for each in step.changes if each.after is None and _is_folder(each)}
    led = tuple(f"{real}/" for real in led_to(root))
    made: list[PathChange] = []
    brought: list[PathChange] = []
    for change in step.changes:
        if (
            is_outside(change.path)
            or not (_is_guarded(change, root) or f"{root}/{change.path}/".startswith(led))
            or (change.after is None and _went_along(change.path, removed))
            or _is_allowed(root / change.path, allowed)
        ):
            continue
        came_along = change.path.startswith(fetched) and ".git" not in change.path.split("/")
        (brought if came_along else made).append(change)
    return GuardedChanges(tuple(made), _paths(brought))


def _paths(changes: Sequence[PathChange]) -> tuple[str, ...]:
    """The paths of the changes, without folders in which nothing else was changed."""
    used = {folder for change in changes if not _is_folder(change) for folder in _above(change.path)}
    return tuple(change.path for change in changes if not _is_folder(change) or change.path in used)


def _is_folder(change: PathChange) -> bool:
    return PathKind.FOLDER in (
        each.kind if each is not None else None for each in (change.before, change.after)
    )


def _above(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path


def _fetched(changes: Sequence[PathChange], root: Path) -> Iterator[str]:
    """Folders (with a slash) that are repositories of their own and have nothing in them but what is new."""
    new = {change.path for change in changes if change.before is None}
    for path in new:
        folder, _, name = path.rpartition("/")
        if name == ".git" and folder and (folder in new or _had_nothing(folder, new, root)):
            yield f"{folder}/"


def _had_nothing(folder: str, new: Collection[str], root: Path) -> bool:
    try:
        return all(f"{folder}/{each.name}" in new for each in (root / folder).iterdir())
    except OSError:
        return False


def _is_guarded(change: PathChange, root: Path) -> bool:
    names = tuple(change.path.split("/"))
    if not _DEPENDENCIES.isdisjoint(names):
        return False
    if ".git" in names:
        return _runs_programs(names[names.index(".git") + 1 :], change, root)
    pairs = set(pairwise(names))
    if pairs & _FILLED or names[-2:] in _STATE:
        return False
    if names[-1] == ".gitmodules" and change.after is not None and change.after.kind is PathKind.FILE:
        return not _runs_nothing(root / change.path)
    if names[-2:] == (".hg", "hgrc") and change.after is not None and change.after.kind is PathKind.FILE:
        return hooks_of_mercurial(root / change.path)
    # A link in place of a folder brings all that the folder holds where it leads.
    return known_name(change.path, whole=is_link(change.after)) is not None


def is_link(entry: PathEntry | None) -> bool:
    """Whether a link stands there."""
    return entry is not None and entry.kind is PathKind.LINK


def _runs_nothing(modules: Path) -> bool:
    """Whether all that a file says of submodules is where they are, and of where they come from."""
    try:
        return all(passes(key, value) for key, values in listed(modules).items() for value in values)
    except OSError:
        return False


def _runs_programs(inside: tuple[str, ...], change: PathChange, root: Path) -> bool:
    """Whether a change in git's own folder has it run something: a hook, or settings that name programs."""
    if change.after is None or change.after.kind is PathKind.FOLDER:
        return False
    if "hooks" in inside[:-1]:
        return not inside[-1].endswith(".sample")
    if inside[-1:] == ("commondir",):
        # That of a linked work tree leads to the repository it belongs to, and any other one elsewhere.
        return inside[-3:-2] != ("worktrees",) or _text(root / change.path) != "../.."
    return inside[-1:] in (("config",), ("config.worktree",)) and file_names_programs(root / change.path)


def _text(path: Path) -> str:
    try:
        return os.fsdecode(read_bytes(path, _SHORT)[0]).strip()
    except OSError:
        return ""


def _went_along(path: str, removed: Collection[str]) -> bool:
    """Whether it was deleted with a folder around it that does not stand for it."""
    return any(each in removed and known_name(each, whole=True) is None for each in _above(path))


def _is_allowed(path: Path, allowed: Collection[Path]) -> bool:
    return any(path.is_relative_to(each) or each.is_relative_to(path) for each in allowed)


def named(paths: Sequence[str]) -> str:
    """Some of the paths, for a sentence."""
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return f"{', '.join(paths[:SHOWN])}{more}"

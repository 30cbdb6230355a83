"""Summaries of changes in units on one line: `git: main 3f2a1c → 9be044, 2 refs`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind, Step, UnitMark
from agent.workspace.checkpoints.git_refs import COMMIT, HEAD, holds_refs
from agent.workspace.checkpoints.unit_marks import changed_sides, is_folder, ref_changes, units_of
from agent.workspace.checkpoints.units import NO_UNITS, Units, kinds
from tools.text.safe_text import clean
from tools.text.words import plural

Read = Callable[[str], bytes]
"""A function that returns contents by digest; may raise `OSError` or `HermesError` if they are gone."""

Refs = Mapping[str, tuple[str, str]]
"""The values of refs before and after a change, by name; see `git_refs`."""

SHORT = 6
"""The number of digits shown of a commit id."""
_UNDER_WAY = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}
_SETTINGS = {"config": "settings", "config.worktree": "settings", "hooks": "hooks", "info": "info"}


@dataclass(frozen=True, slots=True)
class GitApart:
    """The changes of a step, divided into those to workspace files and those inside units."""

    files: tuple[PathChange, ...]
    git: tuple[PathChange, ...]


def git_apart(changes: Iterable[PathChange], units: Units = NO_UNITS) -> GitApart:
    """Divide changes into those to workspace files and those inside units."""
    files: list[PathChange] = []
    git: list[PathChange] = []
    for change in changes:
        (git if (_told_as_one(change) or units.part(change.path) is not None) else files).append(change)
    return GitApart(tuple(files), tuple(git))


def step_apart(step: Step) -> GitApart:
    """Divide the changes of a step into those to workspace files and those inside units."""
    return git_apart(step.changes, units_of((step,)))


def step_names(step: Step) -> tuple[str, ...]:
    """Return a step's changes for the user: the paths of files, and one line for all of git."""
    return (*step_paths(step), *([step.git] if step.git else []))


def step_paths(step: Step) -> tuple[str, ...]:
    """Return the paths a step changed outside of units, without folders that only hold other such paths."""
    files = step_apart(step).files
    holders = {str(above) for change in files for above in PurePosixPath(change.path).parents}
    return tuple(
        change.path
        for change in files
        if change.path not in holders
        or any(entry and entry.kind is not PathKind.FOLDER for entry in (change.before, change.after))
    )


def gather_units(
    changes: Sequence[PathChange], read: Read, units: Units = NO_UNITS
) -> tuple[PathChange, ...]:
    """Return the changes, with all changes inside a unit replaced by one that describes them."""
    apart = git_apart(changes, units)
    folders = dict.fromkeys(found.root for each in apart.git if (found := units.part(each.path)))
    gathered = [repository_change(folder, apart.git, read, units) for folder in folders]
    return tuple(sorted((*apart.files, *gathered), key=lambda change: change.path))


def repository_change(
    folder: str,
    changes: Sequence[PathChange],
    read: Read,
    units: Units = NO_UNITS,
    refs: Refs | None = None,
) -> PathChange:
    """Return one change that describes all changes in a unit's folder; for `refs` see `git_line`."""
    inside = [each for each in changes if (part := units.part(each.path)) and part.root == folder]
    line = git_line(inside, read, units, None if refs is None else {folder: refs})
    told = PathEntry(PathKind.OTHER, 0, reason=line.partition(": ")[2])
    return PathChange(folder, told, replace(told, target="now"))


def git_line(
    changes: Sequence[PathChange],
    read: Read,
    units: Units = NO_UNITS,
    refs: Mapping[str, Refs] | None = None,
) -> str:
    """Return the changes in units as one line; empty if there are none.

    `refs` are the changes to refs by repository, if more is known than `changes` shows.
    """
    groups: dict[str, list[tuple[str, PathChange]]] = {}
    for change in changes:
        if (part := units.part(change.path)) is not None:
            rest = change.path.removeprefix(f"{part.root}/") if change.path != part.root else ""
            groups.setdefault(part.root, []).append((rest, change))
    known = ref_changes(changes, units, *changed_sides(changes, read)) if refs is None else refs
    lines = []
    for folder, inside in sorted(groups.items()):
        place = folder.rpartition("/")[0]
        kind = units.kind(folder)
        name = kinds()[kind].told
        what = ", ".join(_ref_words(inside, known.get(folder, {})) if kind == "git" else _of_unit(inside))
        lines += [f"{name}{f' in {clean(place)}' if place else ''}: {what}"] if what else []
    return "; ".join(lines)


def marked_line(changes: Sequence[PathChange], read: Read, marks: Mapping[str, UnitMark]) -> str:
    """Return one line that describes the changes of a step inside units, using their recorded `marks`."""
    units = Units({place: mark.kind for place, mark in marks.items()})
    return git_line(changes, read, units, {place: mark.refs for place, mark in marks.items()})


def _of_unit(inside: Sequence[tuple[str, PathChange]]) -> list[str]:
    whole = next((change for rest, change in inside if not rest), None)
    if whole is not None and (whole.before is None or whole.after is None):
        return ["made" if whole.before is None else "removed"]
    return ["changed"]


def _ref_words(inside: Sequence[tuple[str, PathChange]], refs: Refs) -> list[str]:
    files = {rest: change for rest, change in inside if not is_folder(change)}
    whole = next((change for rest, change in inside if not rest), None)
    if whole is not None and (whole.before is None or whole.after is None):
        return ["repository " + ("made" if whole.before is None else "removed")]
    moved = {name: pair for name, pair in refs.items() if pair[0] != pair[1] and not name.endswith(COMMIT)}
    told = [f"{_where(moved[HEAD][0])} → {_where(moved[HEAD][1])}"] if HEAD in moved else []
    branches = sorted(name for name in moved if name.startswith("refs/heads/"))
    told += [_describe_move(name.removeprefix("refs/heads/"), *moved[name]) for name in branches[:1]]
    others = len(branches[1:]) + sum(
        name.startswith("refs/") and not name.startswith("refs/heads/") and name != "refs/stash"
        for name in moved
    )
    told += ["stash"] if "refs/stash" in moved or "logs/refs/stash" in files else []
    told += [plural(others, "more ref") if branches else plural(others, "ref")] if others else []
    first = {rest.partition("/")[0] for rest in files}
    told += dict.fromkeys(_UNDER_WAY[name] for name in sorted(first & _UNDER_WAY.keys()))
    told += dict.fromkeys(_SETTINGS[name] for name in sorted(first & _SETTINGS.keys()))
    told += ["submodules"] if "modules" in first else []
    told += ["work trees"] if "worktrees" in first else []
    if told:
        return told
    packed = all(holds_refs(rest) for rest in files)
    return ["index"] if "index" in files else ["refs packed"] if packed and files else ["notes"]


def _where(value: str) -> str:
    if value.startswith("ref: "):
        return "on " + clean(value.removeprefix("ref: ").removeprefix("refs/heads/"))
    return f"at {value[:SHORT]}" if value else "nowhere"


def _describe_move(name: str, before: str, after: str) -> str:
    one, other = clean(before)[:SHORT], clean(after)[:SHORT]
    if not before:
        return f"{clean(name)} new at {other}"
    if not after:
        return f"{clean(name)} gone from {one}"
    return f"{clean(name)} {one} → {other}"


def _told_as_one(change: PathChange) -> bool:
    return change.after is not None and change.after.kind is PathKind.OTHER and change.after.target == "now"

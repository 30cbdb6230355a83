"""Changes of a repository in one plain line: `git: main 3f2a1c → 9be044, 2 refs`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind, Step
from agent.workspace.checkpoints.git_paths import split
from tools.safe_text import clean

Read = Callable[[str], bytes]
"""Contents by digest; may raise `OSError` or `HermesError` where they are gone."""

SHORT = 6
"""Digits of a commit that are shown."""
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MOST = 65_536
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
    """Changes of a step, those of git apart."""

    files: tuple[PathChange, ...]
    git: tuple[PathChange, ...]


def of_git(change: PathChange) -> bool:
    """Whether a change lies within a folder of git."""
    return split(change.path) is not None


def git_apart(changes: Iterable[PathChange]) -> GitApart:
    """Changes of files of the workspace, and those within folders of git."""
    files: list[PathChange] = []
    git: list[PathChange] = []
    for change in changes:
        (git if of_git(change) else files).append(change)
    return GitApart(tuple(files), tuple(git))


def step_names(step: Step) -> tuple[str, ...]:
    """What a step changed, for a person: the paths of files, and all of git as one line."""
    return (*(change.path for change in git_apart(step.changes).files), *([step.git] if step.git else []))


def gathered(changes: Sequence[PathChange], read: Read) -> tuple[PathChange, ...]:
    """The same with one change for each repository, in which nothing but what to say of it is told."""
    apart = git_apart(changes)
    folders = dict.fromkeys(found[0] for each in apart.git if (found := split(each.path)))
    gathered = [repository_change(folder, apart.git, read) for folder in folders]
    return tuple(sorted((*apart.files, *gathered), key=lambda change: change.path))


def repository_change(folder: str, changes: Sequence[PathChange], read: Read) -> PathChange:
    """One change that stands for all in a folder of git."""
    inside = [each for each in changes if (split(each.path) or ("", ""))[0] == folder]
    told = PathEntry(PathKind.OTHER, 0, reason=git_line(inside, read).partition(": ")[2])
    return PathChange(folder, told, replace(told, target="now"))


def git_line(changes: Sequence[PathChange], read: Read) -> str:
    """What changes did to repositories; empty where they did nothing."""
    repositories: dict[str, list[tuple[str, PathChange]]] = {}
    for change in changes:
        found = split(change.path)
        if found is not None:
            repositories.setdefault(found[0], []).append((found[1], change))
    lines = []
    for folder, inside in sorted(repositories.items()):
        place = folder.rpartition("/")[0]
        what = ", ".join(_told(inside, read))
        lines.append(f"git{f' in {clean(place)}' if place else ''}: {what}")
    return "; ".join(lines)


def _told(inside: Sequence[tuple[str, PathChange]], read: Read) -> list[str]:
    files = {rest: change for rest, change in inside if not _is_folder(change)}
    whole = next((change for rest, change in inside if not rest), None)
    if whole is not None and (whole.before is None or whole.after is None):
        return ["repository " + ("made" if whole.before is None else "removed")]
    told = _head(files.get("HEAD"), read)
    branches = [rest for rest in files if rest.startswith("refs/heads/")]
    for rest in branches[:1]:
        told.append(_moved(rest.removeprefix("refs/heads/"), files[rest], read))
    others = len(branches[1:]) + sum(
        rest.startswith("refs/") and not rest.startswith("refs/heads/") and rest != "refs/stash"
        for rest in files
    )
    told += ["stash"] if "refs/stash" in files or "logs/refs/stash" in files else []
    told += [f"{others:,} more ref{'s' * (others != 1)}" if branches else _refs(others)] if others else []
    told += ["packed refs"] if "packed-refs" in files and not told else []
    first = {rest.partition("/")[0] for rest in files}
    told += dict.fromkeys(_UNDER_WAY[name] for name in sorted(first & _UNDER_WAY.keys()))
    told += dict.fromkeys(_SETTINGS[name] for name in sorted(first & _SETTINGS.keys()))
    told += ["submodules"] if "modules" in first else []
    told += ["work trees"] if "worktrees" in first else []
    return told or (["index"] if "index" in files else ["notes"])


def _refs(count: int) -> str:
    return f"{count:,} ref{'s' * (count != 1)}"


def _head(change: PathChange | None, read: Read) -> list[str]:
    if change is None:
        return []
    one, other = (_where(entry, read) for entry in (change.before, change.after))
    return [f"{one} → {other}"] if one != other else []


def _where(entry: PathEntry | None, read: Read) -> str:
    text = _text(entry, read)
    if text.startswith("ref:"):
        return "on " + clean(text.removeprefix("ref:").strip().removeprefix("refs/heads/"))
    return f"at {text[:SHORT]}" if _ID.fullmatch(text) else "nowhere"


def _moved(name: str, change: PathChange, read: Read) -> str:
    one, other = (_text(entry, read)[:SHORT] for entry in (change.before, change.after))
    if change.before is None:
        return f"{clean(name)} new at {other}"
    if change.after is None:
        return f"{clean(name)} gone from {one}"
    return f"{clean(name)} {one} → {other}"


def _text(entry: PathEntry | None, read: Read) -> str:
    if entry is None or entry.digest is None or entry.size > _MOST:
        return ""
    try:
        return read(entry.digest).decode("utf-8", "replace").strip()
    except Exception:
        return ""


def _is_folder(change: PathChange) -> bool:
    return PathKind.FOLDER in (change.before and change.before.kind, change.after and change.after.kind)

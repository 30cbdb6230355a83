"""Tells paths that belong to git, and those of them that are files of a step. Pure."""

from __future__ import annotations

GIT = "belongs to git"
"""Why a folder of objects is not looked into: they are kept by name (see `git_keep`)."""
_NAME = ".git"
_STATES = frozenset(
    {"refs", "logs", "hooks", "info", "worktrees", "rebase-merge", "rebase-apply", "sequencer"}
)
_STORES = frozenset({"objects", "lfs", "annex"})
_PASSING = frozenset({"gc.pid", "fsmonitor--daemon", "fsmonitor--daemon.ipc"})
_SINGLY = frozenset({"hooks", "info", "config", "config.worktree", "description"})
_NOTES = frozenset({"FETCH_HEAD", "COMMIT_EDITMSG", "gc.log"})


def split(path: str) -> tuple[str, str] | None:
    """The folder of git a path lies in (`.git`, `lib/.git`) and the rest; None for one outside of git.

    The rest is empty for that folder itself, or for a `.git` that is a file.
    """
    if ".git" not in path and ".git" not in path.casefold():
        return None
    parts = path.split("/")
    for at, part in enumerate(parts):
        if part.casefold() == _NAME:
            return "/".join(parts[: at + 1]), "/".join(parts[at + 1 :])
    return None


def is_name(name: str) -> bool:
    """Whether something of that name is what git keeps its things in."""
    return len(name) == len(_NAME) and name.casefold() == _NAME


def uncovered(path: str) -> str:
    """Why no checkpoint ever covers this path; empty when one may."""
    found = split(path)
    if found is None or not found[1]:
        return ""
    parts = found[1].split("/")
    if parts[-1].endswith(".lock") or parts[-1] in _PASSING:
        return "is git's for a moment only"
    for part in parts:
        if part in _STORES or part in _PASSING:
            return GIT
        if part in _STATES:
            break
    return ""


def is_index(path: str) -> bool:
    """Whether a path is an index: that of a repository, of a work tree or of a submodule."""
    found = split(path)
    return found is not None and found[1].rpartition("/")[2] == "index" and not _within_states(found[1])


def stands_alone(rest: str) -> bool:
    """Whether a file of git goes back by itself: settings and hooks.

    All others tell together where a repository stands, and go back together or not at all.
    """
    first = rest.split("/")[0]
    return first in _SINGLY


def is_note(path: str) -> bool:
    """Whether a file of git is one that nothing depends on, such as the message of the last commit."""
    found = split(path)
    return found is not None and found[1] in _NOTES


def repository(path: str) -> str:
    """The folder of git whose standing the path tells together with others; empty for any other path."""
    found = split(path)
    return found[0] if found is not None and found[1] and not stands_alone(found[1]) else ""


def _within_states(rest: str) -> bool:
    parts = rest.split("/")[:-1]
    return any(part in _STATES - {"worktrees"} for part in parts)

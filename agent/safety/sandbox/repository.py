"""The parts of a repository that git needs inside, and those that must not change: they name programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent.workspace.placeholders import is_missing

_RUNS_PROGRAMS = ("hooks", "config", "config.worktree", "commondir")
_HARMLESS = {"commondir": b".\n"}
"""The repository is its own common folder; an empty file would stop git."""
_LONGEST = 4096
"""Bytes read of a file that holds one path."""


@dataclass(frozen=True, slots=True)
class Repository:
    """The folders of a repository: `store` is written by git, `guarded` is what tells git to run programs."""

    store: tuple[Path, ...]
    guarded: tuple[Path, ...]

    def gaps(self) -> tuple[list[Path], dict[Path, bytes]]:
        """Folders and files of `guarded` that are missing, the files with a content that means nothing."""
        missing = [path for path in self.guarded if is_missing(path)]
        files = {path: _HARMLESS.get(path.name, b"") for path in missing if path.name != "hooks"}
        return [path for path in missing if path not in files], files


NONE = Repository((), ())


def repository_of(workspace: Path) -> Repository:
    """The repository that holds `workspace`, if git works in it with the rights of this user.

    A work tree beside its repository counts only when the repository points back at it: what stands
    in the workspace alone could have been written to open another folder.
    """
    for folder in (workspace, *workspace.parents):
        marker = folder / ".git"
        if marker.is_symlink():
            return NONE
        if marker.is_dir():
            return _plain(marker)
        if marker.is_file():
            return _linked(marker)
    return NONE


def _plain(store: Path) -> Repository:
    if not (store / "HEAD").exists():
        return NONE
    guarded = [store / name for name in _RUNS_PROGRAMS]
    modules = store / "modules"
    if modules.is_dir() and not modules.is_symlink():
        guarded += [module / name for module in modules.iterdir() for name in ("hooks", "config")]
    return Repository((store,), tuple(guarded))


def _linked(marker: Path) -> Repository:
    named = _line(marker)
    if not named.startswith("gitdir: "):
        return NONE
    own = (marker.parent / named.removeprefix("gitdir: ")).resolve()
    back, common = _line(own / "gitdir"), _line(own / "commondir")
    if not back or not common or (own / back).resolve() != marker.resolve():
        return NONE
    store = (own / common).resolve()
    if own.parent != store / "worktrees":
        return NONE
    plain = _plain(store)
    return Repository(plain.store, (*plain.guarded, marker, own / "config.worktree", own / "commondir"))


def _line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_LONGEST).strip()
    except OSError:
        return ""

"""The parts of a repository that git needs inside, and those that must not change: they name programs."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.workspace.placeholders import is_missing

_RUNS_PROGRAMS = ("hooks", "config", "config.worktree", "commondir")
_HARMLESS = {"commondir": b".\n"}
"""The repository is its own common folder; an empty file would stop git."""
_LONGEST = 4096
"""Bytes read of a file that holds one path, or of a configuration."""
_INDEX = 65_536
_MOST = 64
_WORD = 0xFFFFFFFF
_WORK_TREE = re.compile(r"^\[core\][^\[]*?^\s*worktree\s*=\s*(.+)$", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Repository:
    """The folders of a repository: `store` is written by git, `guarded` is what tells git to run programs."""

    store: tuple[Path, ...]
    guarded: tuple[Path, ...]
    alternates: tuple[Path, ...] = ()
    """Folders that git reads objects from besides."""

    def gaps(self) -> tuple[list[Path], dict[Path, bytes]]:
        """Folders and files of `guarded` that are missing, the files with a content that means nothing."""
        open_names = self.open_names()
        missing = [path for path in self.guarded if is_missing(path) and path not in open_names]
        files = {path: _HARMLESS.get(path.name, b"") for path in missing if path.name != "hooks"}
        return [path for path in missing if path not in files], files

    def open_names(self) -> tuple[Path, ...]:
        """Missing files whose place cannot be held; who makes one has it removed.

        With a `commondir`, git locks the one stack of tables of a main work tree twice, and no commit works.
        """
        return tuple(
            path
            for path in self.guarded
            if path.name == "commondir"
            and path.parent in self.store
            and (path.parent / "reftable").is_dir()
            and is_missing(path)
        )


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
    guarded += [module / name for module in _modules(store) for name in ("hooks", "config")]
    return Repository((store,), tuple(guarded), tuple(_alternates(store)))


def _modules(store: Path) -> list[Path]:
    """Repositories of submodules, whose names may hold slashes, and of theirs."""
    found: list[Path] = []
    queue = [store / "modules"]
    for folder in queue:
        if len(queue) > _MOST or folder.is_symlink():
            break
        try:
            below = [each for each in sorted(folder.iterdir()) if each.is_dir() and not each.is_symlink()]
        except OSError:
            continue
        for each in below:
            if (each / "HEAD").exists():
                found.append(each)
                queue.append(each / "modules")
            else:
                queue.append(each)
    return found


def _alternates(store: Path) -> Iterator[Path]:
    """Folders of objects that are read besides its own."""
    for line in _line(store / "objects" / "info" / "alternates").splitlines()[:_MOST]:
        if (folder := (store / "objects" / line)).is_dir():
            yield folder.resolve()


def _linked(marker: Path) -> Repository:
    named = _line(marker)
    if not named.startswith("gitdir: "):
        return NONE
    own = (marker.parent / named.removeprefix("gitdir: ")).resolve()
    back, common = _line(own / "gitdir"), _line(own / "commondir")
    if not back and (not common or (own / common).resolve() == own):
        plain = _plain(own) if _belongs(own, marker.parent) else NONE
        return Repository(plain.store, (*plain.guarded, marker), plain.alternates) if plain.store else NONE
    if not back or not common or (own / back).resolve() != marker.resolve():
        return NONE
    store = (own / common).resolve()
    if own.parent != store / "worktrees":
        return NONE
    plain = _plain(store)
    guarded = (*plain.guarded, marker, own / "config.worktree", own / "commondir")
    return Repository(plain.store, guarded, plain.alternates)


def _belongs(store: Path, tree: Path) -> bool:
    """Whether a repository beside its work tree, as of a submodule, is that of `tree`.

    It says so itself. Where it does not (`git init --separate-git-dir`), its index does, which holds the
    numbers of the files it was made from, or it is new and nothing in it can be lost.
    """
    for name in ("config", "config.worktree"):
        if named := _WORK_TREE.search(_line(store / name)):
            return (store / named[1].strip().strip('"')).resolve() == tree.resolve()
    if store.is_relative_to(tree):
        return True
    if store.name == ".git" or (store / "worktrees").exists():
        return False
    try:
        with (store / "index").open("rb") as file:
            return _is_index_of(file.read(_INDEX), tree)
    except FileNotFoundError:
        refs = store / "refs"
        named = (store / "packed-refs").exists() or any(each.is_file() for each in refs.rglob("*"))
        return (refs / "heads").is_dir() and not named
    except OSError:
        return False


def _is_index_of(data: bytes, tree: Path) -> bool:
    """Whether one of the first entries of an index (versions 2 and 3) is a file of `tree` as it stands."""
    place = 12
    while data[:4] == b"DIRC" and data[7] in (2, 3) and place + 64 < len(data):
        device, number = struct.unpack_from(">II", data, place + 16)
        start = place + (64 if data[place + 60] & 0x40 else 62)
        end = data.find(b"\0", start)
        if end < 0:
            return False
        try:
            status = (tree / os.fsdecode(data[start:end])).lstat()
            if (status.st_dev & _WORD, status.st_ino & _WORD) == (device, number):
                return True
        except (OSError, ValueError):
            pass
        place += (end - place + 8) & ~7
    return False


def _line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_LONGEST).strip()
    except OSError:
        return ""

"""Taking a repository back as a whole, with all its objects there, and beside nobody else's git.

Where a repository stands is told by many files together: HEAD, refs, reflogs, the index.
One of them alone would be a repository that never was. So they go back together, or all
stay; the locks that git itself respects are held meanwhile; and what the files name is
brought back into the repository first, if git has cleared it away.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.errors import StoreError
from agent.workspace.checkpoints.entries import LeftOut, PathEntry, PathKind
from agent.workspace.checkpoints.git_index import listed
from agent.workspace.checkpoints.git_keep import GitKeep, keeps
from agent.workspace.checkpoints.git_paths import is_index, is_note, repository, split
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.restore.path_replacement import Move
from agent.workspace.checkpoints.store import CheckpointStore
from agent.workspace.git import GitError, GitResult, run_git

AT_WORK = "git is at work there: {} exists; wait for it, or remove the file if no git runs"
GONE = "its commits are no longer there: git has cleared them away"
_LOCKS = ("index.lock", "HEAD.lock", "packed-refs.lock", "config.lock")
_ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{40}(?:[0-9a-f]{24})?(?![0-9a-f])")
_NONE = re.compile(rb"0+")
_SUBMODULE = b"\x00\x00\xe0\x00"
"""The mode of a submodule in an index: its commit lies elsewhere."""
_SECONDS = 60.0
_FULL = 1_000_000_000


def together(moves: Sequence[Move], skipped: Sequence[LeftOut]) -> tuple[list[Move], list[LeftOut]]:
    """The moves without those of repositories of which something is to stay; one reason for each. Pure."""
    staying: dict[str, LeftOut] = {}
    others: list[LeftOut] = []
    for item in skipped:
        folder = repository(item.path)
        if not folder:
            others.append(item)
        elif is_note(item.path):
            continue
        elif folder not in staying:
            staying[folder] = LeftOut(folder, f"{item.reason} ({item.path.removeprefix(f'{folder}/')})")
    return [move for move in moves if repository(move.path) not in staying], [*others, *staying.values()]


def collapsed(left: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
    """One line for each repository that stays, instead of one for each of its files. Pure."""
    found: dict[str, LeftOut] = {}
    for item in left:
        folder = repository(item.path)
        found.setdefault(folder or item.path, LeftOut(folder, item.reason) if folder else item)
    return tuple(found.values())


@contextmanager
def at_rest(root: Path, moves: Iterable[Move], token: str) -> Iterator[dict[str, str]]:
    """Hold git's locks on the repositories that moves change; gives those that cannot be held, and why.

    `token` is written into the locks: what a killed process left is taken over.
    """
    busy: dict[str, str] = {}
    made: list[Path] = []
    names: dict[str, list[str]] = {}
    for move in moves:
        if folder := repository(move.path):
            names.setdefault(folder, []).append(move.path)
    try:
        for folder, paths in names.items():
            if not (root / folder / "HEAD").exists():
                continue
            taken = [f"{path}.lock" for path in paths if os.path.lexists(root / f"{path}.lock")]
            own = [f"{folder}/{name}" for name in _LOCKS]
            for path in [*own, *(path for path in taken if path not in own)]:
                if path in own and _lock(root / path, token):
                    made.append(root / path)
                    continue
                busy[folder] = AT_WORK.format(path)
                break
        yield busy
    finally:
        for path in made:
            with suppress(OSError):
                path.unlink()


def _lock(path: Path, token: str) -> bool:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        with suppress(OSError):
            return not path.is_symlink() and path.read_bytes() == token.encode()
        return False
    except OSError:
        return False
    with os.fdopen(descriptor, "wb") as file:
        file.write(token.encode())
    return True


class RepositoryProvider:
    """Sees to it that what repositories are to name is there."""

    def __init__(self, root: Path, store: CheckpointStore) -> None:
        self._root = root
        self._store = store

    def provide(self, moves: Sequence[Move]) -> list[LeftOut]:
        """Bring back what git cleared away; repositories whose commits are nowhere are named.

        Blocking. Only a repository that is gone as a whole waits for `complete`.
        """
        left: list[LeftOut] = []
        for folder, inside in _grouped(moves).items():
            wanted, tips = _named(inside, self._store.objects)
            place = (self._root / folder).parent
            if (self._root / folder / "HEAD").exists():
                if not wanted or self._whole(place, wanted, tips):
                    continue
                self._put_back(folder)
                missing = self._missing(place, tips)
            else:
                missing = set(tips)
                for keep in self._keeps(folder):
                    missing = self._missing(keep.place, missing)
            if missing:
                left.append(LeftOut(folder, GONE))
        return left

    def complete(self, moves: Iterable[Move]) -> None:
        """Give repositories their objects that were gone as a whole. Blocking."""
        for folder in _grouped(moves):
            if (self._root / folder).is_dir() and not (self._root / folder / "objects").is_dir():
                self._put_back(folder)

    def _whole(self, place: Path, wanted: set[str], tips: set[str]) -> bool:
        """Whether all these objects are in the repository, with all that they need."""
        if self._missing(place, wanted):
            return False
        lines = "".join(f"{each}\n" for each in sorted(tips)) + "--not\n--all\n"
        result = _asked(place, "rev-list", "--objects", "--quiet", "--stdin", input=lines.encode())
        return not tips or (result is not None and result.code == 0)

    def _missing(self, place: Path, ids: Iterable[str]) -> set[str]:
        wanted = set(ids)
        lines = "".join(f"{each}\n" for each in sorted(wanted)).encode()
        result = _asked(place, "cat-file", "--batch-check", input=lines) if wanted else None
        if result is None:
            return wanted
        there = (line.split() for line in result.output.split(b"\n"))
        return wanted - {words[0].decode("ascii") for words in there if len(words) == 3}

    def _put_back(self, folder: str) -> None:
        for keep in self._keeps(folder):
            with suppress(OSError):
                keep.put_back()

    def _keeps(self, folder: str) -> Iterator[GitKeep]:
        """What is kept of a repository and of the submodules in it."""
        inside = self._root / folder
        for place in keeps(self._store.borrowed):
            with suppress(OSError, ValueError, TypeError):
                source = Path(json.loads((place / "source").read_bytes()))
                if source.is_relative_to(inside):
                    yield GitKeep(self._store.borrowed, source)


def _grouped(moves: Iterable[Move]) -> dict[str, list[Move]]:
    found: dict[str, list[Move]] = {}
    for move in moves:
        if folder := repository(move.path):
            found.setdefault(folder, []).append(move)
    return found


def _named(moves: Sequence[Move], objects: ObjectStore) -> tuple[set[str], set[str]]:
    """The objects that the files name when they are back and do not name now: all, and those of refs."""
    wanted: set[str] = set()
    tips: set[str] = set()
    for move in moves:
        if split(move.path) is None or "modules/" in move.path:
            continue
        ids = _ids(move.path, move.wanted, objects) - _ids(move.path, move.now, objects)
        wanted |= ids
        if not is_index(move.path) and "/logs/" not in move.path:
            tips |= ids
    return wanted, tips


def _ids(path: str, entry: PathEntry | None, objects: ObjectStore) -> set[str]:
    if entry is None or entry.kind is not PathKind.FILE or entry.digest is None or entry.size > _FULL:
        return set()
    try:
        data = objects.read(entry.digest)
        if is_index(path):
            return {rest[4:24].hex() for _, rest in listed(data) if rest[:4] != _SUBMODULE}
    except (StoreError, ValueError, IndexError):
        return set()
    rest = (split(path) or ("", ""))[1]
    first = rest.partition("/")[0]
    if first not in ("refs", "logs", "HEAD", "packed-refs", "worktrees") and not first.endswith("_HEAD"):
        return set()
    return {each.decode() for each in _ID.findall(data) if not _NONE.fullmatch(each)}


def _asked(place: Path, *arguments: str, input: bytes) -> GitResult | None:
    """What git answers in the repository at `place`; None where it cannot be asked."""

    async def ask() -> GitResult:
        return await run_git(place, *arguments, seconds=_SECONDS, input=input)

    # Whoever calls may have an event loop in this thread.
    with ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(asyncio.run, ask()).result()
        except (GitError, OSError):
            return None

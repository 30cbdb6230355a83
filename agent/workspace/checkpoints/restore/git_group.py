"""Restoring a repository as a whole, with all its objects, while other git commands are locked out.

The state of a repository is spread over many files: HEAD, refs, reflogs, the index. Restoring only some of
them would give a state that never existed. So they are restored together, or all are left unchanged.
Meanwhile the locks that git respects are held. Objects that git removed are restored first.
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
from agent.workspace.checkpoints.entries import LeftOut, PathEntry, PathKind, is_folder
from agent.workspace.checkpoints.git_index import index_rows
from agent.workspace.checkpoints.git_keep import GitKeep, kept_repositories
from agent.workspace.checkpoints.git_refs import is_reflog
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.restore.path_replacement import Move
from agent.workspace.checkpoints.restore.ref_plan import PlanItem
from agent.workspace.checkpoints.store import CheckpointStore
from agent.workspace.checkpoints.unit_marks import is_index
from agent.workspace.checkpoints.units import Units, above, kinds, within
from agent.workspace.git import GitError, GitResult, run_git
from tools.kit.files import write_new
from tools.text.safe_text import clean

LEFT = "is left, as you chose"
AT_WORK = "git is running there: {} exists; wait for it, or remove the file if no git runs"
GONE = "its commits are no longer there: git has cleared them away"
_ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{40}(?:[0-9a-f]{24})?(?![0-9a-f])")
_NONE = re.compile(rb"0+")
_SUBMODULE = b"\x00\x00\xe0\x00"
"""The mode of a submodule in an index: its commit is in another repository."""
POINTERS = ("index", "HEAD", "tables.list")
"""Files that list other files: they are written last, while their lock is held."""
_SECONDS = 60.0
_FULL = 1_000_000_000
_NAMED = 3


def together(
    items: Sequence[PlanItem], units: Units, moves: Sequence[Move], skipped: Sequence[LeftOut]
) -> tuple[list[Move], list[LeftOut]]:
    """Return the moves without units that must stay unchanged, and `skipped` with one reason for each such
    unit.

    A unit stays unchanged if any part of it does, including its work tree files. `items` are those of the
    plan.
    """
    told = {item.path: item for item in items}
    staying: dict[str, LeftOut] = {}
    # The reason for a ref comes first, and that for an unchosen path before that for a chosen one.
    for item in sorted(skipped, key=lambda each: (each.reason == LEFT, each.path.endswith("HEAD"))):
        if (folder := units.group(item.path)) and folder not in staying:
            about = (told[item.path].about if item.path in told else "") or _rest(item.path, folder)
            staying[folder] = LeftOut(
                folder, item.reason if item.reason == LEFT else f"{item.reason} ({about})"
            )
    if not staying:
        return list(moves), list(skipped)
    along: dict[str, list[str]] = {}
    for move in moves:
        if move.path in told and (unit := told[move.path].unit) in staying:
            along.setdefault(unit, []).append(move.path)
    for folder in staying:
        # The repositories in `modules` need the settings that `submodule init` wrote.
        if any(path.startswith(within(folder, "modules/")) for path in told):
            along.setdefault(folder, []).extend(
                move.path for move in moves if move.path == within(folder, "config")
            )
    stay = with_unit(moves, units, staying, (path for paths in along.values() for path in paths))
    others = [
        item
        for item in skipped
        if not units.group(item.path) and not (item.path in told and told[item.path].unit in staying)
    ]
    units_left = [
        LeftOut(place, f"{each.reason}{_with(along.get(place, ()))}") for place, each in staying.items()
    ]
    return [move for move in moves if move.path not in stay], [
        *others,
        *units_left,
    ]


def with_unit(
    moves: Sequence[Move], units: Units, staying: Iterable[str], files: Iterable[str] = ()
) -> set[str]:
    """Return all paths that stay unchanged because they belong to the units in `staying`, and `files`.

    Their parent folders stay unchanged too.
    """
    roots = set(staying)
    groups = {move.path: units.group(move.path) for move in moves}
    whole = {
        path for path, root in groups.items() if path in roots or (path in units.places and root in roots)
    }
    found = set(files)
    found |= {path for path, root in groups.items() if path in whole or root in roots}
    found |= {path for path in groups if not whole.isdisjoint(above(path))}
    holding = {folder for path in (*roots, *found) for folder in above(path)}
    return found | {move.path for move in moves if move.wanted is None and move.path in holding}


def _with(paths: Sequence[str]) -> str:
    if not paths:
        return ""
    more = f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
    return f", and with it {', '.join(map(clean, paths[:_NAMED]))}{more}"


def _rest(path: str, folder: str) -> str:
    return path.removeprefix(f"{folder}/")


def collapsed(left: Iterable[LeftOut], units: Units) -> tuple[LeftOut, ...]:
    """Return `left` with one entry for each unit that stays unchanged, instead of its files."""
    found: dict[str, LeftOut] = {}
    for item in left:
        folder = units.group(item.path)
        found.setdefault(folder or item.path, LeftOut(folder, item.reason) if folder else item)
    return tuple(found.values())


@contextmanager
def at_rest(root: Path, moves: Iterable[Move], units: Units, token: str) -> Iterator[dict[str, str]]:
    """Hold the locks of the units that moves change; yield units that cannot be locked, with the reasons.

    `token` is written into the locks, so that locks left by a killed restore can be taken over.
    """
    busy: dict[str, str] = {}
    made: list[Path] = []
    groups: dict[tuple[str, str, str], list[str]] = {}
    going: set[str] = set()
    for move in moves:
        going |= {move.path} if not is_folder(move.wanted) else set()
        if (part := units.part(move.path)) and part.rest and part.role != "alone":
            groups.setdefault((part.root, part.inner, part.kind), []).append(move.path)
    try:
        for (folder, inner, kind), paths in groups.items():
            if not os.path.lexists(root / within(inner, kinds()[kind].holds[0].rstrip("/"))):
                continue
            own = [within(inner, name) for name in kinds()[kind].locks]
            own += [
                f"{path}.lock" for path in paths if path.rpartition("/")[2] in POINTERS and path not in going
            ]
            # A unit removed as a whole is only checked for others' locks.
            gone = folder in going or inner in going
            own = [path for path in dict.fromkeys(own) if not gone and (root / path).parent.is_dir()]
            taken = [f"{path}.lock" for path in paths if os.path.lexists(root / f"{path}.lock")]
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
    # A link has its content at once; an empty file left by a killed process would look like a lock of git.
    # The target's folder does not exist, so a program that opens the lock cannot create a file.
    target = f"hermes/{token}"
    with suppress(OSError):
        path.symlink_to(target)
        return True
    with suppress(OSError):
        # The file system does not support links.
        write_new(path, token.encode(), 0o644)
        return True
    with suppress(OSError):
        return str(path.readlink()) == target if path.is_symlink() else path.read_bytes() == token.encode()
    return False


class RepositoryProvider:
    """A provider of the objects that restored repositories need; it also removes those of removed ones."""

    def __init__(self, root: Path, store: CheckpointStore, units: Units) -> None:
        self._root = root
        self._store = store
        self._units = units
        self._gone: list[str] = []
        """Repositories that are missing, and so are restored as a whole."""

    def provide(self, moves: Sequence[Move]) -> list[LeftOut]:
        """Restore objects that git removed; return the repositories whose commits are lost.

        Blocking. A completely missing repository gets its objects in `complete`.
        """
        left: list[LeftOut] = []
        for (root, folder), inside in self._grouped(moves).items():
            wanted, tips = self._named_objects(inside)
            if self._is_there(folder):
                if not wanted or self._whole(self._root / folder, wanted, tips):
                    continue
                self._restore_objects(folder)
                missing = self._missing(self._root / folder, tips)
            else:
                self._gone.append(folder)
                missing = set(tips)
                for keep in self._keeps(folder):
                    missing = self._missing(keep.place / ".git", missing)
            if missing:
                left.append(LeftOut(root, GONE))
        return left

    def complete(self) -> None:
        """Restore the objects of repositories that were completely missing. Blocking."""
        for folder in self._gone:
            if self._is_there(folder):
                self._restore_objects(folder)

    def clear(self, moves: Iterable[Move]) -> None:
        """Remove the objects of removed repositories of which the store has hard links. Blocking."""
        for move in moves:
            if not is_folder(move.wanted) and self._units.places.get(move.path) == "git":
                for keep in self._keeps(move.path):
                    with suppress(OSError):
                        keep.remove_kept()

    def _is_there(self, folder: str) -> bool:
        return os.path.lexists(self._root / folder / "HEAD")

    def _grouped(self, moves: Iterable[Move]) -> dict[tuple[str, str], list[Move]]:
        """Return the moves of each repository, by the folders of its unit and of itself."""
        found: dict[tuple[str, str], list[Move]] = {}
        for move in moves:
            part = self._units.part(move.path)
            if part and part.rest and part.role != "alone" and self._units.kind(part.inner) == "git":
                found.setdefault((part.root, part.inner), []).append(move)
        return found

    def _named_objects(self, moves: Sequence[Move]) -> tuple[set[str], set[str]]:
        """Return the ids of objects that only the restored files name: all, and those named by refs."""
        wanted: set[str] = set()
        tips: set[str] = set()
        for move in moves:
            part = self._units.part(move.path)
            if part is None or part.rest.startswith("modules/"):
                continue
            folder = (self._root / move.path).parent if is_index(part) else None
            ids = _ids(part.rest, move.wanted, self._store.objects, folder)
            ids -= _ids(part.rest, move.now, self._store.objects, folder)
            wanted |= ids
            if folder is None and not is_reflog(part.rest):
                tips |= ids
        return wanted, tips

    def _whole(self, git: Path, wanted: set[str], tips: set[str]) -> bool:
        """Return whether the repository has all these objects and everything that `tips` refer to."""
        if self._missing(git, wanted):
            return False
        lines = "".join(f"{each}\n" for each in sorted(tips)).encode()
        result = _ask_git(git, "rev-list", "--objects", "--quiet", "--stdin", "--not", "--all", input=lines)
        return not tips or (result is not None and result.code == 0)

    def _missing(self, git: Path, ids: Iterable[str]) -> set[str]:
        wanted = set(ids)
        lines = "".join(f"{each}\n" for each in sorted(wanted)).encode()
        result = _ask_git(git, "cat-file", "--batch-check", input=lines) if wanted else None
        if result is None:
            return wanted
        there = (line.split() for line in result.output.split(b"\n"))
        return wanted - {words[0].decode("ascii") for words in there if len(words) == 3}

    def _restore_objects(self, folder: str) -> None:
        for keep in self._keeps(folder):
            with suppress(OSError):
                keep.restore_objects()

    def _keeps(self, folder: str) -> Iterator[GitKeep]:
        """Yield the stored objects of a repository, without those of separate units inside it."""
        for place in kept_repositories(self._store.borrowed_folder):
            with suppress(OSError, ValueError, TypeError):
                source = Path(json.loads((place / "source").read_bytes()))
                part = self._units.part(source.relative_to(self._root).as_posix())
                if part is not None and part.inner == folder:
                    yield GitKeep(self._store.borrowed_folder, source)


def _ids(rest: str, entry: PathEntry | None, objects: ObjectStore, folder: Path | None) -> set[str]:
    """Return the ids of objects that a file in a repository names; `folder` contains the file if it is an
    index, else None.
    """
    if entry is None or entry.kind is not PathKind.FILE or entry.digest is None or entry.size > _FULL:
        return set()
    try:
        data = objects.read(entry.digest)
        if folder is not None:
            return {each[4:-2].hex() for _, each in _plain(data, folder)}
    except (StoreError, OSError, ValueError, IndexError):
        return set()
    first = rest.partition("/")[0]
    if first not in ("refs", "logs", "HEAD", "packed-refs", "worktrees") and not first.endswith("_HEAD"):
        return set()
    return {each.decode() for each in _ID.findall(data) if not _NONE.fullmatch(each)}


def _plain(data: bytes, folder: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield name and data of the entries of an index, except submodules."""
    for name, rest in index_rows(data, folder):
        if rest[:4] != _SUBMODULE:
            # Extended flags take two more bytes.
            yield name, rest[: -2 if len(rest) in (28, 40) else None]


def _ask_git(git: Path, *arguments: str, input: bytes) -> GitResult | None:
    """Return git's output for a query about objects of the repository `git`; None if it fails."""

    async def ask() -> GitResult:
        return await run_git(git.parent, *arguments, seconds=_SECONDS, input=input, git=git)

    # The caller may have an event loop in this thread.
    with ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(asyncio.run, ask()).result()
        except (GitError, OSError):
            return None

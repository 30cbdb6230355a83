"""Restoring a repository as a whole, with all its objects, while other git commands are locked out.

The state of a repository is spread over many files: HEAD, refs, reflogs, the index. One of them alone would
give a state that never existed. So they are restored together, or all are left unchanged. Meanwhile the locks
that git respects are held. Objects that git removed are restored first.

The plan for the refs of a repository: the target value of each, and the files that hold them. Refs are judged
by their values, never by their files. If nobody else wrote to their files since, the files are restored byte
for byte. If somebody packed refs, or moved other ones, only refs moved by the steps are moved back. They are
written to a separate file, removed from `packed-refs`, or set by an additional table.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agent.errors import StoreError
from agent.workspace.checkpoints.entries import (
    LeftOut,
    PathChange,
    PathEntry,
    PathKind,
    Step,
    Units,
    above,
    is_folder,
    kinds,
    within,
)
from agent.workspace.checkpoints.git_index import index_rows
from agent.workspace.checkpoints.git_keep import GitKeep, keeps
from agent.workspace.checkpoints.git_refs import (
    COMMIT,
    HEAD,
    PACKED,
    Refs,
    Values,
    is_reflog,
    last_update,
    table_names,
    table_of,
    tree_of,
    without,
)
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.restore.path_replacement import Move
from agent.workspace.checkpoints.state_listings import alike
from agent.workspace.checkpoints.store import CheckpointStore
from agent.workspace.checkpoints.unit_marks import changed_sides, disk, is_index, ref_changes
from agent.workspace.git import GitError, GitResult, run_git
from tools.kit.files import write_new
from tools.text.safe_text import clean

PlanState = Literal["change", "conflict", "lost"]
"""The state of an item; `lost`: it cannot be restored and stays unchanged."""

Way = Literal["mine", "checkpoint", "merge"]
"""The choice for a path: the current state, the checkpoint's, or both merged."""


@dataclass(frozen=True, slots=True)
class PartialRestore:
    """The choice to restore some hunks of a file, numbered between exactly these two contents."""

    now: str
    """SHA-256 of the current content when they were chosen, in hex."""
    then: str
    """SHA-256 of the fully restored content."""
    hunks: frozenset[int]
    """Numbers from 1."""
    merging: bool = False
    """Whether the full result is a merge of both sides."""


Choice = Way | PartialRestore
"""The choice for a path. A conflict without a choice stays unchanged; anything else is restored."""

CHANGED_SINCE = "changed since by somebody else"
CHANGED_BETWEEN = "changed by somebody else between two steps"


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One path of a plan that differs from its target state."""

    path: str
    now: PathEntry | None
    """The current state; its contents are already in the store, so that the restore can be undone."""
    target: PathEntry | None
    """The state at the position."""
    state: PlanState
    reason: str = ""
    """Why it is not a plain change; empty for one."""
    taking_back: tuple[PathChange, ...] = ()
    """Our changes since the position, newest first, without those of others."""
    unnamed: bool = False
    """Whether only commands that do not name the path changed it: a user may have, while they ran."""
    unit: str = ""
    """The folder of the unit with which a work tree file is restored or stays; usually empty."""
    about: str = ""
    """What it represents in its unit, such as a ref; empty if that is the path."""

    @property
    def is_repository(self) -> bool:
        """Return whether the item stands for all paths that are restored together for one repository."""
        return self.target is not None and self.target.kind is PathKind.OTHER and bool(self.target.target)


Take = Callable[[str], PathEntry | None]
"""A function returning the current state of a workspace path, contents stored."""


@dataclass(slots=True)
class RefHistory:
    """The effect of the steps since a position on the refs of one repository."""

    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    """Refs that somebody else moved between two of the steps."""


def ref_histories(steps: Iterable[Step], units: Units, objects: ObjectStore) -> dict[str, RefHistory]:
    """Return the effect of steps, oldest first, on the refs of each repository, by its folder."""
    found: dict[str, RefHistory] = {}
    unknown: set[tuple[str, str]] = set()
    for step in steps:
        known: Mapping[str, Mapping[str, tuple[str, str]]]
        known = {place: mark.refs for place, mark in step.units.items() if mark.refs}
        if not known:
            known = ref_changes(step.changes, units, *changed_sides(step.changes, objects.read))
        for place, refs in known.items():
            history = found.setdefault(place, RefHistory())
            for name, (before, after) in refs.items():
                if not (before or after or step.units):
                    unknown.add((place, name))
                if history.after.get(name, before) != before:
                    history.broken.add(name)
                history.before.setdefault(name, before)
                history.after[name] = after
    # Steps that were stored without units do not know the commit of a HEAD; then the refs alone decide.
    for place, name in unknown:
        found[place].before.pop(name)
        found[place].after.pop(name)
    return found


class RefPlan:
    """The plan for the refs of the repository in the folder `inner`."""

    def __init__(self, root: Path, inner: str, history: RefHistory, objects: ObjectStore, take: Take) -> None:
        self._root = root
        self._inner = inner
        self._history = history
        self._objects = objects
        self._take = take
        now = Refs(disk(root))
        self._now = {name: now.current(inner, name) for name in history.after}
        self._tables = now.tables(inner) is not None

    @property
    def moves(self) -> Values:
        """Return the values before and after for each ref that is restored."""
        return {name: (self._now[name], before) for name, before in self._history.before.items()}

    def judge_ref(self, name: str) -> tuple[PlanState, str]:
        """Return the state of the plan item of one ref, and the reason."""
        now, history = self._now[name], self._history
        if now == history.before[name] or (now == history.after[name] and name not in history.broken):
            return "change", ""
        return "conflict", CHANGED_SINCE if now != history.after[name] else CHANGED_BETWEEN

    def items(self, files: Sequence[PlanItem]) -> list[PlanItem]:
        """Return items for all files of refs. `files` are the items of these files, judged by their bytes."""
        clean = {item.path: item for item in files if item.state == "change"}
        if self._tables and len(clean) < len(files):
            clean = {path: item for path, item in clean.items() if "/reftable/" not in f"/{path}"}
        planned = Refs(disk(self._root, {path: self._bytes(item.target) for path, item in clean.items()}))
        found = dict(clean)
        unlisted: list[str] = []
        tables: dict[str, dict[str, str]] = {}
        for name, target in self._history.before.items():
            state, reason = self.judge_ref(name)
            stands = planned.current(self._inner, name) == target
            if name.endswith(COMMIT):
                path = within(self._inner, name.removesuffix(COMMIT) + HEAD)
                if state == "conflict" and path not in found:
                    now = self._take(path)
                    found[path] = PlanItem(path, now, now, state, reason, about=HEAD)
            elif self._tables:
                # If all tables are removed, nothing has to be set in them.
                if not stands and planned.tables(self._inner, tree_of(name)) is not None:
                    tables.setdefault(tree_of(name), {})[name] = target
            elif not stands or state == "conflict":
                path = within(self._inner, name)
                found[path] = PlanItem(path, self._take(path), self._entry(target), state, reason, about=name)
                unlisted += [name] if not target else []
        if unlisted:
            self._unlist(found, unlisted)
        for tree, values in tables.items():
            found |= {item.path: item for item in self._table(tree, values)}
        kept = {
            path: each
            for path, each in found.items()
            if each.state != "change" or not alike(each.now, each.target)
        }
        return [*kept.values(), *self._folders(kept)]

    def _unlist(self, found: dict[str, PlanItem], names: Sequence[str]) -> None:
        """Remove refs from `packed-refs` in the plan `found`; all others in it are kept."""
        path = within(self._inner, PACKED)
        now = found[path].now if path in found else self._take(path)
        data = self._bytes(found[path].target if path in found else now)
        if data is not None and (left := without(data, names)) != data:
            mode = now.mode if now is not None else 0o644
            found[path] = PlanItem(path, now, self._file(left, mode), "change")

    def _table(self, tree: str, values: Mapping[str, str]) -> list[PlanItem]:
        """Return items for an additional table that sets refs, and for the list of tables that
        includes it.
        """
        folder = within(self._inner, f"{tree}reftable")
        listed = self._take(f"{folder}/tables.list")
        data = self._bytes(listed) or b""
        tables = [self._bytes(self._take(f"{folder}/{name}")) or b"" for name in table_names(data)]
        if listed is None or not tables:
            return []
        update = max(map(last_update, tables)) + 1
        plain = {name.removeprefix(tree): value for name, value in values.items()}
        name = f"0x{update:012x}-0x{update:012x}-{secrets.token_hex(4)}.ref"
        table = self._file(table_of(plain, tables[-1], update), listed.mode)
        longer = self._file(data + name.encode() + b"\n", listed.mode)
        judged = {each: self.judge_ref(each) for each in values}
        about = next((each for each, (state, _) in judged.items() if state == "conflict"), "")
        state, reason = judged.get(about, ("change", ""))
        return [
            PlanItem(f"{folder}/{name}", None, table, "change"),
            PlanItem(f"{folder}/tables.list", listed, longer, state, reason, about=about),
        ]

    def _folders(self, found: Mapping[str, PlanItem]) -> list[PlanItem]:
        """Return items that create the missing folders of refs, which packing removed."""
        wanted: dict[str, PlanItem] = {}
        for path, item in found.items():
            folder = path.rpartition("/")[0] if item.target is not None else self._inner
            while len(folder) > len(self._inner) and folder not in wanted and self._take(folder) is None:
                wanted[folder] = PlanItem(folder, None, PathEntry(PathKind.FOLDER, 0o755), "change")
                folder = folder.rpartition("/")[0]
        return list(wanted.values())

    def _entry(self, value: str) -> PathEntry | None:
        return self._file(f"{value}\n".encode("utf-8", "surrogateescape"), 0o644) if value else None

    def _file(self, data: bytes, mode: int) -> PathEntry:
        return PathEntry(PathKind.FILE, mode, len(data), 0, self._objects.add(data))

    def _bytes(self, entry: PathEntry | None) -> bytes | None:
        if entry is not None and entry.kind is PathKind.LINK:
            return b"ref: " + os.fsencode(entry.target)
        return self._objects.read(entry.digest) if entry is not None and entry.digest else None


LEFT = "is left, as you chose"
AT_WORK = "git is running there: {} exists; wait for it, or remove the file if no git runs"
GONE = "its commits are no longer there: git has cleared them away"
_ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{40}(?:[0-9a-f]{24})?(?![0-9a-f])")
_NONE = re.compile(rb"0+")
_SUBMODULE = b"\x00\x00\xe0\x00"
"""The mode of a submodule in an index: its commit lies elsewhere."""
POINTERS = ("index", "HEAD", "tables.list")
"""Files that list other files: written last, while their lock is held."""
_SECONDS = 60.0
_FULL = 1_000_000_000
_NAMED = 3


def together(
    items: Sequence[PlanItem], units: Units, moves: Sequence[Move], skipped: Sequence[LeftOut]
) -> tuple[list[Move], list[LeftOut]]:
    """Return the moves without units that must stay unchanged, and one reason for each of those units. Pure.

    A unit stays unchanged if any part of it does, including its work tree files. `items` are those of the
    plan.
    """
    told = {item.path: item for item in items}
    staying: dict[str, LeftOut] = {}
    # Among the reasons, that of a ref says most, and an unchosen path's more than a chosen one's.
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
        # What `submodule init` wrote down there is needed by the repositories in `modules`.
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

    Their parent folders stay unchanged too. Pure.
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
    """Return one entry for each unit that stays unchanged, in place of its files. Pure."""
    found: dict[str, LeftOut] = {}
    for item in left:
        folder = units.group(item.path)
        found.setdefault(folder or item.path, LeftOut(folder, item.reason) if folder else item)
    return tuple(found.values())


@contextmanager
def at_rest(root: Path, moves: Iterable[Move], units: Units, token: str) -> Iterator[dict[str, str]]:
    """Hold the locks of the units that moves change; yields units that cannot be locked, with the reasons.

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
    # A link has its content at once; a file that a kill left empty could not be told from a lock of git.
    # The target is in no folder, so that a program that opens the lock makes no file there.
    target = f"hermes/{token}"
    with suppress(OSError):
        path.symlink_to(target)
        return True
    with suppress(OSError):
        # On a file system without links.
        write_new(path, token.encode(), 0o644)
        return True
    with suppress(OSError):
        return str(path.readlink()) == target if path.is_symlink() else path.read_bytes() == token.encode()
    return False


class RepositoryProvider:
    """Restores the objects that repositories need, and removes those of removed repositories."""

    def __init__(self, root: Path, store: CheckpointStore, units: Units) -> None:
        self._root = root
        self._store = store
        self._units = units
        self._gone: list[str] = []
        """Repositories that are restored as a whole."""

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
                self._put_back(folder)
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
                self._put_back(folder)

    def clear(self, moves: Iterable[Move]) -> None:
        """Remove the objects of removed repositories, of which hard links are kept here. Blocking."""
        for move in moves:
            if not is_folder(move.wanted) and self._units.places.get(move.path) == "git":
                for keep in self._keeps(move.path):
                    with suppress(OSError):
                        keep.take_away()

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
        """Return the ids of objects that only the restored files name: all, and those that refs name."""
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
        """Return whether the repository has all these objects and everything they refer to."""
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

    def _put_back(self, folder: str) -> None:
        for keep in self._keeps(folder):
            with suppress(OSError):
                keep.put_back()

    def _keeps(self, folder: str) -> Iterator[GitKeep]:
        """Yield the kept objects of a repository, without those of separate units inside it."""
        for place in keeps(self._store.borrowed_folder):
            with suppress(OSError, ValueError, TypeError):
                source = Path(json.loads((place / "source").read_bytes()))
                part = self._units.part(source.relative_to(self._root).as_posix())
                if part is not None and part.inner == folder:
                    yield GitKeep(self._store.borrowed_folder, source)


def _ids(rest: str, entry: PathEntry | None, objects: ObjectStore, folder: Path | None) -> set[str]:
    """Return the ids of objects that a file of a repository names; `folder` contains the file, for an
    index.
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
            # Extended flags are two bytes more.
            yield name, rest[: -2 if len(rest) in (28, 40) else None]


def _ask_git(git: Path, *arguments: str, input: bytes) -> GitResult | None:
    """Return git's answer to a question about objects of the repository `git`; None if it fails."""

    async def ask() -> GitResult:
        return await run_git(git.parent, *arguments, seconds=_SECONDS, input=input, git=git)

    # The caller may have an event loop in this thread.
    with ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(asyncio.run, ask()).result()
        except (GitError, OSError):
            return None

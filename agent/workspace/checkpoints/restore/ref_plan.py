"""The plan for the refs of a repository: the target value of each, and the files that hold them.

Refs are judged by their values, never by their files. If only the steps wrote to these files, the files are
restored byte for byte. If others packed refs, or moved other ones, only refs moved by the steps are moved
back. They are written to a separate file, removed from `packed-refs`, or set by an additional table.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind, Step
from agent.workspace.checkpoints.git_refs import (
    COMMIT,
    HEAD,
    PACKED,
    Refs,
    Values,
    last_update,
    table_names,
    table_of,
    tree_of,
    without,
)
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.state_listings import alike
from agent.workspace.checkpoints.unit_marks import changed_sides, disk, ref_changes, side
from agent.workspace.checkpoints.units import Units, within

PlanState = Literal["change", "conflict", "lost"]
"""The state of an item; `lost`: it cannot be restored and stays unchanged."""

Way = Literal["mine", "checkpoint", "merge"]
"""The choice for a path: to keep the current state, to restore the checkpoint's, or to merge both."""


@dataclass(frozen=True, slots=True)
class PartialRestore:
    """The choice to restore some hunks of a file, numbered between exactly these two contents."""

    now: str
    """The SHA-256 of the current content when they were chosen, in hex."""
    then: str
    """The SHA-256 of the fully restored content, in hex."""
    hunks: frozenset[int]
    """The numbers of the hunks, counted from 1."""
    merging: bool = False
    """True if the full result is a merge of both sides."""


Choice = Way | PartialRestore
"""The choice for a path. A conflict without a choice stays unchanged; anything else is restored."""

CHANGED_SINCE = "changed since by somebody else"
CHANGED_BETWEEN = "changed by somebody else between two steps"


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One path in a plan that differs from its target state."""

    path: str
    now: PathEntry | None
    """The current state; its contents are already in the store, so that the restore can be undone."""
    target: PathEntry | None
    """The state at the position to be restored."""
    state: PlanState
    reason: str = ""
    """The reason why it is a conflict or lost; empty for a plain change."""
    taking_back: tuple[PathChange, ...] = ()
    """The agent's changes since the position, newest first, without those of others."""
    unnamed: bool = False
    """True if only commands that do not name the path changed it: the user may have, while they ran."""
    unit: str = ""
    """The folder of the unit together with which a work tree file is restored; usually empty."""
    about: str = ""
    """The part of its unit that the item stands for, such as a ref; empty for the path itself."""

    @property
    def is_repository(self) -> bool:
        """Return whether the item stands for all paths that are restored together for one unit."""
        return self.target is not None and self.target.kind is PathKind.OTHER and bool(self.target.target)


Take = Callable[[str], PathEntry | None]
"""A function that returns the current state of a workspace path, and stores its contents."""


@dataclass(slots=True)
class RefHistory:
    """The effect of the steps since a position on the refs of one repository."""

    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    """Refs that others moved between two of the steps."""


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
        """Return the current and the target value of each ref that is restored."""
        return {name: (self._now[name], before) for name, before in self._history.before.items()}

    def judge_ref(self, name: str) -> tuple[PlanState, str]:
        """Return the state of the plan item for one ref, and the reason; empty if it is a plain change."""
        now, history = self._now[name], self._history
        if now == history.before[name] or (now == history.after[name] and name not in history.broken):
            return "change", ""
        return "conflict", CHANGED_SINCE if now != history.after[name] else CHANGED_BETWEEN

    def items(self, files: Sequence[PlanItem]) -> list[PlanItem]:
        """Return items for all files with refs. `files` are items for them, judged by their bytes."""
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
        """Return items for an additional table that sets refs, and for the list of tables that includes it;
        empty without tables.
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
        """Return items that create missing folders of refs, which git removes when it packs refs."""
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
        return side(lambda _: entry, self._objects.read)("")

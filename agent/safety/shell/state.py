"""What is known of a shell while its script is read: variables, functions, folders, small files.

Every name has all the values it may hold at this point. Changes made in a
scope are undone when it ends (a subshell), or become one possibility among
others (a branch that may not be taken).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from agent.safety.places import LONGEST_PATH, absolute
from agent.safety.shell.marks import UNKNOWN, TangledError
from agent.safety.shell.values import Value

MOST_VALUES = 4_096
"""Values of one variable that are told apart."""
MOST_MERGED = 32
"""Values that a variable may collect in branches before the rest counts as unknown."""

MOST_BRANCHES = 20_000
"""Fields that braces may make in one text."""

MOST_FOLDERS = 16
"""Folders the shell may be in that are told apart."""

MOST_PASSES = 5
"""Times that a loop is followed while it goes on changing what it uses."""

_NAME = re.compile(r"[\w-][\w.-]*", re.ASCII)
"""A folder's name that cannot lead elsewhere."""


class Watch:
    """What is used of a state from before the watch began, while it lasts."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Any] = {}
        """Entries that were read before they were written, and what they were."""
        self.written: Counter[tuple[str, str]] = Counter()
        """How often each entry was written and not undone."""
        self.unique = False
        """Whether a name was given that is never given again, so that nothing will be the same again."""

    def read(self, table: str, name: str, value: Any) -> None:
        key = (table, name)
        if key not in self.found and not self.written.get(key):
            self.found[key] = value

    def absorb(self, inner: Watch) -> None:
        """Take over what a watch inside this one has seen."""
        for key, value in inner.found.items():
            if key not in self.found and not self.written.get(key):
                self.found[key] = value
        self.written.update(inner.written)
        self.unique |= inner.unique


LAST_JOB = "%!"
"""What stands for the number of the last program that was started with `&` by this very script."""


class State:
    """One shell. `budget` is the number of steps left before `TangledError`.

    `observe` is told of every variable that is set, and to what.
    """

    def __init__(
        self,
        home: str,
        cwd: str,
        budget: int,
        observe: Callable[[str, Sequence[Value]], None] = lambda name, values: None,
    ) -> None:
        self._observe = observe
        self._tables: dict[str, dict[str, Any]] = {"variable": {}, "function": {}, "file": {}, "reading": {}}
        self._journal: list[tuple[str, str, Any]] = []
        self._watch: Watch | None = None
        self.budget = budget
        self._branches = MOST_BRANCHES
        self.cwds: tuple[str, ...] = (absolute(cwd) if cwd.startswith("/") else cwd,)
        self.positional: tuple[str, ...] | None = ()
        """Arguments of the script or function; None when they are not known."""
        variables: dict[str, str] = {
            "HOME": home,
            "SHELL": "/bin/bash",
            "BASH": "/bin/bash",
            "IFS": " \t\n",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "USER": home.rpartition("/")[2],
            "LOGNAME": home.rpartition("/")[2],
        }
        self._tables["variable"].update((name, [value]) for name, value in variables.items())

    def spend(self, steps: int = 1) -> None:
        """Count steps. Raises `TangledError` when the budget is used up."""
        self.budget -= steps
        if self.budget < 0:
            raise TangledError

    def branch(self, fields: int) -> None:
        """Count fields that braces make. Raises `TangledError` when they are too many."""
        self._branches -= fields
        if self._branches < 0:
            raise TangledError

    def get(self, table: str, name: str) -> Any:
        found = self._tables[table].get(name)
        if self._watch is not None:
            self._watch.read(table, name, found)
        return found

    def put(self, table: str, name: str, what: Any) -> None:
        """Set an entry, or remove it with None; the scope remembers what was there."""
        entries = self._tables[table]
        self._journal.append((table, name, entries.get(name)))
        if self._watch is not None:
            self._watch.written[table, name] += 1
        if what is None:
            entries.pop(name, None)
        else:
            entries[name] = what

    def assign(self, name: str, values: Sequence[Value], *, add: bool = False) -> None:
        """Set a variable to any of `values`; with `add` it may also keep those it has."""
        if add:
            values = [*(self.get("variable", name) or [UNKNOWN]), *values]
        unique = list(values) if len(values) == 1 else list(dict.fromkeys(values))
        most = MOST_MERGED if add else MOST_VALUES
        self.spend(len(unique) + sum(map(len, unique)) // 64)
        if len(unique) > most:
            unique = [UNKNOWN, *unique[-most:]]
        if not add:
            self._observe(name, unique)
        self.put("variable", name, unique)

    def values(self, name: str) -> list[Value] | None:
        """What a variable or parameter may hold; None when it was never set here."""
        if name.isidentifier() and name != "PWD":
            return self.get("variable", name)
        if name in ("@", "*"):
            return [UNKNOWN] if self.positional is None else [self.positional]
        if name == "PWD":
            return list(self.cwds)
        if name.isdigit() and name != "0":
            if self.positional is None:
                return None
            index = int(name) if len(name) < 6 else 100_000
            if any(UNKNOWN in word for word in self.positional[:index]):
                return [UNKNOWN]  # which may be several words
            return [self.positional[index - 1] if index <= len(self.positional) else ""]
        if name == "!":
            return ["", LAST_JOB]
        return self.get("variable", name)

    def change_folder(self, targets: Sequence[str]) -> None:
        """Go to one of several folders, seen from each folder the shell may be in."""
        found: dict[str, None] = {}
        for cwd in self.cwds:
            for target in targets:
                path = target if target.startswith("/") else f"{cwd}/{target}"
                if not path.startswith("/") or len(path) > LONGEST_PATH:
                    path = UNKNOWN
                elif not _NAME.fullmatch(target) or path.startswith("/proc/"):
                    path = absolute(path)
                found[path] = None
        self.spend(sum(1 + len(path) // 16 for path in found))
        self.cwds = _limited(found)

    def repeat(self, follow: Callable[[], object]) -> None:
        """Follow something again and again, until another time would see nothing that is new.

        The second time is only counted where it would see nothing else. What goes on changing is not known
        in the end, unless it only grows.
        """
        changed: list[tuple[str, str, Any]] = []
        positional = self.positional
        for passed in range(MOST_PASSES):
            budget, cwds, positional = self.budget, self.cwds, self.positional
            with self.watching(Watch()) as watch:
                follow()
            changed = [
                (table, name, value)
                for (table, name), value in watch.found.items()
                if self.get(table, name) != value
            ]
            settled = not changed and cwds == self.cwds and positional == self.positional
            if settled and (passed or not watch.unique):
                self.spend(0 if passed else budget - self.budget)
                return
        moving = [
            name
            for table, name, value in changed
            if table == "variable" and not _grows(value, self.get(table, name))
        ]
        for name in moving:
            self.assign(name, [UNKNOWN])
        if positional != self.positional:
            self.positional = None
            moving.append("")
        if moving:
            follow()

    @contextmanager
    def watching(self, watch: Watch) -> Iterator[Watch]:
        """Let `watch` see what is used. Watches may be inside each other."""
        outer, self._watch = self._watch, watch
        try:
            yield watch
        finally:
            self._watch = outer
            if outer is not None:
                outer.absorb(watch)

    def name_once(self) -> str:
        """A name that is never given again."""
        if self._watch is not None:
            self._watch.unique = True
        return str(self.budget)

    def scope(self, *, merge: bool) -> AbstractContextManager[None]:
        """Undo all changes at the end; with `merge` keep them as further possibilities."""
        return _Scope(self, merge)

    @contextmanager
    def lent(self, names: Sequence[str]) -> Iterator[None]:
        """Put these variables back as they were at the end, whatever else was changed."""
        before = {name: self.get("variable", name) for name in names}
        try:
            yield
        finally:
            for name, values in before.items():
                self.put("variable", name, values)

    def mark(self) -> int:
        """The present place in the journal of changes."""
        return len(self._journal)

    def changed_since(self, mark: int) -> dict[tuple[str, str], Any]:
        """The entries of tables that were changed since `mark`, and what they are now."""
        changed = dict.fromkeys((table, name) for table, name, _ in self._journal[mark:])
        return {(table, name): self._tables[table].get(name) for table, name in changed}

    def leave(self, mark: int, merge: bool) -> None:
        """Undo all changes of tables since `mark`; with `merge` keep them as further possibilities."""
        if len(self._journal) == mark:
            return
        changed: dict[tuple[str, str], Any] = {}
        while len(self._journal) > mark:
            table, name, before = self._journal.pop()
            changed.setdefault((table, name), self.get(table, name))
            if before is None:
                self._tables[table].pop(name, None)
            else:
                self._tables[table][name] = before
            if self._watch is not None:
                self._watch.written[table, name] -= 1
        if not merge:
            return
        for (table, name), after in changed.items():
            if table == "variable":
                self.assign(name, after or [UNKNOWN], add=True)
            elif after is not None:
                self.put(table, name, after)


def _grows(before: Sequence[Value] | None, after: Sequence[Value] | None) -> bool:
    """Whether values only had something added: what a loop collects, but not what it takes apart."""
    texts = [value if isinstance(value, str) else " ".join(value) for value in after or ()]
    kept = [value if isinstance(value, str) else " ".join(value) for value in before or ()]
    return bool(texts) and all(any(old in text for old in kept or [""]) for text in texts)


def _limited(folders: dict[str, None]) -> tuple[str, ...]:
    """The first folders, and the unknown one for the others when they are too many."""
    if len(folders) <= MOST_FOLDERS:
        return tuple(folders)
    return tuple(dict.fromkeys((*list(folders)[:MOST_FOLDERS], UNKNOWN)))


class _Scope(AbstractContextManager[None]):
    """One stay in a scope. There are many of them, so it is no generator."""

    __slots__ = ("_cwds", "_mark", "_merge", "_positional", "_state")

    def __init__(self, state: State, merge: bool) -> None:
        self._state = state
        self._merge = merge

    def __enter__(self) -> None:
        state = self._state
        self._mark = state.mark()
        self._cwds, self._positional = state.cwds, state.positional

    def __exit__(self, *error: object) -> None:
        state = self._state
        state.leave(self._mark, self._merge)
        if not self._merge:
            state.cwds = self._cwds
        elif state.cwds != self._cwds:
            state.cwds = _limited(dict.fromkeys((*state.cwds, *self._cwds)))
        state.positional = self._positional

"""Storage of learnings: the rows of one project, and the operations with which the user changes them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any

from agent.core.store.connection import Database
from agent.core.store.nodes import storable
from agent.errors import HermesError
from agent.knowledge.learnings.failures import EVERYWHERE
from agent.knowledge.learnings.learning import (
    LONGEST,
    Learning,
    LearningRefusedError,
    Status,
    after_use,
    call_key,
    check_note,
    from_note,
    merge_learnings,
    restamped,
    same,
)
from agent.knowledge.memory.scopes import project_id, project_root
from tools.services.learning_notes import LearningNote

if TYPE_CHECKING:
    from agent.core.config.schema import LearningSettings

_NAMES = tuple(field.name for field in fields(Learning))
_COLUMNS = ", ".join(_NAMES)
_MARKS = ", ".join("?" * (len(_NAMES) - 1))
_SETS = ", ".join(f"{name} = ?" for name in _NAMES[1:])
_MOST_OF_PROGRAM = 500
"""The maximum number of learnings about programs that are read at once."""
_TEXTS = ("pattern", "error_type", "fix", "context", "error", "program", "subcommand", "session")
_TITLES = {"pattern": "pattern", "error_type": "name of the error", "fix": "fix", "context": "context"}


class LearningStore:
    """The learnings of a project, and the general ones. Each method is one transaction and may raise
    `StoreError`.
    """

    def __init__(
        self, database: Database, project: str, *, promote_after: int = 2, most_candidates: int = 300
    ) -> None:
        """Set up the store of a project.

        `promote_after` is how often a candidate must work to become a learning automatically (0: never).
        `most_candidates` is the number of candidates that are kept; older ones are deleted.
        """
        self._database = database
        self.project = project
        self._promote_after = promote_after
        self._most_candidates = most_candidates

    async def for_calls(self, calls: Sequence[str]) -> list[Learning]:
        """Return learnings about calls with these keys, the most certain first, without retired ones."""
        return await self._database.read(lambda c: for_calls(c, calls, self.project))

    async def for_failure(self, key: str) -> list[Learning]:
        """Return learnings about failures with this signature, the most certain first, without
        retired ones.
        """
        query = (
            "WHERE key = ? AND project IN (?, ?) AND status != 'retired' "
            "ORDER BY status = 'learning' DESC, confirmed DESC, id DESC"
        )
        return await self._database.read(lambda c: _select(c, query, (key, self.project, EVERYWHERE)))

    async def of_program(self, programs: Sequence[str]) -> list[Learning]:
        """Return active learnings about these programs that were written by the user or the agent."""
        query = (
            f"WHERE project IN (?, ?) AND program IN ({_marks(programs)}) AND status = 'learning' "
            "AND origin != 'observed' ORDER BY confirmed DESC, id DESC LIMIT ?"
        )
        values = (self.project, EVERYWHERE, *programs, _MOST_OF_PROGRAM)
        return await self._database.read(lambda c: _select(c, query, values))

    async def keep(self, learning: Learning, calls: Iterable[str] = ()) -> Learning:
        """Store a learning, or merge it into an equivalent one; return the stored one.

        `calls` are the keys of the failed calls.
        """
        keys = tuple(calls)

        def work(connection: Connection) -> Learning:
            kept = _keep(connection, learning, keys, self._promote_after)
            if kept.status == "candidate":
                self._thin_out(connection, kept.project)
            return kept

        return await self._database.write(work)

    def _thin_out(self, connection: Connection, project: str) -> None:
        """Delete the oldest candidates of a project beyond the limit."""
        rows = connection.execute(
            "SELECT id FROM learnings WHERE project = ? AND status = 'candidate' "
            "ORDER BY updated_at DESC, id DESC LIMIT -1 OFFSET ?",
            (project, self._most_candidates),
        )
        for (learning,) in rows.fetchall():
            _remove(connection, learning)

    async def replace(self, learning: Learning, calls: Iterable[str] = ()) -> Learning:
        """Update a stored learning, and merge equivalent ones into it; return the result."""
        keys = tuple(calls)

        def work(connection: Connection) -> Learning:
            _link(connection, learning, keys)
            whole = learning
            for other in _alike(connection, learning):
                whole = merge_learnings(whole, other)
                also = _calls(connection, other.id)
                _remove(connection, other.id)
                _link(connection, whole, also)
            _update(connection, whole)
            return whole

        return await self._database.write(work)

    async def add_outcome(
        self,
        learning: int,
        *,
        used: int = 0,
        confirmed: int = 0,
        refuted: int = 0,
        depends: Mapping[str, str] | None = None,
    ) -> Learning | None:
        """Add to the counts of a learning and return it; None if it does not exist.

        `depends` are new stamps, if any.
        """

        def change(known: Learning) -> Learning:
            counts = {"used": used, "confirmed": confirmed, "refuted": refuted}
            changed = after_use(known, **counts, promote_after=self._promote_after)
            if depends is not None:
                changed = replace(changed, depends=depends)
            return replace(changed, updated_at=time.time()) if confirmed or refuted else changed

        return await self._database.write(lambda c: _change(c, learning, change))

    async def set_status(self, learning: int, status: Status) -> Learning | None:
        """Change the status of a learning and return it; None if it does not exist.

        Reactivating a learning clears its refutations.
        """

        def change(known: Learning) -> Learning:
            refuted = 0 if status == "learning" else known.refuted
            return replace(known, status=status, refuted=refuted, updated_at=time.time())

        return await self._database.write(lambda c: _change(c, learning, change))

    async def get(self, learning: int) -> Learning | None:
        """Return the learning with this number; None if it does not exist or applies to another project."""
        found = await self._database.read(lambda c: _get(c, learning))
        return found if found is not None and found.project in (self.project, EVERYWHERE) else None

    async def list_learnings(
        self, statuses: Sequence[Status] = (), *, all_projects: bool = False, limit: int = 1_000
    ) -> list[Learning]:
        """Return the learnings that apply to this project, or with `all_projects` those of all, the most
        certain and newest first.

        A limit of -1 means no limit.
        """
        where, values = ["1"], list[Any]()
        projects = None if all_projects else (self.project, EVERYWHERE)
        for name, wanted in (("project", projects), ("status", statuses or None)):
            if wanted is not None:
                where.append(f"{name} IN ({_marks(wanted)})")
                values += wanted
        query = (
            f"WHERE {' AND '.join(where)} ORDER BY status = 'learning' DESC, status = 'candidate' DESC, "
            "confirmed DESC, updated_at DESC, id DESC LIMIT ?"
        )
        return await self._database.read(lambda c: _select(c, query, (*values, limit)))

    async def search(
        self, query: str, statuses: Sequence[Status] = (), *, all_projects: bool = False, limit: int = 10
    ) -> list[Learning]:
        """Return up to `limit` learnings that contain words of `query`, those with most words first; any for
        an empty query.
        """
        found = await self.list_learnings(statuses, all_projects=all_projects)
        return matching(found, query)[:limit]

    async def remove(self, learning: int) -> bool:
        """Delete a learning; return False if there is none with that number."""
        return await self._database.write(lambda c: _remove(c, learning))


def matching(learnings: Sequence[Learning], query: str) -> list[Learning]:
    """Return the learnings that contain words of the query, those with most words first; all for an empty
    query.

    Learnings with equally many words keep their order. Pure.
    """
    wanted = query.lower().split()
    if not wanted:
        return list(learnings)
    scored = [(sum(word in text for word in wanted), each) for each in learnings for text in [_text(each)]]
    return [each for score, each in sorted(scored, key=lambda pair: -pair[0]) if score]


def _text(learning: Learning) -> str:
    parts = (
        *(learning.pattern, learning.error_type, learning.fix, learning.context, learning.program),
        *(learning.subcommand, learning.error, *learning.tags),
    )
    return " ".join(parts).lower()


class UnknownLearningError(HermesError):
    """No learning has that number."""

    def __init__(self, number: int) -> None:
        super().__init__(f"There is no learning {number}; `hermes learnings list` shows what there is.")


@dataclass(frozen=True, slots=True)
class LearningChange:
    """One change to a learning, recorded so that it can be undone."""

    before: Learning | None
    """The earlier learning; None for a new one."""
    after: Learning | None
    """The new learning; None for a deleted one."""
    calls: tuple[str, ...] = ()
    """The earlier keys of its calls."""


@dataclass(frozen=True, slots=True)
class LearningBook:
    """The learnings of all projects, for use in one project. All methods may raise `HermesError`."""

    database: Database
    workspace: Path
    root: Path
    """The root of the project."""
    store: LearningStore
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Values masked in stored texts, by name."""

    async def look(
        self, query: str = "", statuses: Sequence[Status] = (), *, all_projects: bool = False
    ) -> list[Learning]:
        """Return the learnings that apply to this project, or with `all_projects` those of all, the most
        certain first.

        With a query only matching ones are returned, those with most words first.
        """
        return matching(await self.store.list_learnings(statuses, all_projects=all_projects, limit=-1), query)

    async def get(self, number: int) -> Learning:
        """Return a learning of any project. Raises `UnknownLearningError`."""
        found = await self.database.read(lambda c: _get(c, number))
        if found is None:
            raise UnknownLearningError(number)
        return found

    async def add(self, note: LearningNote) -> LearningChange:
        """Add a learning from the user, or merge it; return the change. Raises `LearningRefusedError`."""
        note = self._check_lengths(note)
        if not note.pattern or not note.fix:
            raise LearningRefusedError("Say what fails, and what works instead; both are needed.")
        project = EVERYWHERE if note.everywhere else self.store.project
        new, call = from_note(note, project, "person"), call_key(note.pattern, self.workspace)

        def work(connection: Connection) -> LearningChange:
            query = "WHERE key = ? AND project = ?"
            known = {each.id: each for each in _select(connection, query, (new.key, project))}
            calls = {number: _calls(connection, number) for number in known}
            kept = _keep(connection, new, [call])
            if kept.refuted:
                kept = replace(kept, refuted=0)
                _update(connection, kept)
            return LearningChange(known.get(kept.id), kept, calls.get(kept.id, ()))

        return await self.database.write(work)

    async def reword(self, number: int, fix: str) -> LearningChange:
        """Replace the fix of a learning and return the change. Raises `LearningRefusedError`."""
        note = self._check_lengths(LearningNote(fix=fix))
        if not note.fix:
            raise LearningRefusedError("Say what works; an empty fix helps nobody.")
        known = await self.get(number)
        if note.fix == known.fix:
            return LearningChange(known, known)
        # Reworded by the user, it no longer says what was observed to work.
        changed = replace(known, fix=note.fix, fix_kind="words", fix_key="", origin="person")
        return await self._describe_change(known, replace(changed, updated_at=time.time()))

    async def confirm(self, number: int) -> LearningChange:
        """Confirm a learning, so that it is shown and its calls are held back; return the change."""
        known = await self.get(number)
        changed = replace(
            known,
            status="learning",
            origin="person",
            confirmed=known.confirmed + 1,
            refuted=0,
            updated_at=time.time(),
            depends=await asyncio.to_thread(restamped, known.depends, self.root),
        )
        return await self._describe_change(known, changed)

    async def remove(self, number: int) -> LearningChange:
        """Delete a learning of any project and return the change. Raises `UnknownLearningError`."""

        def work(connection: Connection) -> LearningChange:
            known, calls = _get(connection, number), _calls(connection, number)
            if known is None:
                raise UnknownLearningError(number)
            _remove(connection, number)
            return LearningChange(known, None, calls)

        return await self.database.write(work)

    async def take_back(self, change: LearningChange) -> None:
        """Undo a change: remove the new learning and restore the earlier one."""

        def work(connection: Connection) -> None:
            if change.after is not None:
                _remove(connection, change.after.id)
            if change.before is not None:
                _insert(connection, change.before)
                _link(connection, change.before, change.calls)

        await self.database.write(work)

    async def _describe_change(self, known: Learning, changed: Learning) -> LearningChange:
        def work(connection: Connection) -> LearningChange:
            calls = _calls(connection, known.id)
            _update(connection, changed)
            return LearningChange(known, changed, calls)

        return await self.database.write(work)

    def _check_lengths(self, note: LearningNote) -> LearningNote:
        """Return the checked note. Raises `LearningRefusedError` for texts that are too long: texts of the
        user are never cut, unlike those of the agent.
        """
        for name, most in LONGEST.items():
            if (size := len(" ".join(getattr(note, name).split()))) > most:
                raise LearningRefusedError(
                    f"The {_TITLES[name]} has {size:,} characters; at most {most:,} are kept."
                )
        return check_note(note, self.secrets)


def learning_book(
    database: Database, workspace: Path, settings: LearningSettings, secrets: Mapping[str, str]
) -> LearningBook:
    """Return the book of learnings for a workspace. Searches the disk for the root of the project."""
    root = project_root(workspace)
    store = LearningStore(
        database, project_id(root), promote_after=settings.promote_after, most_candidates=settings.candidates
    )
    return LearningBook(database, workspace, root, store, secrets)


# Rows


def for_calls(connection: Connection, calls: Sequence[str], project: str) -> list[Learning]:
    """Return learnings of a project about calls with these keys, without retired ones."""
    query = (
        f"WHERE id IN (SELECT learning FROM learning_calls WHERE call IN ({_marks(calls)}) "
        "AND project IN (?, ?)) AND status != 'retired' "
        "ORDER BY status = 'learning' DESC, confirmed DESC, id DESC"
    )
    return _select(connection, query, (*calls, project, EVERYWHERE))


def _select(connection: Connection, query: str, values: Sequence[Any]) -> list[Learning]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM learnings {query}", values)
    return [_learning(row) for row in rows]


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def _get(connection: Connection, learning: int) -> Learning | None:
    return next(iter(_select(connection, "WHERE id = ?", (learning,))), None)


def _calls(connection: Connection, learning: int) -> tuple[str, ...]:
    """Return the keys of the calls that a learning is about."""
    rows = connection.execute("SELECT call FROM learning_calls WHERE learning = ? ORDER BY call", (learning,))
    return tuple(call for (call,) in rows)


def _keep(connection: Connection, new: Learning, calls: Iterable[str], promote_after: int = 0) -> Learning:
    """Store a learning, or merge it into an equivalent one; return the stored one.

    `calls` are the keys of the failed calls. A candidate that worked `promote_after` times becomes a learning
    (0: never).
    """
    new, keys = _storable(new), [call for call in calls if call]
    known = _find_known(connection, new, keys)
    if known is None:
        kept = _insert(connection, new)
    else:
        kept = merge_learnings(known, new)
        if new.origin == "observed":
            kept = after_use(kept, confirmed=1, promote_after=promote_after)
        _update(connection, kept)
    _link(connection, kept, keys)
    return kept


def _find_known(connection: Connection, new: Learning, calls: Sequence[str]) -> Learning | None:
    """Return the stored learning that is equivalent to `new`; None if there is none.

    Two observed learnings about one failure of one call are equivalent whatever their fix is. The fix may
    differ each time, as a free port does.
    """
    if alike := _alike(connection, new):
        return alike[0]
    if new.origin != "observed":
        return None
    query = (
        "WHERE key = ? AND project = ? AND origin = 'observed' "
        f"AND id IN (SELECT learning FROM learning_calls WHERE call IN ({_marks(calls)})) ORDER BY id"
    )
    return next(iter(_select(connection, query, (new.key, new.project, *calls))), None)


def _alike(connection: Connection, learning: Learning) -> list[Learning]:
    """Return the equivalent learnings of the project, oldest first."""
    others = _select(connection, "WHERE project = ? AND id != ? ORDER BY id", (learning.project, learning.id))
    return [each for each in others if same(each, learning)]


def _insert(connection: Connection, learning: Learning) -> Learning:
    """Insert a row and return the learning with its number, which is new if it had none."""
    values = _row(_storable(learning))
    cursor = connection.execute(
        f"INSERT INTO learnings ({', '.join(_NAMES)}) VALUES (?, {_MARKS})",
        (learning.id or None, *values[1:]),
    )
    assert cursor.lastrowid is not None
    return replace(learning, id=cursor.lastrowid)


def _link(connection: Connection, learning: Learning, calls: Iterable[str]) -> None:
    """Link a learning to the keys of the failing calls."""
    connection.executemany(
        "INSERT OR IGNORE INTO learning_calls (call, project, learning) VALUES (?, ?, ?)",
        [(call, learning.project, learning.id) for call in calls if call],
    )


def _change(connection: Connection, number: int, change: Callable[[Learning], Learning]) -> Learning | None:
    known = _get(connection, number)
    if known is None:
        return None
    changed = change(known)
    _update(connection, changed)
    return changed


def _update(connection: Connection, learning: Learning) -> None:
    """Update a stored learning, and move the links to its calls to the same project."""
    connection.execute(
        f"UPDATE learnings SET {_SETS} WHERE id = ?", (*_row(_storable(learning))[1:], learning.id)
    )
    connection.execute(
        "UPDATE learning_calls SET project = ? WHERE learning = ? AND project != ?",
        (learning.project, learning.id, learning.project),
    )


def _remove(connection: Connection, learning: int) -> bool:
    connection.execute("DELETE FROM learning_calls WHERE learning = ?", (learning,))
    return connection.execute("DELETE FROM learnings WHERE id = ?", (learning,)).rowcount > 0


def _row(learning: Learning) -> tuple[Any, ...]:
    return tuple(_cell(getattr(learning, name)) for name in _NAMES)


def _cell(value: Any) -> Any:
    if isinstance(value, tuple):
        return json.dumps(list(value), ensure_ascii=False)
    return value if isinstance(value, (str, int, float)) or value is None else json.dumps(dict(value))


def _learning(row: Sequence[Any]) -> Learning:
    values = dict(zip(_NAMES, row, strict=True))
    return Learning(
        **values
        | {
            "tags": tuple(map(str, _parse_json(values["tags"], []))),
            "evidence": _parse_json(values["evidence"], {}),
            "depends": _parse_json(values["depends"], {}),
        }
    )


def _parse_json(text: Any, otherwise: Any) -> Any:
    """Parse JSON of a row; return `otherwise` if it is invalid."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        return otherwise
    return found if isinstance(found, type(otherwise)) else otherwise


def _storable(learning: Learning) -> Learning:
    texts = {name: storable(getattr(learning, name)) for name in _TEXTS}
    return replace(learning, **texts, tags=tuple(map(storable, learning.tags)))

"""Learnings as rows of the store. Plain functions on a connection, run as transactions."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from sqlite3 import Connection
from typing import Any

from agent.core.store.nodes import storable
from agent.knowledge.learnings.learning import Learning, Status, after_use, merged, same
from agent.knowledge.learnings.signature import EVERYWHERE

_NAMES = tuple(field.name for field in fields(Learning))
_COLUMNS = ", ".join(_NAMES)
_OF_LEARNING = ", ".join(f"learnings.{name}" for name in _NAMES)
_MARKS = ", ".join("?" * (len(_NAMES) - 1))
_SETS = ", ".join(f"{name} = ?" for name in _NAMES[1:])
_SCANNED = 500
"""Rows that are looked through for one in words."""


def for_calls(connection: Connection, calls: Sequence[str], project: str) -> list[Learning]:
    """What is known of calls with these keys in a project, retired ones left out."""
    marks = ", ".join("?" * len(calls))
    rows = connection.execute(
        f"SELECT DISTINCT {_OF_LEARNING} FROM learning_calls JOIN learnings ON learnings.id = learning "
        f"WHERE call IN ({marks}) AND learning_calls.project IN (?, ?) AND status != 'retired' "
        "ORDER BY status = 'learning' DESC, confirmed DESC, learnings.id DESC",
        (*calls, project, EVERYWHERE),
    )
    return [_learning(row) for row in rows]


def for_failure(connection: Connection, key: str, project: str) -> list[Learning]:
    """What is known of failures with a signature, the surest first; retired ones left out."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM learnings WHERE key = ? AND project IN (?, ?) AND status != 'retired' "
        "ORDER BY status = 'learning' DESC, confirmed DESC, id DESC",
        (key, project, EVERYWHERE),
    )
    return [_learning(row) for row in rows]


def of_program(connection: Connection, programs: Sequence[str], project: str) -> list[Learning]:
    """Learnings in force about programs, those that somebody wrote down."""
    marks = ", ".join("?" * len(programs))
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM learnings WHERE project IN (?, ?) AND program IN ({marks}) "
        "AND status = 'learning' AND origin != 'observed' ORDER BY confirmed DESC, id DESC LIMIT ?",
        (project, EVERYWHERE, *programs, _SCANNED),
    )
    return [_learning(row) for row in rows]


def keep(connection: Connection, new: Learning, calls: Iterable[str], promote_after: int = 0) -> Learning:
    """Write a learning down, or add it to the one that says the same; what is kept then.

    `calls` are the keys of the calls that failed so. A candidate that was seen to work for the
    `promote_after`-th time becomes a learning (0: never).
    """
    new, keys = _storable(new), [call for call in calls if call]
    known = _known(connection, new, keys)
    if known is None:
        cursor = connection.execute(
            f"INSERT INTO learnings ({', '.join(_NAMES[1:])}) VALUES ({_MARKS})", _row(new)[1:]
        )
        assert cursor.lastrowid is not None
        kept = replace(new, id=cursor.lastrowid)
    else:
        kept = merged(known, new)
        if new.origin == "observed":
            kept = after_use(kept, confirmed=1, promote_after=promote_after)
        update(connection, kept)
    link(connection, kept, keys)
    return kept


def _known(connection: Connection, new: Learning, calls: Sequence[str]) -> Learning | None:
    """What says the same as `new` already.

    Where nobody vouches for either, one that was observed of the same call says the same, whatever worked:
    what works is then different each time, as a free port is.
    """
    if alike := next(_alike(connection, new), None):
        return alike
    found = of_key(connection, new.key, new.project)
    observed = [each for each in found if each.origin == new.origin == "observed"]
    return next((each for each in observed if _fails(connection, each, calls)), None)


def _alike(connection: Connection, learning: Learning) -> Iterator[Learning]:
    """The others of the project that say the same, oldest first."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM learnings WHERE project = ? AND id != ? ORDER BY id",
        (learning.project, learning.id),
    )
    yield from (each for each in map(_learning, rows.fetchall()) if same(each, learning))


def become_one(connection: Connection, learning: Learning) -> Learning:
    """Have what else says the same as one that is kept become part of it; what it is then."""
    for other in list(_alike(connection, learning)):
        learning = merged(learning, other)
        also = calls(connection, other.id)
        remove(connection, other.id)
        link(connection, learning, also)
    update(connection, learning)
    return learning


def _fails(connection: Connection, learning: Learning, calls: Sequence[str]) -> bool:
    """Whether a learning is about one of these calls."""
    marks = ", ".join("?" * len(calls))
    row = connection.execute(
        f"SELECT 1 FROM learning_calls WHERE learning = ? AND call IN ({marks})", (learning.id, *calls)
    ).fetchone()
    return row is not None


def link(connection: Connection, learning: Learning, calls: Iterable[str]) -> None:
    """Note that calls with these keys are what fails."""
    connection.executemany(
        "INSERT OR IGNORE INTO learning_calls (call, project, learning) VALUES (?, ?, ?)",
        [(call, learning.project, learning.id) for call in calls if call],
    )


def update(connection: Connection, learning: Learning) -> None:
    """Write what has changed of a learning that is kept; its calls are found where it holds."""
    connection.execute(
        f"UPDATE learnings SET {_SETS} WHERE id = ?", (*_row(_storable(learning))[1:], learning.id)
    )
    connection.execute(
        "UPDATE learning_calls SET project = ? WHERE learning = ? AND project != ?",
        (learning.project, learning.id, learning.project),
    )


def count(
    connection: Connection,
    learning: int,
    *,
    used: int = 0,
    confirmed: int = 0,
    refuted: int = 0,
    depends: Mapping[str, str] | None = None,
    promote_after: int = 0,
) -> Learning | None:
    """Add to what happened with a learning, with new stamps if given; None if it is gone."""
    found = get(connection, learning)
    if found is None:
        return None
    changed = after_use(found, used=used, confirmed=confirmed, refuted=refuted, promote_after=promote_after)
    if depends is not None:
        changed = replace(changed, depends=depends)
    if confirmed or refuted:
        changed = replace(changed, updated_at=time.time())
    update(connection, changed)
    return changed


def set_status(connection: Connection, learning: int, status: Status) -> Learning | None:
    """Change what a learning counts as; one that is in force again begins without refutations."""
    found = get(connection, learning)
    if found is None:
        return None
    refuted = 0 if status == "learning" else found.refuted
    changed = replace(found, status=status, refuted=refuted, updated_at=time.time())
    update(connection, changed)
    return changed


def get(connection: Connection, learning: int) -> Learning | None:
    """One by its number."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM learnings WHERE id = ?", (learning,)).fetchone()
    return None if row is None else _learning(row)


def listed(
    connection: Connection,
    projects: Sequence[str] | None = None,
    statuses: Sequence[Status] = (),
    limit: int = 1_000,
) -> list[Learning]:
    """Learnings of projects (None: of all), the surest and newest first."""
    where, values = ["1"], list[Any]()
    for name, wanted in (("project", projects), ("status", statuses or None)):
        if wanted is not None:
            where.append(f"{name} IN ({', '.join('?' * len(wanted))})")
            values += wanted
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM learnings WHERE {' AND '.join(where)} "
        "ORDER BY status = 'learning' DESC, status = 'candidate' DESC, confirmed DESC, "
        "updated_at DESC, id DESC LIMIT ?",
        (*values, limit),
    )
    return [_learning(row) for row in rows]


def of_key(connection: Connection, key: str, project: str) -> list[Learning]:
    """All of one signature in one project, whatever they count as, oldest first."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM learnings WHERE key = ? AND project = ? ORDER BY id", (key, project)
    )
    return [_learning(row) for row in rows]


def calls(connection: Connection, learning: int) -> tuple[str, ...]:
    """The keys of the calls that one is about."""
    rows = connection.execute("SELECT call FROM learning_calls WHERE learning = ? ORDER BY call", (learning,))
    return tuple(call for (call,) in rows)


def put_back(connection: Connection, learning: Learning, calls: Iterable[str]) -> None:
    """Write one that was removed down again, under its number."""
    values = _row(_storable(learning))
    connection.execute(f"INSERT INTO learnings ({_COLUMNS}) VALUES (?, {_MARKS})", values)
    link(connection, learning, calls)


def remove(connection: Connection, learning: int) -> bool:
    """Forget one; False if there is none of that number."""
    connection.execute("DELETE FROM learning_calls WHERE learning = ?", (learning,))
    return connection.execute("DELETE FROM learnings WHERE id = ?", (learning,)).rowcount > 0


def thin_out(connection: Connection, project: str, most: int) -> int:
    """Forget the oldest candidates of a project beyond `most`; how many."""
    rows = connection.execute(
        "SELECT id FROM learnings WHERE project = ? AND status = 'candidate' "
        "ORDER BY updated_at DESC, id DESC LIMIT -1 OFFSET ?",
        (project, most),
    ).fetchall()
    for (learning,) in rows:
        remove(connection, learning)
    return len(rows)


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
            "tags": tuple(map(str, _parsed(values["tags"], []))),
            "evidence": _parsed(values["evidence"], {}),
            "depends": _parsed(values["depends"], {}),
        }
    )


def _parsed(text: Any, otherwise: Any) -> Any:
    """JSON of a row; a damaged one counts as empty."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        return otherwise
    return found if isinstance(found, type(otherwise)) else otherwise


def _storable(learning: Learning) -> Learning:
    texts = {
        name: storable(getattr(learning, name))
        for name in ("pattern", "error_type", "fix", "context", "error", "program", "subcommand", "session")
    }
    return replace(learning, **texts, tags=tuple(map(storable, learning.tags)))

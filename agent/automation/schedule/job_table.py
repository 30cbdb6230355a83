"""The database tables of jobs and their runs."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from agent.automation.schedule.job import (
    DueTime,
    Job,
    JobIntent,
    JobRun,
    JobState,
    decide,
    following,
    never_due,
    unreadable,
)
from agent.automation.schedule.zones import ScheduleError
from agent.core.store.locks import SessionLock
from agent.core.store.nodes import storable
from tools.text.words import plural

_RUN = ", ".join(field.name for field in fields(JobRun))
_JOBS = "SELECT id, intent, state, anchor, looked, next, runs FROM jobs"
MOST_CUTS = 3
KEPT_RUNS = 200
"""The number of runs of each job that are kept."""
LOOKED_AT_AGAIN = 3600
"""Seconds until a job whose due times cannot be computed is checked again."""
BACKOFF = (60, 300, 1800, 7200, 21_600, 43_200, 86_400)
"""Seconds to wait after each failed attempt to deliver."""


def jobs(connection: Connection) -> list[Job]:
    """Return all jobs, sorted by next due time; finished ones are last."""
    rows = connection.execute(f"{_JOBS} ORDER BY state = 'done', next IS NULL, next, id")
    return [_job(row) for row in rows]


def job(connection: Connection, id: str) -> Job:
    """Return the job with an id, a name or a unique start of an id. Raises `ScheduleError`."""
    row = connection.execute(f"{_JOBS} WHERE id = ?", (id,)).fetchone()
    if row is not None:
        return _job(row)
    found = [each for each in jobs(connection) if id and each.intent.name == id]
    found = found or [each for each in jobs(connection) if id and each.id.startswith(id)]
    if len(found) != 1:
        what = "is more than one job" if found else "is not a job"
        raise ScheduleError(f"{id[:40]!r} {what}; `hermes cron list` shows them.")
    return found[0]


def _job(row: tuple[Any, ...]) -> Job:
    id, stored, state, anchor, looked, next_, runs = row
    intent = JobIntent.from_json(stored)
    # Known from here on: on the event loop, lists of many jobs would make a key wait.
    unreadable(*intent.timing)
    return Job(
        id=id,
        intent=intent,
        state=state,
        anchor=anchor,
        looked=looked,
        next=next_,
        runs=runs,
    )


def add(connection: Connection, intent: JobIntent, now: int) -> Job:
    """Store a new job and return it. Raises `ScheduleError` if another job has its name."""
    require_free(connection, intent.name)
    new = Job(
        id=secrets.token_hex(4), intent=intent, state="active", anchor=now, looked=now, next=None, runs=0
    )
    new = replace(new, next=following(new, now))
    connection.execute("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?)", _row(new))
    return new


def require_free(connection: Connection, name: str, owner: str = "") -> None:
    """Raise `ScheduleError` if a job other than the one with the id `owner` has this name."""
    if name and any(each.intent.name == name and each.id != owner for each in jobs(connection)):
        raise ScheduleError(f"There is a job {name[:40]!r} already; give another name, or edit it.")


def store_job(connection: Connection, changed: Job) -> Job:
    """Insert or replace a job, and return it."""
    connection.execute("REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?)", _row(changed))
    return changed


def _row(job: Job) -> tuple[Any, ...]:
    intent = storable(job.intent.to_json())
    return (job.id, intent, job.state, job.anchor, job.looked, job.next, job.runs)


def set_state(connection: Connection, id: str, state: JobState, now: int) -> Job:
    """Pause or resume a job and return it. Runs due during a pause are not made up for."""
    found = job(connection, id)
    if found.state == state:
        return found
    looked = max(found.looked, now)
    soonest = following(found, looked) if state == "active" else None
    if state == "active" and soonest is None:
        raise never_due(found)
    return store_job(connection, replace(found, state=state, looked=looked, next=soonest))


def remove(connection: Connection, id: str) -> Job:
    """Delete a job and its runs, and return the job. Raises `ScheduleError` if it does not exist."""
    found = job(connection, id)
    connection.execute("DELETE FROM jobs WHERE id = ?", (found.id,))
    connection.execute("DELETE FROM job_runs WHERE job = ?", (found.id,))
    return found


def put_back(connection: Connection, removed: Job, runs: Sequence[JobRun], now: int) -> Job:
    """Restore a deleted job with its runs, and return it. Runs due in the meantime are not made up for.

    Raises `ScheduleError` if another job now has its name.
    """
    if removed.intent.name and any(each.intent.name == removed.intent.name for each in jobs(connection)):
        raise ScheduleError(f"There is another job {removed.intent.name[:40]!r} now; rename that one first.")
    looked = max(now, removed.looked)
    try:
        soonest = following(removed, looked) if removed.state == "active" else None
    except ScheduleError:
        soonest = removed.next
    state: JobState = "done" if removed.state == "active" and soonest is None else removed.state
    for each in runs:
        values = {**asdict(each), "receipt": json.dumps(dict(each.receipt))}
        connection.execute(
            f"INSERT OR IGNORE INTO job_runs ({_RUN}) VALUES ({', '.join(f':{name}' for name in values)})",
            values,
        )
    return store_job(connection, replace(removed, state=state, looked=looked, next=soonest))


def decide_due(connection: Connection, now: int, grace: float) -> int:
    """Store a run, waiting or skipped, for each due time that has passed, or one failed run if a job's times
    cannot be computed; return how many are waiting.
    """
    rows = connection.execute(
        f"{_JOBS} WHERE state = 'active' AND next <= ? ORDER BY next", (now,)
    ).fetchall()
    waiting = 0
    for due in map(_job, rows):
        try:
            waiting += _decide(connection, due, now, grace)
        except ScheduleError as error:
            _put_off(connection, due, now, str(error))
    return waiting


def _put_off(connection: Connection, broken: Job, now: int, why: str) -> None:
    """Store one failed run that tells why a job's due times cannot be computed.

    The job is checked again later, since its time zone may become available.
    """
    told = connection.execute(
        "SELECT 1 FROM job_runs WHERE job = ? AND why = 'due' AND state = 'failed' AND due > ?",
        (broken.id, broken.looked * 1000),
    ).fetchone()
    if told is None:
        # No due time of the schedule: those are whole seconds, and are made up for once it parses again.
        due = (broken.next or now) * 1000 + 1
        delivery = "" if broken.intent.deliver == "none" else "waiting"
        connection.execute(
            "INSERT OR IGNORE INTO job_runs "
            "(job, due, why, state, earliest, started, ended, error, delivery) "
            "VALUES (?, ?, 'due', 'failed', ?, ?, ?, ?, ?)",
            (broken.id, due, now, now, now, storable(broken.problem or why), delivery),
        )
    connection.execute("UPDATE jobs SET next = ? WHERE id = ?", (now + LOOKED_AT_AGAIN, broken.id))


def _decide(connection: Connection, due: Job, now: int, grace: float) -> int:
    busy = connection.execute(
        "SELECT 1 FROM job_runs WHERE job = ? AND state IN ('waiting', 'running')", (due.id,)
    ).fetchone()
    decision = decide(due, now, grace, busy is not None)
    for at, why, reason in decision.skip:
        _claim(connection, due.id, at, why, "skipped", reason)
    for at, why in decision.run:
        _claim(connection, due.id, at, why, "waiting", "")
    state: JobState = "active" if decision.next is not None else "done"
    runs = due.runs + len(decision.run)
    store_job(connection, replace(due, state=state, looked=decision.looked, next=decision.next, runs=runs))
    connection.execute(
        "DELETE FROM job_runs WHERE job = ? AND delivery != 'waiting' "
        "AND state NOT IN ('waiting', 'running') "
        "AND id NOT IN (SELECT id FROM job_runs WHERE job = ? ORDER BY due DESC LIMIT ?)",
        (due.id, due.id, KEPT_RUNS),
    )
    return len(decision.run)


def _claim(connection: Connection, id: str, at: DueTime, why: str, state: str, error: str) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO job_runs (job, due, why, state, earliest, error) VALUES (?, ?, ?, ?, ?, ?)",
        (id, at.due * 1000, why, state, at.begins, error),
    )


def ask_for(connection: Connection, id: str, now_ms: int, why: str = "asked") -> JobRun:
    """Request a run now, and return it. Raises `ScheduleError` if a run is active."""
    found = job(connection, id)
    busy = connection.execute(
        "SELECT 1 FROM job_runs WHERE job = ? AND state IN ('waiting', 'running')", (found.id,)
    ).fetchone()
    if busy is not None:
        raise ScheduleError(f"The job {found.title!r} is already running; wait for it.")
    # Due times of the schedule are whole seconds, so one asked for never takes the place of one.
    due = now_ms
    while due % 1000 == 0 or _is_taken(connection, found.id, due):
        due += 1
    cursor = connection.execute(
        "INSERT INTO job_runs (job, due, why, state, earliest) VALUES (?, ?, ?, 'waiting', ?)",
        (found.id, due, why, due // 1000),
    )
    assert cursor.lastrowid is not None
    return run(connection, cursor.lastrowid)


def _is_taken(connection: Connection, job: str, due: int) -> bool:
    row = connection.execute("SELECT 1 FROM job_runs WHERE job = ? AND due = ?", (job, due)).fetchone()
    return row is not None


def run(connection: Connection, id: int) -> JobRun:
    """Return the run with an id.

    Raises `ScheduleError` if it does not exist, for example after its job was deleted.
    """
    row = connection.execute(f"SELECT {_RUN} FROM job_runs WHERE id = ?", (id,)).fetchone()
    if row is None:
        raise ScheduleError(f"There is no run {id}; `hermes cron log` shows them.")
    return _run(row)


def _run(row: tuple[Any, ...]) -> JobRun:
    values = dict(zip((field.name for field in fields(JobRun)), row, strict=True))
    return JobRun(**{**values, "receipt": json.loads(values["receipt"])})


def open_runs(connection: Connection) -> list[JobRun]:
    """Return all unfinished runs: first those that have begun, then the others, each sorted by due time."""
    rows = connection.execute(
        f"SELECT {_RUN} FROM job_runs WHERE state IN ('waiting', 'running') ORDER BY state, due, id"
    )
    return [_run(row) for row in rows]


def runs_of(connection: Connection, id: str, count: int) -> list[JobRun]:
    """Return the newest `count` runs of a job, newest first; of all jobs if `id` is empty."""
    rows = connection.execute(
        f"SELECT {_RUN} FROM job_runs WHERE ? IN ('', job) ORDER BY due DESC, id DESC LIMIT ?", (id, count)
    )
    return [_run(row) for row in rows]


def begin(connection: Connection, id: int, now: float) -> JobRun | None:
    """Mark a run as started, or as resumed after an interruption, and return it.

    Returns None if it does not exist, has ended, was interrupted too often, or must wait for another run.
    """
    row = connection.execute(f"SELECT {_RUN} FROM job_runs WHERE id = ?", (id,)).fetchone()
    if row is None:
        return None
    found = _run(row)
    if found.state == "waiting":
        if _waits_for_another(connection, found):
            return None
        connection.execute("UPDATE job_runs SET state = 'running', started = ? WHERE id = ?", (now, id))
    elif found.state == "running":
        cuts = found.cuts + 1
        if cuts >= MOST_CUTS:
            end(connection, id, "interrupted", now, "", f"cut off {plural(cuts, 'time')}", {}, "")
            return None
        connection.execute("UPDATE job_runs SET cuts = ? WHERE id = ?", (cuts, id))
    else:
        return None
    return run(connection, id)


def _waits_for_another(connection: Connection, wanted: JobRun) -> bool:
    """Return whether a running or interrupted run of the same job must end before this one."""
    row = connection.execute(
        "SELECT 1 FROM job_runs, jobs WHERE jobs.id = job AND job = ? AND job_runs.state = 'running' "
        f"AND {_intent_sql('overlap', 'skip')} != 'parallel'",
        (wanted.job,),
    ).fetchone()
    return row is not None


def _intent_sql(name: str, default: str) -> str:
    """Return an SQL expression for a value in a job's definition.

    For invalid JSON it gives the default, so that the query does not fail for all jobs.
    """
    return f"coalesce(CASE WHEN json_valid(intent) THEN json_extract(intent, '$.{name}') END, '{default}')"


def in_session(connection: Connection, id: int, session: str) -> None:
    """Store the session in which a run works."""
    connection.execute("UPDATE job_runs SET session = ? WHERE id = ?", (session, id))


def end(
    connection: Connection,
    id: int,
    state: str,
    now: float,
    output: str,
    error: str,
    receipt: Mapping[str, Any],
    delivery: str,
) -> None:
    """Store the end and result of a run. `delivery` is `waiting` if its output must be delivered."""
    connection.execute(
        "UPDATE job_runs SET state = ?, ended = ?, output = ?, error = ?, receipt = ?, delivery = ? "
        "WHERE id = ? AND state = 'running'",
        (state, now, storable(output), storable(error), storable(json.dumps(receipt)), delivery, id),
    )


def to_deliver(connection: Connection, now: float, kinds: str) -> list[tuple[Job, JobRun]]:
    """Return the runs whose output must be delivered now, each with its job.

    If `kinds` is `notice`, these are only those of jobs that deliver notices, else only those of other jobs.
    """
    rows = connection.execute(
        f"SELECT {_RUN} FROM job_runs WHERE delivery = 'waiting' AND retry <= ? ORDER BY due", (now,)
    ).fetchall()
    if not rows:
        return []
    known = {each.id: each for each in jobs(connection)}
    found = [(known.get(each.job), each) for each in map(_run, rows)]
    return [
        (job, each)
        for job, each in found
        if job is not None and (job.intent.deliver == "notice") == (kinds == "notice")
    ]


def note_delivery(connection: Connection, id: int, now: float, problem: str) -> None:
    """Store the result of a delivery. After a problem it is retried later, up to a limit."""
    row = connection.execute("SELECT tries FROM job_runs WHERE id = ?", (id,)).fetchone()
    if row is None:
        # The job was removed meanwhile.
        return
    (tries,) = row
    if not problem:
        state, error = "done", ""
    else:
        state, error = ("waiting" if tries < len(BACKOFF) else "failed"), problem
    retry = now + BACKOFF[min(tries, len(BACKOFF) - 1)]
    connection.execute(
        "UPDATE job_runs SET delivery = ?, tries = ?, retry = ?, "
        "error = CASE ? WHEN '' THEN error ELSE ? END WHERE id = ?",
        (state, tries + 1, retry, error, storable(error), id),
    )


def waits(connection: Connection, now: float) -> tuple[bool, float | None]:
    """Return whether anything is pending, and when the first of it is due (seconds, UTC), or None."""
    (soonest,) = connection.execute("SELECT min(next) FROM jobs WHERE state = 'active'").fetchone()
    (earliest,) = connection.execute(
        "SELECT min(earliest) FROM job_runs WHERE state IN ('waiting', 'running')"
    ).fetchone()
    (retry,) = connection.execute(
        "SELECT min(retry) FROM job_runs, jobs WHERE jobs.id = job AND delivery = 'waiting' "
        f"AND {_intent_sql('deliver', 'notice')} != 'notice'"
    ).fetchone()
    times = [each for each in (soonest, earliest, retry) if each is not None]
    return bool(times), min(times) if times else None


def next_after(connection: Connection, now: float) -> float | None:
    """Return the earliest time after `now` at which a job, run or delivery is due; None if there is none."""
    (soonest,) = connection.execute(
        "SELECT min(due) FROM (SELECT next AS due FROM jobs WHERE state = 'active' "
        "UNION ALL SELECT earliest FROM job_runs WHERE state = 'waiting' "
        "UNION ALL SELECT retry FROM job_runs WHERE delivery = 'waiting') WHERE due > ?",
        (now,),
    ).fetchone()
    return soonest


RUNNER = "runner"


def lease(folder: Path) -> SessionLock:
    """Return the lock that only one job runner of a home folder can hold."""
    return SessionLock(folder, RUNNER)

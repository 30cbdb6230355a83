"""Jobs as a person, a surface or a tool changes them. Each method is one short transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from agent.automation.schedule import job_table as table
from agent.automation.schedule.editing import edited
from agent.automation.schedule.job import Job, JobIntent, JobRun, checked, iso
from agent.automation.schedule.needs import JobNeeds
from agent.automation.schedule.runner_lock import lease
from agent.automation.schedule.zones import ScheduleError, machine_zone
from agent.core.store.connection import Database

CLOSED = "Nothing runs while Hermes is closed; `hermes cron install` sets up what does."
_NAMES = frozenset(field.name for field in fields(JobIntent))
_NAMED = frozenset({"skills", "toolsets", "context_from", "cwd"})
"""What decides about things that have to be there."""


class JobBook:
    """The jobs of a home. All methods raise `HermesError`."""

    def __init__(
        self,
        database: Database,
        folder: Path,
        clock: Callable[[], float] = time.time,
        *,
        needs: JobNeeds | None = None,
    ) -> None:
        """`folder` is where runners keep their locks; `needs` looks whether what a new job names is there."""
        self._database = database
        self._folder = folder
        self._clock = clock
        self._needs = needs

    def _now(self) -> int:
        return int(self._clock())

    def is_watched(self) -> bool:
        """Whether some process runs what is due."""
        return lease(self._folder).is_held()

    async def jobs(self) -> list[Job]:
        """All jobs, those due first."""
        return await self._database.read(table.jobs)

    async def job(self, id: str) -> Job:
        """The job of an id, the start of one, or a name."""
        return await self._database.read(lambda c: table.job(c, id))

    async def add(self, wanted: Mapping[str, Any]) -> Job:
        """Keep a new job, by the fields of `JobIntent`."""
        intent = intended(JobIntent(schedule="", zone=machine_zone()), wanted)
        now = self._now()
        await self._require(intent)
        intent = checked(intent, now)
        return await self._database.write(lambda c: table.add(c, intent, now))

    async def edit(self, id: str, changes: Mapping[str, Any]) -> Job:
        """Change what a job means, see `edited`."""
        now = self._now()
        await self._require_own(id)
        if _NAMED & changes.keys():
            await self._require(intended((await self.job(id)).intent, changes))

        def work(connection: table.Connection) -> Job:
            found = table.job(connection, id)
            changed = edited(found, intended(found.intent, changes), now, "schedule" in changes)
            table.require_free(connection, changed.intent.name, found.id)
            return table.put(connection, changed)

        return await self._database.write(work)

    async def _require_own(self, id: str) -> None:
        if (await self.job(id)).beats:
            raise ScheduleError(
                "The heartbeat is no job of its own; HEARTBEAT.md and the settings under `heartbeat` say "
                "what it looks after and how often."
            )

    async def _require(self, intent: JobIntent) -> None:
        for other in intent.context_from:
            await self.job(other)
        if self._needs is not None:
            await self._needs.require(intent)

    async def pause(self, id: str) -> Job:
        """Let nothing be due until it is resumed."""
        await self._require_own(id)
        return await self._database.write(lambda c: table.set_state(c, id, "paused", self._now()))

    async def resume(self, id: str) -> Job:
        """Let it be due again, from now on."""
        await self._require_own(id)
        return await self._database.write(lambda c: table.set_state(c, id, "active", self._now()))

    async def remove(self, id: str) -> Job:
        """Forget it and its runs."""
        return await self._database.write(lambda c: table.remove(c, id))

    async def put_back(self, job: Job, runs: Sequence[JobRun]) -> Job:
        """Keep a job again that was removed, with these runs."""
        return await self._database.write(lambda c: table.put_back(c, job, runs, self._now()))

    async def ask_for(self, id: str, why: str = "asked") -> JobRun:
        """A run now; some runner takes it up."""
        now = int(self._clock() * 1000)
        return await self._database.write(lambda c: table.ask_for(c, id, now, why))

    async def runs(self, id: str = "", count: int = 20) -> list[JobRun]:
        """The newest runs of a job, or of all."""
        found = (await self.job(id)).id if id else ""
        return await self._database.read(lambda c: table.runs_of(c, found, count))

    async def run(self, id: int) -> JobRun:
        """One run."""
        return await self._database.read(lambda c: table.run(c, id))

    async def notices(self) -> list[tuple[Job, JobRun]]:
        """Runs whose output waits to be shown; they count as shown then."""
        now = self._clock()

        def work(connection: table.Connection) -> list[tuple[Job, JobRun]]:
            found = table.to_deliver(connection, now, "notice")
            for _, run in found:
                table.delivered(connection, run.id, now, "")
            return found

        if not await self._database.read(lambda c: table.to_deliver(c, now, "notice")):
            return []
        return await self._database.write(work)

    async def waits(self) -> tuple[bool, float | None]:
        """Whether there is anything to look after, and when the next thing is due (seconds)."""
        return await self._database.read(partial(table.waits, now=self._clock()))


def intended(before: JobIntent, wanted: Mapping[str, Any]) -> JobIntent:
    """The intent with what is wanted in place of what was. Raises `ScheduleError`. Pure."""
    values: dict[str, Any] = {}
    for name, value in wanted.items():
        if name not in _NAMES:
            raise ScheduleError(f"A job has no {name[:40]!r}; there are {', '.join(sorted(_NAMES))}.")
        if value is None:
            continue
        old = getattr(before, name)
        if isinstance(old, tuple):
            items = [value] if isinstance(value, str) else value
            if not isinstance(items, list | tuple) or not all(isinstance(each, str) for each in items):
                raise ScheduleError(f"The value of {name!r} is wrong; give a list of names.")
            value = tuple(items)
        kind = int if name in ("jitter", "repeat") else tuple if isinstance(old, tuple) else str
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ScheduleError(
                f"The value of {name!r} is wrong; give {'a number' if kind is int else 'text'}."
            )
        values[name] = value
    if values.get("prompt"):
        values.setdefault("script", "")
    elif values.get("script"):
        values.setdefault("prompt", "")
    return replace(before, **values)


def job_json(job: Job, last: JobRun | None = None) -> dict[str, Any]:
    """A job as an object, with its last run where it is known."""
    intent = {field.name: getattr(job.intent, field.name) for field in fields(JobIntent)}
    shown = {n: list(v) if isinstance(v, tuple) else v for n, v in intent.items()}
    found = {
        "id": job.id,
        "state": "heartbeat" if job.beats else job.state,
        "next": None if job.problem else iso(job.next),
        "runs": job.runs,
        **shown,
    }
    found["text"] = job.explained
    if job.problem:
        found["problem"] = job.problem
    if last is not None:
        found["last"] = last.as_json()
    return found

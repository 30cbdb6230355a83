"""The heartbeats of a home and of projects, kept as jobs that nothing but a reason or a person wakes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from agent.injection import scan
from agent.schedule import job_table as table
from agent.schedule.commands import run_command
from agent.schedule.heartbeat import HeartbeatState, beat, is_active, message, read_heartbeat
from agent.schedule.job import HEARTBEAT, Job, JobIntent
from agent.store.connection import Database

if TYPE_CHECKING:
    from agent.config.schedule import HeartbeatSettings
    from agent.home import Home

MAIL_SECONDS = 60


class Heartbeats:
    """Looks after all of them."""

    def __init__(
        self,
        database: Database,
        home: Home,
        settings: HeartbeatSettings,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._home = home
        self._settings = settings
        self._clock = clock

    async def look(self) -> float | None:
        """Beat where it is time; when the next beat is (seconds, UTC), None where there is no heartbeat."""
        soonest: list[float] = []
        for number, folder in enumerate([self._home.root, *map(Path, self._settings.projects)]):
            next_beat = await self._one(folder, f"{HEARTBEAT}-{number}" if number else HEARTBEAT)
            soonest += [next_beat] if next_beat is not None else []
        return min(soonest, default=None)

    async def _one(self, folder: Path, id: str) -> float | None:
        text = await asyncio.to_thread(read_heartbeat, folder)
        if not text or any(each.severity in ("high", "critical") for each in scan(text)):
            return None
        kept = self._home.schedule / f"{id}.json"
        state = await asyncio.to_thread(HeartbeatState.load, kept)
        now = self._clock()
        # A clock that was set back is no reason to wait longer than an interval.
        if state is not None and state.last <= now < state.last + self._settings.interval:
            return state.last + self._settings.interval
        if not is_active(self._settings.active, datetime.fromtimestamp(now)):
            return now + self._settings.interval

        async def mail(command: str) -> str:
            return (await run_command(command, folder, MAIL_SECONDS)).output

        reasons, seen = await beat(text, folder, state, now, self._settings, mail)
        if reasons:
            await self._wake(folder, id, message(text, reasons), now)
        await asyncio.to_thread(seen.save, kept)
        return now + self._settings.interval

    async def _wake(self, folder: Path, id: str, prompt: str, now: float) -> None:
        intent = JobIntent(
            schedule="every 30m",
            zone="UTC",
            name=id,
            prompt=prompt,
            cwd=str(folder),
            model=self._settings.model,
        )

        def work(connection: table.Connection) -> None:
            known = next((each for each in table.jobs(connection) if each.id == id), None)
            job = known or Job(
                id=id, intent=intent, state="paused", anchor=int(now), looked=int(now), next=None, runs=0
            )
            table.put(connection, replace(job, intent=intent))
            if not any(each.job == id for each in table.open_runs(connection)):
                table.ask_for(connection, id, int(now * 1000), "woken")

        await self._database.write(work)


async def last_session(database: Database, id: str) -> str:
    """The session in which the heartbeat goes on; empty before the first one."""
    runs = await database.read(lambda c: table.runs_of(c, id, 10))
    return next((each.session for each in runs if each.session), "")

"""The heartbeats of a home and of projects, kept as jobs that nothing but a reason or a person wakes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.automation.schedule import job_table as table
from agent.automation.schedule.durations import say_duration
from agent.automation.schedule.heartbeat import (
    FILE,
    HeartbeatState,
    MailSaid,
    beat,
    is_active,
    message,
    read_heartbeat,
)
from agent.automation.schedule.job import HEARTBEAT, Job, JobIntent, delivered_to, delivery_rule
from agent.automation.schedule.zones import ScheduleError
from agent.core.home import private_folder
from agent.core.store.connection import Database
from agent.core.store.locks import SessionLock
from agent.knowledge.injection import scan

if TYPE_CHECKING:
    from agent.core.config.sections import HeartbeatSettings
    from agent.core.home import Home

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
        if not text:
            return None
        flaw = _flaw(folder / FILE, text)
        kept = self._home.schedule / f"{id}.json"
        now = self._clock()
        idle, following = self._planned(await asyncio.to_thread(HeartbeatState.load, kept), flaw, now)
        lock = SessionLock(self._home.schedule, f"beat-{id}")
        if idle or not lock.acquire():
            return following
        try:
            # Another process may have done it meanwhile.
            state = await asyncio.to_thread(HeartbeatState.load, kept)
            idle, following = self._planned(state, flaw, now)
            if not idle:
                seen = await self._beat(folder, id, text, flaw, state, now)
                await asyncio.to_thread(seen.save, kept)
        finally:
            lock.release()
        return following

    def _planned(self, state: HeartbeatState | None, flaw: str, now: float) -> tuple[bool, float | None]:
        """Whether nothing is to be done now, and when the next beat is; None while the file has a flaw."""
        is_active_now = is_active(self._settings.active, datetime.fromtimestamp(now))
        if flaw:
            return not is_active_now or (state is not None and state.flaw == flaw), None
        interval = self._settings.interval
        # A clock that was set back is no reason to wait longer than an interval.
        if state is not None and state.last <= now < state.last + interval:
            return True, state.last + interval
        return not is_active_now, now + interval

    async def _beat(
        self, folder: Path, id: str, text: str, flaw: str, state: HeartbeatState | None, now: float
    ) -> HeartbeatState:
        """Look, and wake or tell; what is to be kept of it."""
        place = await asyncio.to_thread(self._place, folder)
        if flaw:
            before = state or HeartbeatState()
            # With the text as its prompt a run that a person asks for is refused as well.
            told = await self._tell(place, id, "file", flaw, message(text, []), now)
            return replace(before, flaw=flaw) if told else before
        reasons, seen = await beat(text, folder, state, now, self._settings, partial(self._mail, place))
        problem_before = state.problem if state is not None else ""
        if seen.problem not in ("", problem_before) and not await self._tell(
            place, id, "mail", seen.problem, "", now
        ):
            seen.problem = problem_before
        await self._wake(place, id, text, reasons, seen, now)
        return seen

    def _place(self, folder: Path) -> Path:
        """Where a heartbeat works: in its project; that of the home in a folder that commands may see."""
        return folder if folder != self._home.root else private_folder(self._home.scratch / HEARTBEAT)

    async def _mail(self, folder: Path, command: str) -> MailSaid:
        """What the mail command printed, or why it could not say anything."""
        from agent.automation.unattended.commands import UnattendedCommands

        commands = UnattendedCommands(home=self._home, surface="cron", environ=os.environ)
        ended = await commands.run(command, folder, MAIL_SECONDS, why=HEARTBEAT)
        if ended.refused:
            return MailSaid(problem=ended.refused)
        if ended.code and ended.output.strip():
            # An error is no mail: it would wake the model at each beat.
            return MailSaid(problem=f"The mail command failed: {ended.said}")
        return MailSaid(ended.output)

    async def _tell(self, folder: Path, id: str, why: str, problem: str, prompt: str, now: float) -> bool:
        """A notice about a beat, without a model; False while a run is at work: the next beat tells it."""

        def work(connection: table.Connection) -> None:
            table.put(connection, self._kept(connection, folder, id, prompt, now))
            asked = table.ask_for(connection, id, int(now * 1000), why)
            table.begin(connection, asked.id, now)
            table.end(connection, asked.id, "failed", now, "", problem, {}, "waiting")

        try:
            await self._database.write(work)
        except ScheduleError:
            return False
        return True

    def _kept(self, connection: table.Connection, folder: Path, id: str, prompt: str, now: float) -> Job:
        """The job that a heartbeat is kept as."""
        intent = JobIntent(
            schedule=f"every {say_duration(timedelta(seconds=int(self._settings.interval)))}",
            zone="UTC",
            name=id,
            prompt=prompt or f"Look at {FILE}.",
            cwd=str(folder),
            model=self._settings.model,
            deliver=delivered_to(self._settings.deliver),
            allow=(rule,) if (rule := delivery_rule(self._settings.deliver)) else (),
        )
        known = next((each for each in table.jobs(connection) if each.id == id), None)
        fresh = Job(id=id, intent=intent, state="paused", anchor=int(now), looked=int(now), next=None, runs=0)
        return replace(known or fresh, intent=intent)

    async def _wake(
        self, folder: Path, id: str, text: str, reasons: list[str], seen: HeartbeatState, now: float
    ) -> None:
        """Ask for a run where there are reasons, those of a run that got no answer included.

        What no run can be given now, because one is at work, waits for the next beat.
        """

        def work(connection: table.Connection) -> None:
            unused, is_open = _unused(connection, seen)
            wanted = list(dict.fromkeys([*unused, *seen.waiting, *reasons]))
            if not is_open:
                seen.asked, seen.run = [], 0
            seen.waiting = wanted
            if not wanted:
                return
            if any(each.job == id for each in table.open_runs(connection)):
                return
            table.put(connection, self._kept(connection, folder, id, message(text, wanted), now))
            seen.run = table.ask_for(connection, id, int(now * 1000), "woken").id
            seen.asked, seen.waiting = wanted, []

        if reasons or seen.asked or seen.waiting:
            await self._database.write(work)


def _flaw(file: Path, text: str) -> str:
    """Why a HEARTBEAT.md is not read to the model, as a sentence; empty where it may be. Pure."""
    for finding in scan(text):
        if finding.severity in ("high", "critical"):
            return (
                f"{file} is not read to the model: line {finding.first} reads like an attack "
                f"({finding.rule}: {finding.excerpt[:60]!r}); word it otherwise."
            )
    return ""


def _unused(connection: table.Connection, seen: HeartbeatState) -> tuple[list[str], bool]:
    """Reasons of the last run that the model never answered to, and whether that run is not over."""
    if not seen.asked:
        return [], False
    try:
        run = table.run(connection, seen.run)
    except ScheduleError:
        return [], False
    if run.state in ("waiting", "running"):
        return [], True
    # One that used tokens read its reasons, whatever became of it then.
    return (seen.asked if run.state == "failed" and not run.receipt.get("tokens") else []), False


async def last_session(database: Database, id: str) -> str:
    """The session in which the heartbeat goes on; empty before the first one."""
    runs = await database.read(lambda c: table.runs_of(c, id, 10))
    return next((each.session for each in runs if each.session), "")

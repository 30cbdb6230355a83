"""Heartbeats: regular checks of request files (HEARTBEAT.md), and the jobs that handle the requests."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from functools import partial
from pathlib import Path
from time import time as unix_time
from typing import TYPE_CHECKING

from agent.automation.schedule import job_table as table
from agent.automation.schedule.expression import parse_moment, say_duration
from agent.automation.schedule.job import HEARTBEAT, Job, JobIntent, delivery_rule, full_delivery
from agent.automation.schedule.zones import ScheduleError, machine_zone
from agent.core.home import PRIVATE_FILE, private_folder
from agent.core.store.connection import Database
from agent.core.store.locks import SessionLock
from agent.knowledge.injection import scan

if TYPE_CHECKING:
    from agent.core.config.sections import HeartbeatSettings
    from agent.core.home import Home


FILE = "HEARTBEAT.md"
MOST = 6_000
"""The maximum number of characters of HEARTBEAT.md that are read."""
MOST_MAIL = 2_000
_ITEM = re.compile(
    r"^\s*[-*] +(?:\[ \] +)?([0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9:]{5,8}\S*)?)\s+(.+)$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class MailSaid:
    """The output of the mail command, or a sentence on why there is none."""

    text: str = ""
    problem: str = ""


Mail = Callable[[str], Awaitable[MailSaid]]
"""Runs the mail command."""


@dataclass
class HeartbeatState:
    """The result of the last check of a heartbeat."""

    last: float = 0.0
    text: str = ""
    """The SHA-256 digest of HEARTBEAT.md."""
    files: dict[str, str] = field(default_factory=dict)
    """The time, size and inode of each watched file, as text; `none` if it cannot be read."""
    alive: list[str] = field(default_factory=list)
    """The pid files of watched processes that were running."""
    told: list[str] = field(default_factory=list)
    """The dated items that were already given as reasons."""
    problem: str = ""
    """The last problem with the mail command; empty if there was none."""
    flaw: str = ""
    """The last notice on why HEARTBEAT.md was not used; empty if there was none."""
    asked: list[str] = field(default_factory=list)
    """The reasons that were given to the run `run`. They are given again if that run fails unanswered."""
    run: int = 0
    waiting: list[str] = field(default_factory=list)
    """Reasons that have not been given to any run yet."""

    @staticmethod
    def load(path: Path) -> HeartbeatState | None:
        """Return the stored state; None if there is none, or if it is invalid."""
        try:
            return HeartbeatState(**json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def save(self, path: Path) -> None:
        """Write the state to a file, whose folder is created."""
        private_folder(path.parent)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self)), "utf-8")
        part.chmod(PRIVATE_FILE)
        part.replace(path)


def is_active(active: str, now: datetime) -> bool:
    """Return whether a local time is within a range such as `08:00-22:00`, or the range is empty.

    A range may go past midnight. Pure.
    """
    if not active:
        return True
    begin, _, end = active.partition("-")
    first, last, clock = time.fromisoformat(begin.strip()), time.fromisoformat(end.strip()), now.time()
    return first <= clock < last if first <= last else clock >= first or clock < last


def read_heartbeat(folder: Path) -> str:
    """Return the first part of a folder's HEARTBEAT.md; empty if it is missing or cannot be read."""
    try:
        with (folder / FILE).open("rb") as file:
            return file.read(MOST * 4).decode("utf-8", "replace")[:MOST].strip()
    except OSError:
        return ""


async def beat(
    text: str,
    folder: Path,
    state: HeartbeatState | None,
    now: float,
    settings: HeartbeatSettings,
    mail: Mail,
) -> tuple[list[str], HeartbeatState]:
    """Check for reasons to ask the model. Returns the reasons and the new state. Reads files and mail."""
    files = {name: _stamp(folder, name) for name in settings.watch}
    seen = HeartbeatState(
        last=now,
        text=hashlib.sha256(text.encode()).hexdigest(),
        files=files,
        alive=[each for each in settings.processes if _runs(folder, each)],
        told=list(state.told) if state is not None else [],
        asked=list(state.asked) if state is not None else [],
        run=state.run if state is not None else 0,
        waiting=list(state.waiting) if state is not None else [],
    )
    reasons: list[str] = []
    if state is None or state.text != seen.text:
        reasons.append(f"{FILE} is new or was changed")
    if state is not None:
        changed = [
            name for name, stamp in files.items() if name in state.files and state.files[name] != stamp
        ]
        reasons += [f"the file {name} changed" for name in changed]
        reasons += [f"the process of {name} ended" for name in state.alive if name not in seen.alive]
    for at, item in due_items(text, now):
        key = f"{at} {item}"
        if key not in seen.told:
            seen.told.append(key)
            reasons.append(f"it is time for: {item}")
    said = await mail(settings.mail) if settings.mail else MailSaid()
    seen.problem = said.problem
    if printed := said.text.strip():
        reasons.append(f"the mail command printed:\n{printed[:MOST_MAIL]}")
    return reasons, seen


def due_items(text: str, now: float) -> list[tuple[str, str]]:
    """Return the time and text of due items of HEARTBEAT.md such as `- 2030-01-31T09:00 call Ana`. Pure."""
    moment = datetime.fromtimestamp(now, UTC)
    found: list[tuple[str, str]] = []
    for at, item in _ITEM.findall(text):
        try:
            if parse_moment(at, machine_zone()) <= moment:
                found.append((at, item.strip()))
        except ScheduleError:
            continue
    return found


def message(text: str, reasons: list[str]) -> str:
    """Return the prompt that asks the model to handle these reasons. Pure."""
    listed = "\n".join(f"- {each}" for each in reasons)
    return (
        f"This is a heartbeat. What happened since the last one:\n{listed or '- you were asked for'}\n\n"
        f"{FILE}:\n<heartbeat>\n{text}\n</heartbeat>\n\n"
        "Do what it says about this, if anything. If nothing needs attention, answer only HEARTBEAT_OK."
    )


def _stamp(folder: Path, name: str) -> str:
    try:
        status = (folder / Path(name).expanduser()).stat()
    except OSError:
        return "none"
    return f"{status.st_mtime_ns} {status.st_size} {status.st_ino}"


def _runs(folder: Path, pid_file: str) -> bool:
    """Return whether the process whose id is in a pid file is running."""
    try:
        os.kill(int((folder / Path(pid_file).expanduser()).read_text().strip()), 0)
    except PermissionError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return True


MAIL_SECONDS = 60


class Heartbeats:
    """All heartbeats: that of the home folder and those of the projects in the settings."""

    def __init__(
        self,
        database: Database,
        home: Home,
        settings: HeartbeatSettings,
        clock: Callable[[], float] = unix_time,
    ) -> None:
        self._database = database
        self._home = home
        self._settings = settings
        self._clock = clock

    async def look(self) -> float | None:
        """Check the heartbeats that are due, and return when the next one is due (seconds since the epoch,
        UTC).

        Returns None if there are no heartbeats.
        """
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
        idle, following = self._plan(await asyncio.to_thread(HeartbeatState.load, kept), flaw, now)
        lock = SessionLock(self._home.schedule, f"beat-{id}")
        if idle or not lock.acquire():
            return following
        try:
            # Another process may have done it meanwhile.
            state = await asyncio.to_thread(HeartbeatState.load, kept)
            idle, following = self._plan(state, flaw, now)
            if not idle:
                seen = await self._beat(folder, id, text, flaw, state, now)
                await asyncio.to_thread(seen.save, kept)
        finally:
            lock.release()
        return following

    def _plan(self, state: HeartbeatState | None, flaw: str, now: float) -> tuple[bool, float | None]:
        """Return whether the check can be skipped now, and when the next one is due.

        The time is None while the file has a flaw.
        """
        is_active_now = is_active(self._settings.active, datetime.fromtimestamp(now))
        if flaw:
            return not is_active_now or (state is not None and state.flaw == flaw), None
        interval = self._settings.interval
        # A clock that was set back is not a reason to wait longer than an interval.
        if state is not None and state.last <= now < state.last + interval:
            return True, state.last + interval
        return not is_active_now, now + interval

    async def _beat(
        self, folder: Path, id: str, text: str, flaw: str, state: HeartbeatState | None, now: float
    ) -> HeartbeatState:
        """Check one heartbeat, request a run or store a notice, and return the state to store."""
        place = await asyncio.to_thread(self._place, folder)
        if flaw:
            before = state or HeartbeatState()
            # With the text as its prompt, a run that the user requests is refused as well.
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
        """Return the working folder of a heartbeat.

        It is the project; for the heartbeat of the home folder it is a private folder that commands may use.
        """
        return folder if folder != self._home.root else private_folder(self._home.scratch / HEARTBEAT)

    async def _mail(self, folder: Path, command: str) -> MailSaid:
        """Return the output of the mail command, or the reason why there is none."""
        from agent.automation.unattended.commands import UnattendedCommands

        commands = UnattendedCommands(home=self._home, surface="cron", environ=os.environ)
        ended = await commands.run(command, folder, MAIL_SECONDS, why=HEARTBEAT)
        if ended.refused:
            return MailSaid(problem=ended.refused)
        if ended.code and ended.output.strip():
            # An error is not a mail: it would wake the model at each beat.
            return MailSaid(problem=f"The mail command failed: {ended.summary}")
        return MailSaid(ended.output)

    async def _tell(self, folder: Path, id: str, why: str, problem: str, prompt: str, now: float) -> bool:
        """Store a notice about a problem with a heartbeat, without asking a model.

        Returns False if a run is active, in which case nothing is stored and the next check tries again.
        """

        def work(connection: table.Connection) -> None:
            table.store_job(connection, self._heartbeat_job(connection, folder, id, prompt, now))
            asked = table.ask_for(connection, id, int(now * 1000), why)
            table.begin(connection, asked.id, now)
            table.end(connection, asked.id, "failed", now, "", problem, {}, "waiting")

        try:
            await self._database.write(work)
        except ScheduleError:
            return False
        return True

    def _heartbeat_job(
        self, connection: table.Connection, folder: Path, id: str, prompt: str, now: float
    ) -> Job:
        """Return the job that represents a heartbeat in the database."""
        intent = JobIntent(
            schedule=f"every {say_duration(timedelta(seconds=int(self._settings.interval)))}",
            zone="UTC",
            name=id,
            prompt=prompt or f"Look at {FILE}.",
            cwd=str(folder),
            model=self._settings.model,
            deliver=full_delivery(self._settings.deliver),
            allow=(rule,) if (rule := delivery_rule(self._settings.deliver)) else (),
        )
        known = next((each for each in table.jobs(connection) if each.id == id), None)
        fresh = Job(id=id, intent=intent, state="paused", anchor=int(now), looked=int(now), next=None, runs=0)
        return replace(known or fresh, intent=intent)

    async def _wake(
        self, folder: Path, id: str, text: str, reasons: list[str], seen: HeartbeatState, now: float
    ) -> None:
        """Request a run for the given reasons, and for those that an earlier run left unanswered.

        If a run is active, the reasons are kept for the next check.
        """

        def work(connection: table.Connection) -> None:
            unused, is_open = _unanswered_reasons(connection, seen)
            wanted = list(dict.fromkeys([*unused, *seen.waiting, *reasons]))
            if not is_open:
                seen.asked, seen.run = [], 0
            seen.waiting = wanted
            if not wanted:
                return
            if any(each.job == id for each in table.open_runs(connection)):
                return
            table.store_job(
                connection, self._heartbeat_job(connection, folder, id, message(text, wanted), now)
            )
            seen.run = table.ask_for(connection, id, int(now * 1000), "woken").id
            seen.asked, seen.waiting = wanted, []

        if reasons or seen.asked or seen.waiting:
            await self._database.write(work)


def _flaw(file: Path, text: str) -> str:
    """Return a sentence on why the model must not see HEARTBEAT.md; empty if it may. Pure."""
    for finding in scan(text):
        if finding.severity in ("high", "critical"):
            return (
                f"{file} is not read to the model: line {finding.first} reads like an attack "
                f"({finding.rule}: {finding.excerpt[:60]!r}); word it otherwise."
            )
    return ""


def _unanswered_reasons(connection: table.Connection, seen: HeartbeatState) -> tuple[list[str], bool]:
    """Return the reasons of the last run if it failed before the model read them, and whether it is
    unfinished.
    """
    if not seen.asked:
        return [], False
    try:
        run = table.run(connection, seen.run)
    except ScheduleError:
        return [], False
    if run.state in ("waiting", "running"):
        return [], True
    # A run that used tokens read its reasons, whatever happened to it then.
    return (seen.asked if run.state == "failed" and not run.receipt.get("tokens") else []), False


async def last_session(database: Database, id: str) -> str:
    """Return the session in which a heartbeat continues; empty if none of its last ten runs has one."""
    runs = await database.read(lambda c: table.runs_of(c, id, 10))
    return next((each.session for each in runs if each.session), "")

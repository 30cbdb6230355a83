"""A year of jobs in fast time: processes race on one store, are killed, and the clock is set back and forth.

What must have come of it is told by other means than those of the product: due times by looking at every
minute of the year, policies by walking through the moments at which the clock was looked at.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import random
import signal
import sqlite3
import struct
import sys
import time
import traceback
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from agent.automation.schedule import job_table as table
from agent.automation.schedule.book import JobBook
from agent.automation.schedule.job import Job, JobRun
from agent.automation.schedule.runner import JobOutcome, JobRunner, Note
from agent.core.store.store import Store
from tests.agent.automation.schedule.reference import Minutes, Spec

ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Asia/Kathmandu",
    "UTC",
)
CRONS = (
    "{m} {h} * * *",
    "{m} {h} * * MON-FRI",
    "{m} {h} * * {d}",
    "{m} {h},{k} * * SUN,WED",
    "{m} {h} 1,15 * *",
    "{m} {h} L * *",
    "{m} {h} * JAN-JUN/2 *",
    "{m} {h} * * {d}#2",
    "{m} {h} * * {d}L",
    "{m} */12 * * {d}",
    "{m} {h} 29 2 *",
    "{m} {h} 13 * FRI",
)
GRACE = 120
LONG = 5 * 3600
"""Seconds that runs of jobs about overlaps take."""
DAY = 86_400
_CLOCK = struct.Struct("<dq")


@dataclass(frozen=True)
class Plan:
    """How large a simulation is."""

    jobs: int = 200
    processes: int = 8
    kills: int = 50
    jumps: int = 24
    days: int = 366
    seed: int = 1
    month: int = 1
    """Of a leap year, in which it begins."""

    @property
    def start(self) -> datetime:
        return datetime(2028, self.month, 1, tzinfo=UTC)

    @property
    def begin(self) -> int:
        return int(self.start.timestamp())


@dataclass
class Found:
    """What came of a simulation."""

    runs: int = 0
    done: int = 0
    skipped: int = 0
    interrupted: int = 0
    cuts: int = 0
    steps: int = 0
    kills: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


def wanted_jobs(plan: Plan) -> list[dict[str, Any]]:
    """Jobs of all kinds of schedules, policies and ends."""
    chance = random.Random(plan.seed)
    found: list[dict[str, Any]] = []
    for number in range(plan.jobs):
        job: dict[str, Any] = {"name": f"job-{number}", "zone": ZONES[number % len(ZONES)], "deliver": "none"}
        job["prompt"] = "look"
        if number % 33 == 0:
            job |= {
                "schedule": "every 4h",
                "prompt": "long",
                "overlap": ("skip", "queue", "parallel")[number // 33 % 3],
            }
            job["until"] = (plan.start + timedelta(days=min(20, plan.days - 1))).isoformat()
        elif number % 10 == 1:
            job["schedule"] = f"every {chance.choice((1, 2, 3))}d"
        elif number % 10 == 2:
            at = plan.start + timedelta(minutes=chance.randrange(60, plan.days * 1440))
            job["schedule"] = at.isoformat()
        else:
            hour = chance.choice((0, 1, 2, 2, 3, 23, chance.randrange(24)))
            job["schedule"] = CRONS[number % len(CRONS)].format(
                m=chance.choice((0, 0, 15, 30, 45)), h=hour, k=(hour + 5) % 24, d=chance.randrange(7)
            )
        job["missed"] = ("once", "skip", "all")[number % 3] if "overlap" not in job else "once"
        if number % 9 == 4:
            job["repeat"] = chance.randrange(1, 12)
        if number % 11 == 5:
            job["until"] = (plan.start + timedelta(days=plan.days * chance.uniform(0.1, 0.9))).isoformat()
        if number % 7 == 3:
            job["jitter"] = 600
        job.setdefault("until", (plan.start + timedelta(days=plan.days)).isoformat())
        found.append(job)
    return found


def due_times(plan: Plan, jobs: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """By name, when each job is due in seconds, by looking at every minute."""
    found: dict[str, list[int]] = {}
    end = plan.begin + plan.days * DAY
    for name in ZONES:
        crons = [job for job in jobs if job["zone"] == name and len(job["schedule"].split()) == 5]
        if crons:
            middle = plan.start + timedelta(days=plan.days) / 2
            # From before the start on: what was skipped or came before is known then.
            minutes = Minutes.around(ZoneInfo(name), middle, timedelta(days=plan.days / 2 + 2))
            by_time = defaultdict[tuple[int, int], list[int]](list)
            odd: list[int] = []
            for index, (_, local, _, skipped) in enumerate(minutes.rows):
                by_time[local.hour, local.minute].append(index)
                if skipped:
                    odd.append(index)
            for job in crons:
                spec = Spec.of(job["schedule"])
                rows = [
                    i
                    for at in by_time
                    if at[1] in spec.sets[0] and at[0] in spec.sets[1]
                    for i in by_time[at]
                ]
                few = Minutes(tuple(minutes.rows[i] for i in sorted({*rows, *odd})))
                found[job["name"]] = [int(at.timestamp()) for at in few.due(spec)]
    for job in jobs:
        words = job["schedule"].split()
        if words[0] == "every":
            every = int(words[1][:-1]) * (DAY if words[1].endswith("d") else 3600)
            found[job["name"]] = list(range(plan.begin + every, end + 1, every))
        elif len(words) == 1:
            found[job["name"]] = [int(datetime.fromisoformat(words[0]).timestamp())]
    for job in jobs:
        last = end
        if job.get("until"):
            last = min(last, int(datetime.fromisoformat(job["until"]).timestamp()))
        found[job["name"]] = [at for at in found[job["name"]] if plan.begin < at <= last]
    return found


def begins_of(
    jobs: Sequence[Mapping[str, Any]], due: Mapping[str, list[int]], ids: Mapping[str, str]
) -> dict[str, list[int]]:
    """By name, when each due time begins: late on purpose by what id and due time say."""
    found: dict[str, list[int]] = {}
    for job in jobs:
        times, late = due[job["name"]], job.get("jitter", 0)
        found[job["name"]] = [
            at + zlib.crc32(f"{ids[job['name']]} {at}".encode()) % (min(late, after - at - 1) + 1)
            for at, after in zip(times, [*times[1:], 10**12], strict=True)
        ]
    return found


def clock_of(plan: Plan, due: Mapping[str, list[int]]) -> list[float]:
    """The times that the clock shows, in order: a little after each time given, with jumps of a day."""
    chance = random.Random(plan.seed + 1)
    end = plan.begin + plan.days * DAY
    times = sorted({at + chance.choice((1, 5, 40)) for each in due.values() for at in each})
    jumps = sorted(chance.uniform(plan.begin + 2 * DAY, end - 2 * DAY) for _ in range(plan.jumps))
    shown: list[float] = []
    ahead, back = 0.0, False
    for at in times:
        if at < ahead:
            continue
        shown.append(at)
        if jumps and at >= jumps[0]:
            jumps.pop(0)
            back = not back
            if back:
                # Set back by a day, and forward again in pieces.
                shown += [at - DAY + piece * DAY / 6 for piece in range(6)]
            else:
                ahead = at + DAY
                shown.append(ahead)
    # What is late on purpose, or long, comes to its end.
    return [*shown, *(end + piece * LONG for piece in range(1, 60))]


def expected(
    plan: Plan,
    jobs: Sequence[Mapping[str, Any]],
    due: Mapping[str, list[int]],
    begins: Mapping[str, list[int]],
    clock: Iterable[float],
) -> dict[str, dict[int, str]]:
    """By name and due time, whether it runs or is skipped. Jobs about overlaps are left out."""
    looks: list[int] = []
    for at in clock:
        if not looks or at > looks[-1]:
            looks.append(int(at))
    found: dict[str, dict[int, str]] = {}
    for job in jobs:
        if "overlap" in job:
            continue
        verdicts = found[job["name"]] = {}
        times, starts, left = due[job["name"]], begins[job["name"]], job.get("repeat", 10**9)
        before = plan.begin
        index = 0
        for look in looks:
            batch = []
            while index < len(times) and before < starts[index] <= look:
                batch.append(times[index])
                index += 1
            if left <= 0:
                break
            if batch:
                chosen = _chosen(job, times, starts, batch, look)[:left]
                left -= len(chosen)
                verdicts |= {at: "done" if at in chosen else "skipped" for at in batch}
            before = look
    return found


def _chosen(
    job: Mapping[str, Any], times: list[int], starts: list[int], batch: list[int], look: int
) -> list[int]:
    if job["missed"] == "once":
        return batch[-1:]
    if job["missed"] == "all":
        return batch[-100:]
    fresh: list[int] = []
    for at in batch:
        later = times.index(at) + 1
        period = times[later] - at if later < len(times) else 10**9
        if look - starts[later - 1] <= min(GRACE, period / 2):
            fresh.append(at)
    return fresh


class Shared:
    """The clock and how far each process has come, in memory that all of them see."""

    def __init__(self, processes: int) -> None:
        self.memory = mmap.mmap(-1, _CLOCK.size + 8 * processes)
        self.processes = processes

    @property
    def clock(self) -> tuple[float, int]:
        return _CLOCK.unpack_from(self.memory)

    def show(self, at: float, step: int) -> None:
        _CLOCK.pack_into(self.memory, 0, at, step)

    def reached(self, number: int) -> int:
        return struct.unpack_from("<q", self.memory, _CLOCK.size + 8 * number)[0]

    def reach(self, number: int, step: int) -> None:
        struct.pack_into("<q", self.memory, _CLOCK.size + 8 * number, step)


async def add_jobs(folder: Path, plan: Plan, jobs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Keep the jobs at the beginning of the year; their ids by name."""
    async with await Store.open(folder / "state.db") as store:
        book = JobBook(store.database, folder / "schedule", lambda: plan.begin)
        return {job["name"]: (await book.add(job)).id for job in jobs}


async def race(folder: Path, shared: Shared, number: int) -> None:
    """One of the processes: looks at the clock whenever it has moved."""
    parent = os.getppid()
    log = os.open(folder / "effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    parked = set[int]()

    def now() -> float:
        return shared.clock[0]

    async def work(job: Job, run: JobRun, note: Note) -> JobOutcome:
        os.write(log, f"begin {run.id}\n".encode())
        if not run.session:
            await note(f"session-{run.id}")
        if job.intent.prompt == "long":
            parked.add(run.id)
            until = (run.started or now()) + LONG
            while now() < until:
                await asyncio.sleep(0.002)
            parked.discard(run.id)
        os.write(log, f"end {run.id}\n".encode())
        return JobOutcome("done", job.title)

    async def deliver(job: Job, run: JobRun) -> str:
        return ""

    async with await Store.open(folder / "state.db") as store:
        runner = JobRunner(
            database=store.database,
            folder=folder / "schedule",
            work=work,
            deliver=deliver,
            clock=now,
            at_once=64,
            grace=GRACE,
        )
        while True:
            _, step = shared.clock
            if step < 0 or os.getppid() != parent:
                return
            if step == shared.reached(number):
                await asyncio.sleep(0.002)
                continue
            while True:
                await runner._look()
                busy = [task for id, task in runner._tasks.items() if id not in parked]
                if not busy:
                    break
                await asyncio.wait(busy, timeout=0.01)
            shared.reach(number, step)


def begin_process(folder: Path, shared: Shared, number: int) -> int:
    """Fork one of the processes; its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        table.KEPT_RUNS = 10**9
        asyncio.run(race(folder, shared, number))
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def simulate(folder: Path, plan: Plan) -> Found:
    """Run a simulation. Blocks. Forks: not to be called while threads run."""
    began, chance, found = time.monotonic(), random.Random(plan.seed + 2), Found()
    jobs = wanted_jobs(plan)
    due = due_times(plan, jobs)
    # One that is over before it begins is not kept.
    jobs = [job for job in jobs if due[job["name"]] or not job.get("until")]
    ids = asyncio.run(add_jobs(folder, plan, jobs))
    begins = begins_of(jobs, due, ids)
    clock = clock_of(plan, begins)
    shared = Shared(plan.processes)
    shared.show(plan.begin, 0)
    children = [begin_process(folder, shared, number) for number in range(plan.processes)]
    kills = set(chance.sample(range(len(clock)), min(plan.kills, len(clock))))
    for step, at in enumerate(clock, 1):
        shared.show(at, step)
        if step - 1 in kills:
            number = chance.randrange(plan.processes)
            time.sleep(chance.uniform(0, 0.03))
            os.kill(children[number], signal.SIGKILL)
            os.waitpid(children[number], 0)
            found.kills += 1
            children[number] = begin_process(folder, shared, number)
        deadline = time.monotonic() + 120
        while any(shared.reached(number) != step for number in range(plan.processes)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"step {step}: {[shared.reached(each) for each in range(plan.processes)]}")
            time.sleep(0.001)
    shared.show(clock[-1], -1)
    for child in children:
        os.waitpid(child, 0)
    found.steps = len(clock)
    _judge(folder, plan, jobs, due, begins, clock, found)
    found.seconds = time.monotonic() - began
    return found


def _judge(
    folder: Path,
    plan: Plan,
    jobs: Sequence[Mapping[str, Any]],
    due: Mapping[str, list[int]],
    begins: Mapping[str, list[int]],
    clock: Sequence[float],
    found: Found,
) -> None:
    """Compare what is stored, and what was done, with what must have come of it."""
    connection = sqlite3.connect(folder / "state.db")
    names = dict(connection.execute("SELECT id, json_extract(intent, '$.name') FROM jobs"))
    columns = "id, job, due, state, cuts, started, ended, earliest, why, error"
    rows = connection.execute(f"SELECT {columns} FROM job_runs ORDER BY due").fetchall()
    connection.close()
    lines = (folder / "effects").read_text().splitlines()
    effects = Counter(lines)
    kept = defaultdict[str, dict[int, tuple[Any, ...]]](dict)
    for row in rows:
        name, at = names[row[1]], row[2] // 1000
        if at in kept[name]:
            found.wrong.append(f"{name} at {at}: two runs")
        kept[name][at] = row
        found.runs += 1
        found.done += row[3] == "done"
        found.skipped += row[3] == "skipped"
        found.interrupted += row[3] == "interrupted"
        found.cuts += row[4]
        begun, ended = effects[f"begin {row[0]}"], effects[f"end {row[0]}"]
        if row[3] == "done" and not (1 <= ended <= 1 + row[4] and begun <= 1 + row[4]):
            found.wrong.append(f"{name} at {at}: begun {begun}, ended {ended}, cut {row[4]} times")
        if row[3] == "skipped" and begun:
            found.wrong.append(f"{name} at {at}: skipped, and begun")
        if row[3] in ("waiting", "running", "failed"):
            found.wrong.append(f"{name} at {at}: {row[3]} at the end, {row[9]}")
        if row[3] == "done" and row[5] < row[7]:
            found.wrong.append(f"{name} at {at}: begun {row[7] - row[5]:.0f} s too early")
    for name, verdicts in expected(plan, jobs, due, begins, clock).items():
        states = {at: "done" if row[3] == "interrupted" else row[3] for at, row in kept[name].items()}
        for at in sorted(states.keys() | verdicts.keys()):
            job = next(each for each in jobs if each["name"] == name)
            if states.get(at) != verdicts.get(at):
                what = f"{states.get(at)} instead of {verdicts.get(at)}"
                found.wrong.append(
                    f"{name} ({job['schedule']} {job['zone']}, {job['missed']}) at {at}: {what}"
                )
    for job in jobs:
        if "overlap" in job:
            _judge_overlap(job, due[job["name"]], kept[job["name"]], lines, found)


def _judge_overlap(
    job: Mapping[str, Any],
    due: list[int],
    kept: Mapping[int, tuple[Any, ...]],
    effects: Sequence[str],
    found: Found,
) -> None:
    """Each due time has a run; those of one job are one after the other unless it says otherwise."""
    if missing := set(due) ^ kept.keys():
        found.wrong.append(
            f"{job['name']}: due times without a run or the other way round: {sorted(missing)[:3]}"
        )
    if job["overlap"] != "parallel":
        # By what was written first: the clock may have been set back meanwhile.
        ids = {str(row[0]) for row in kept.values() if row[3] == "done"}
        at_work = ""
        for what, id in (line.split() for line in effects if line.split()[1] in ids):
            if what == "begin" and at_work not in ("", id):
                found.wrong.append(f"{job['name']}: run {id} begun before {at_work} was over")
            at_work = id if what == "begin" else ""
    skipped = [row for row in kept.values() if row[3] == "skipped" and row[8] != "missed"]
    if job["overlap"] == "skip" and not skipped:
        found.wrong.append(f"{job['name']}: nothing was skipped")
    if job["overlap"] != "skip" and skipped:
        found.wrong.append(f"{job['name']}: {len(skipped)} skipped")

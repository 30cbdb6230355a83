"""Random trees of agents on the scripted server: what they did, against what the server counted itself."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from agent.events import AgentProgressed, Event
from agent.model.transport.waits import Throttle
from agent.session.spending import request_table
from agent.session.spending.budget import Budget, BudgetAccount
from agent.session.spending.spending import Spending
from agent.session.subagents.delegate_service import DelegateService
from agent.session.subagents.forecast import FirstRequest, Forecaster
from agent.session.subagents.live_agent import LiveAgent
from agent.session.subagents.records import Task
from agent.session.subagents.scheduler import AgentLimits, Scheduler
from agent.session.turns.turn_queue import TurnQueue
from tests.support.engines import bench
from tests.support.faults import FAULTS
from tests.support.replies import Reply, call, refuse, say, usage_of
from tests.support.team import report, task_of

CUTS = ("cut_by_close", "cut_by_reset", "cut_cleanly", "closed_without_answer", "malformed_json")
HASTE = 400.0
"""How many times faster than the clock the throttle's waiting goes by."""

CONFIG = "tools: {enabled: [todo, delegate]}\nmodel: {retries: 2}\ncheckpoints: {enabled: false}\n"


@dataclass
class Findings:
    """What many runs came to. Tokens are the server's own count unless said otherwise."""

    runs: int = 0
    agents: int = 0
    requests: int = 0
    refused: int = 0
    """Answers with 429."""
    cut: int = 0
    killed: int = 0
    over_ceiling: int = 0
    """Tokens above a ceiling, of whatever agent."""
    unaccounted: int = 0
    """Tokens that the server gave out and no account paid."""
    counted: int = 0
    """Tokens in the roll-up of runs that nobody killed, as far as they were counted."""
    served: int = 0
    """The same by the server."""
    misrecorded: int = 0
    """Tokens by which the store's own record of requests is off what all agents together were counted."""
    left_running: int = 0
    false_completed: int = 0
    out_of_order: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    @property
    def is_good(self) -> bool:
        wrong = self.over_ceiling + self.unaccounted + self.misrecorded + self.left_running
        wrong += self.false_completed + self.out_of_order
        return wrong == 0 and abs(self.counted - self.served) <= self.served / 1_000


class Storm:
    """The server's side: what each agent is answered, by the name of its goal, and what that took.

    A goal reads `run.agent` or `run.agent.agent`; one that ends with `!` fails.
    """

    def __init__(self, seed: int, found: Findings) -> None:
        self.chance = Random(seed)
        self.found = found
        self.complete: Counter[str] = Counter()
        self.all: Counter[str] = Counter()

    def __call__(self, request: Any) -> Reply:
        goal, roll = task_of(request), self.chance.random()
        self.found.requests += 1
        if roll < 0.08:
            self.found.refused += 1
            return refuse(429, "Too many.", headers={"retry-after": "1"} if roll < 0.02 else None)
        reply = self._reply(goal, request)
        used = (usage_of(reply, len(request.raw)) or {})["total_tokens"]
        self.all[goal] += used
        if roll < 0.16:
            self.found.cut += 1
            return FAULTS[self.chance.choice(CUTS)](reply)
        self.complete[goal] += used
        return reply

    def _reply(self, goal: str, request: Any) -> Reply:
        step = sum(message["role"] == "assistant" for message in request.messages)
        pace = self.chance.choice((0.0, 0.0, 0.0, 0.01))
        if step == 0 and goal.count(".") == 0 and self.chance.random() < 0.7:
            names = [f"{goal}.{n}{self._mark()}" for n in range(self.chance.randint(1, 4))]
            tasks = [
                {"goal": name, "budget": {"tokens": self.chance.randint(4_000, 40_000)}} for name in names
            ]
            return replace(call("delegate_task", tasks=tasks), pace=pace)
        if step < 3 and self.chance.random() < 0.3:
            todo = {"id": str(step), "content": "word " * self.chance.randint(1, 30), "status": "pending"}
            return replace(call("todo_write", todos=[todo]), pace=pace)
        outcome = "failed" if goal.endswith("!") else "completed"
        return say(report("word " * self.chance.randint(1, 100), outcome), pace=pace)

    def _mark(self) -> str:
        return "!" if self.chance.random() < 0.1 else ""


async def storm(folder: Path, runs: int, seed: int, wave: int = 20, at_once: int = 6) -> Findings:
    """Carry out random runs, `wave` of them side by side, in one session."""
    found = Findings()
    server_side = Storm(seed, found)
    async with bench(folder, server_side) as made:
        made.config(CONFIG)
        async with made.engine() as engine:
            first: dict[str, None] = {}

            def hear(event: Event) -> None:
                if isinstance(event, AgentProgressed) and event.state == "running":
                    first.setdefault(event.agent)

            engine.stream.subscribe(hear)
            scheduler = _scheduler(engine.scheduler, at_once, folder / "reports")
            done = 0
            while done < runs:
                count = min(wave, runs - done)
                await _wave(scheduler, server_side, [str(done + number) for number in range(count)])
                done += count
                made.server.requests.clear()
                made.events.clear()
            numbers = [int(agent.partition("-")[2]) for agent in first]
            found.out_of_order = sum(after < before for before, after in pairwise(numbers))
            _judge(scheduler, server_side, found)
            await scheduler.aclose()
            found.misrecorded = await _misrecorded(engine.metering.spending, scheduler)
    names = {run.id for run in scheduler.runs()}
    found.left_running += sum(task.get_name() in names for task in asyncio.all_tasks())
    return found


def _scheduler(like: Scheduler, at_once: int, reports: Path) -> Scheduler:
    """A scheduler on the services of a session whose throttle waits in no time."""
    throttle = Throttle(
        clock=lambda: time.monotonic() * HASTE, sleep=lambda seconds: asyncio.sleep(seconds / HASTE)
    )

    def delegates(agent: str, made_by: str) -> DelegateService:
        return DelegateService(scheduler, agent, made_by, reports, unasked)

    limits = AgentLimits(at_once=at_once, each=Budget(turns=12))
    turn_queue = TurnQueue(lambda _event: None)
    scheduler = Scheduler(
        like.services,
        limits,
        BudgetAccount("storm", Budget()),
        delegates,
        turn_queue=turn_queue,
        throttle=throttle,
    )
    beginning = FirstRequest(lambda size: size, lambda: None)
    unasked = Forecaster(scheduler, None, beginning, like.services.ceiling_questions.decisions)
    return scheduler


async def _wave(scheduler: Scheduler, server_side: Storm, goals: list[str]) -> None:
    chance = server_side.chance
    tasks = [Task(goal=goal, budget=Budget(tokens=chance.randint(6_000, 90_000))) for goal in goals]
    ids = await scheduler.start(tasks)
    killing = asyncio.create_task(_kill_some(scheduler, server_side))
    await scheduler.wait(ids)
    killing.cancel()
    await asyncio.gather(killing, return_exceptions=True)


async def _kill_some(scheduler: Scheduler, server_side: Storm) -> None:
    """Kill an agent now and then."""
    chance = server_side.chance
    while True:
        await asyncio.sleep(chance.random() * 0.4)
        open_runs = [run for run in scheduler.runs()[-100:] if not run.is_over]
        if open_runs:
            await scheduler.kill(chance.choice(open_runs).id)


def _judge(scheduler: Scheduler, server_side: Storm, found: Findings) -> None:
    for run in scheduler.runs():
        tree = [run, *scheduler.below(run.id)]
        assert run.report is not None
        found.agents += 1
        found.outcomes[run.report.outcome] += 1
        found.killed += run.report.outcome == "killed"
        found.left_running += not run.is_over
        found.over_ceiling += max(0, run.account.spent.tokens - (run.account.budget.tokens or 0))
        given = sum(server_side.all[each.task.goal] for each in tree)
        found.unaccounted += max(0, given - run.account.spent.tokens)
        if run.report.outcome == "completed":
            found.false_completed += any(_is_wrong(each) for each in tree)
        if run.parent == "main":
            found.runs += 1
            if not any(each.report and each.report.outcome in ("killed", "interrupted") for each in tree):
                found.counted += sum(each.tally.input + each.tally.output for each in tree)
                found.served += sum(server_side.complete[each.task.goal] for each in tree)


async def _misrecorded(spending: Spending, scheduler: Scheduler) -> int:
    """Tokens that stand in the store and in no tally, or the other way round; counted and assumed apart."""
    await spending.wait_for_writes()
    sums = await spending.database.read(lambda connection: request_table.sums(connection, None))
    tallies = [run.tally for run in scheduler.runs()]
    counted = sum(each.input + each.output for each in sums if each.counted)
    assumed = sum(each.input + each.output for each in sums if not each.counted)
    off = abs(counted - sum(each.input + each.output for each in tallies))
    return off + abs(assumed - sum(each.assumed for each in tallies))


def _is_wrong(run: LiveAgent) -> bool:
    """Whether an agent below a completed one did not complete."""
    return run.report is None or run.report.outcome != "completed" or run.task.goal.endswith("!")

"""`kill -9` at a random moment of a fan-out, and whether everything continues from there.

Whether anything was paid twice is judged by what the server gave.
"""

from __future__ import annotations

import asyncio
import functools
import json
import multiprocessing
import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from agent.events import TurnEnded
from agent.session.engine import Engine
from agent.workspace.isolated_copies.copy_folders import holders
from tests.support import command
from tests.support.engines import Bench, bench
from tests.support.fanout_script import GO_ON, OVER, Given
from tests.support.forks import PROGRAM
from tests.support.hanging import last_of, tasks_here, tell_on_signal, told_by
from tests.support.team import MAIN, task_of

MOST_UNDER_WAY = 4
"""Requests that can be on their way at once: three agents and the one that sent them."""
CEILING = "budget: {session: {tokens: 50000000}}\n"
LINES = 12
"""Lines of a process that hangs that are reported, those it printed last."""
PATIENCE = 120.0
"""Seconds after which what has not come to its end counts as hanging, and is reported with what it does."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When a process is killed: so many seconds after so many of its requests have arrived."""

    requests: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Kill:
    """What one session went through."""

    kills: int
    """Processes that were still at work when they were killed."""
    cut_off: int
    """Agents that were listed as interrupted."""
    copies: int
    """Copies with changes that were found again."""
    requests: int
    problems: tuple[str, ...]


async def fan_out(folder: Path, seed: int, moments: Sequence[Moment]) -> Kill:
    """A session whose process is killed at each of `moments`, one process after the other, then finished.

    With an even `seed` a ceiling makes requests be written down before they leave.
    """
    given = Given(Random(seed))
    async with bench(folder, given) as made:
        made.config(CEILING if seed % 2 == 0 else "")
        kills, cut_off, copies = 0, 0, 0
        problems: list[str] = []
        session: str | None = None
        kept: list[tuple[int, dict[str, set[str]]]] = []
        for number, moment in enumerate(moments, 1):
            killed = await _killed(made, session, moment)
            session, kills = killed.session, kills + killed.worked
            problems += killed.problems
            if not session:
                break
            problems += await _left_running(folder)
            problems += _sound(made)
            kept.append((len(made.server.requests), _stored(made)))
            async with made.engine(resume=session) as engine:
                found, wrong = _found_again(made, engine)
                cut_off, copies = cut_off + found[0], copies + found[1]
                problems += wrong
                if number == len(moments):
                    problems += await _to_the_end(made, engine)
        for known, stored in kept:
            problems += _paid_again(made, known, stored)
        problems += _sound(made) + _accounts(made, given, seed % 2 == 0, kills)
        problems += [f"the server refused: {text}" for text in made.server.refusals]
        return Kill(kills, cut_off, copies, given.requests.total(), tuple(problems))


async def whole_run(folder: Path) -> int:
    """Requests of one undisturbed run."""
    async with bench(folder, Given(Random(0))) as made:
        program = Program(made, None)
        if not await program.ended(PATIENCE) or program.code != 0:
            hangs = await program.hangs() if program.works else f"it ended with {program.code}"
            await program.kill()
            raise RuntimeError(f"the undisturbed fan-out failed: {hangs}")
        return len(made.server.requests)


class Program:
    """`hermes -p`, forked from a process that has imported it; what it prints goes to a file."""

    def __init__(self, made: Bench, session: str | None) -> None:
        text = [*(("--resume", session) if session else ()), "-p", GO_ON if session else "Send them."]
        self._said = made.home.parent / f"said-{len(made.server.requests)}-{session}"
        self._told = self._said.with_suffix(".tasks")
        environ = command.environment(made.home, made.server.base_url)
        arguments = [*text, "--json", "--approve", "all"]
        self._process = _forks().Process(
            target=_become,
            args=(arguments, environ, str(made.workspace), str(self._said), str(self._told)),
        )
        self._process.start()

    @property
    def works(self) -> bool:
        return self._process.is_alive()

    async def session(self) -> str:
        """The session it opened; empty if it ended without one."""
        while True:
            works, lines = self.works, await asyncio.to_thread(self._lines)
            for event in map(json.loads, lines):
                if event["type"] == "session_opened":
                    return str(event["session"])
            if not works:
                return ""
            await asyncio.sleep(0.02)

    async def hangs(self) -> str:
        """What it does, as its tasks and its last events tell; it continues."""
        tasks = await told_by(self._process.pid or 0, self._told)
        return "\n".join([tasks, *(line[:300] for line in self._lines()[-LINES:])])

    def _lines(self) -> list[str]:
        return self._said.read_text(encoding="utf-8").split("\n")[:-1] if self._said.exists() else []

    async def ended(self, seconds: float) -> bool:
        """Whether it ends within so many seconds."""
        return not await asyncio.to_thread(self._process.join, seconds) and not self.works

    async def kill(self) -> None:
        self._process.kill()
        await asyncio.to_thread(self._process.join)

    @property
    def code(self) -> int | None:
        return self._process.exitcode


@functools.cache
def _forks() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PROGRAM, "app.cli.sessions.oneshot", "hermes_launcher", __name__])
    # Else it would know its modules by paths that are relative to where it happens to begin.
    with patch.dict(os.environ, {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(command.ROOT)}):
        forkserver.ensure_running()
    return context


def _become(arguments: list[str], environ: dict[str, str], folder: str, said: str, told: str) -> None:
    """Be the program, with its own arguments, environment, folder and output."""
    from hermes_launcher import main

    tell_on_signal(Path(told))
    out = os.open(said, os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(out, 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    sys.argv = ["hermes", *arguments]
    sys.exit(main())


@dataclass(frozen=True, slots=True)
class _Killed:
    session: str
    """Empty: it had opened none."""
    worked: bool
    """Whether it was still at work when it was killed."""
    problems: tuple[str, ...] = ()


async def _killed(made: Bench, session: str | None, moment: Moment) -> _Killed:
    """What became of a process until it was killed."""
    wanted = len(made.server.requests) + moment.requests
    program = Program(made, session)
    problems: list[str] = []
    opened = session or ""
    try:
        async with asyncio.timeout(PATIENCE):
            if not (opened := await program.session()):
                problems.append(f"the program ended with {program.code} and opened no session")
            while program.works and len(made.server.requests) < wanted:
                await asyncio.sleep(0.002)
    except TimeoutError:
        there = f"{len(made.server.requests)} of {wanted} requests had arrived"
        problems.append(f"the program hangs, {there}:\n{await program.hangs()}")
    alive = not await program.ended(moment.seconds)
    await program.kill()
    return _Killed(opened, alive, tuple(problems))


async def _left_running(folder: Path) -> list[str]:
    """Processes of a killed program that are still there a while later."""
    left: list[str] = []
    for _ in range(60):
        left = [pid for pid in os.listdir("/proc") if pid.isdigit() and _works_in(pid, folder)]
        if not left:
            return []
        await asyncio.sleep(0.05)
    return [f"{len(left)} processes were left running"]


def _works_in(pid: str, folder: Path) -> bool:
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd")).is_relative_to(folder) and int(pid) != os.getpid()
    except OSError:
        return False


def _sound(made: Bench) -> list[str]:
    with sqlite3.connect(made.home / "state.db", timeout=30) as connection:
        (said,) = connection.execute("PRAGMA integrity_check").fetchone()
    connection.close()
    return [] if said == "ok" else [f"the store: {said}"]


def _answers(made: Bench) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Whole answers in the store: the goal of whoever got it, its data and its words."""
    connection = sqlite3.connect(made.home / "state.db", timeout=30)
    try:
        rows = connection.execute("SELECT session, kind, data, content FROM nodes ORDER BY id").fetchall()
    finally:
        connection.close()
    goals: dict[str, str] = {}
    for session, kind, data, content in rows:
        said = json.loads(data)
        if said.get("kind") == "subagent":
            goals[session] = said["task"]["goal"]
        if kind == "assistant" and said.get("state") != "interrupted":
            yield goals.get(session, MAIN), said, content


def _stored(made: Bench) -> dict[str, set[str]]:
    """By goal, what tells the answers apart that are in the store."""
    found: dict[str, set[str]] = {}
    for goal, said, content in _answers(made):
        found.setdefault(goal, set()).add(_mark([each["id"] for each in said.get("calls", ())], content))
    return found


def _mark(calls: list[str], text: str) -> str:
    return " ".join(calls) or text.strip()


def _paid_again(made: Bench, known: int, stored: Mapping[str, set[str]]) -> list[str]:
    """Requests after a kill that asked once more for an answer the store had."""
    problems: list[str] = []
    for request in made.server.requests[known:]:
        sent = {
            _mark([each["id"] for each in message.get("tool_calls") or ()], str(message["content"] or ""))
            for message in request.messages
            if message["role"] == "assistant"
        }
        goal = task_of(request)
        if missing := stored.get(goal, set()) - sent:
            problems.append(f"{goal} was asked again for {len(missing)} answers that were stored")
    return problems


def _found_again(made: Bench, engine: Engine) -> tuple[tuple[int, int], list[str]]:
    """How many agents were cut off and how many copies are there; what is not as it should be."""
    runs, problems = engine.scheduler.runs(), list[str]()
    cut = [run for run in runs if run.standing == "interrupted"]
    for run in runs:
        if run.report is None or run.standing not in ("completed", "interrupted"):
            problems.append(f"{run.id} ({run.task.goal}) reads as {run.standing} after a kill")
    folder = made.home / "copies"
    held = [holder.agent for holder in holders(folder).values() if holder.session == engine.session.id]
    problems += [
        f"the copy of {agent} was not found" for agent in held if not engine.scheduler.copies.holds(agent)
    ]
    return (len(cut), len(held)), problems


async def _to_the_end(made: Bench, engine: Engine) -> list[str]:
    """Let everything continue that was cut off, and merge what is in copies."""
    going = asyncio.create_task(_gone_on(engine), name="what continues")
    done, _ = await asyncio.wait([going], timeout=PATIENCE)
    if not done:
        hangs = [
            f"{run.id} ({run.task.goal}): {run.standing} {run.action}" for run in engine.scheduler.runs()
        ]
        told = "\n".join([*hangs, tasks_here(), last_of(made.events)])
        going.cancel()
        return [f"what went on did not end within {PATIENCE:.0f} s:\n{told}"]
    ended = going.result()
    problems = [] if ended.text == OVER else [f"the session ended with {ended.outcome}: {ended.text[:100]}"]
    agents = engine.scheduler
    for run in agents.runs():
        if run.standing != "completed":
            why = run.report.error if run.report else ""
            problems.append(f"{run.id} ({run.task.goal}) ended as {run.standing}: {why}")
        if agents.copies.holds(run.id):
            await agents.copies.merge(run, await agents.copies.plan_merge(run.id))
        if run.task.goal != "nest":
            problems += _missing(made.workspace, run.task.goal)
    left = [path.name for path in (made.home / "copies").glob("*/work")]
    return problems + [f"the copy {name} was left" for name in left]


async def _gone_on(engine: Engine) -> TurnEnded:
    ended = await engine.run(GO_ON)
    await engine.scheduler.wait([run.id for run in engine.scheduler.runs()])
    return ended


def _missing(workspace: Path, goal: str) -> list[str]:
    wanted = {f"{goal}-1.txt": f"{goal} one\n", f"{goal}-2.txt": f"{goal} two\n"}
    there = {name: (workspace / name).read_text() for name in wanted if (workspace / name).exists()}
    return [] if there == wanted else [f"{goal} left {sorted(there)}"]


def _accounts(made: Bench, given: Given, firm: bool, kills: int) -> list[str]:
    """Where what was written down is less than what the server gave, or something appears twice."""
    connection = sqlite3.connect(made.home / "state.db", timeout=30)
    try:
        rows = connection.execute("SELECT state, input + output FROM requests").fetchall()
    finally:
        connection.close()
    problems: list[str] = []
    arrived, served = given.requests.total(), given.tokens.total()
    counted = sum(tokens for state, tokens in rows if state == "counted")
    if counted > served:
        problems.append(f"{counted} tokens were counted, the server gave {served}")
    if len(rows) > arrived + MOST_UNDER_WAY * kills:
        problems.append(f"{len(rows)} requests are written down, {arrived} arrived")
    if firm and (len(rows) < arrived or sum(tokens for _, tokens in rows) < served):
        problems.append(f"{len(rows)} of {arrived} requests are written down, for less than they took")
    stored = Counter[str]()
    for goal, said, _ in _answers(made):
        usage = said.get("usage") or {}
        stored[goal] += (usage.get("input") or 0) + (usage.get("output") or 0)
    problems += [
        f"{goal}: {stored[goal]} tokens stored of {given.tokens[goal]} given"
        for goal in stored
        if stored[goal] > given.tokens[goal]
    ]
    return problems

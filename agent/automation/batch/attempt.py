"""One attempt at a task: an unattended session in its own home and workspace, checked at the end."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from agent.automation.batch.folder import lay_workspace
from agent.automation.batch.results import ResultFolder, TaskResult
from agent.automation.batch.task import BatchTask
from agent.automation.checks.check import CheckResult, Evidence, carry_out
from agent.automation.checks.judge import open_judge
from agent.automation.unattended.commands import UnattendedCommands
from agent.automation.unattended.session_automation import AUTOMATION
from agent.core.attachments import AttachmentStore
from agent.core.config.loader import load
from agent.core.home import Home
from agent.core.messages import Attachment, ModeName
from agent.core.store.connection import Database
from agent.core.store.nodes import Node
from agent.core.store.store import Store
from agent.errors import HermesError, StoreError
from agent.events import TurnEnded
from agent.model.transport.reply import ModelRoute
from agent.session.engine import Engine
from agent.session.options import Options
from agent.session.runtime import open_engine
from agent.session.spending.budget import Budget, BudgetAccount, BudgetReachedError
from agent.session.spending.metering import Metering, day_budget, total_budget
from agent.session.spending.request_table import SIDE
from agent.session.spending.spending import Spending, prices_of


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJudge:
    """A judge that uses `model`, or the default model if it is empty.

    `settings` are the settings of the batch's sessions.
    """

    home: Home
    environ: Mapping[str, str]
    settings: Mapping[str, Any]
    model: str

    async def meets(self, prompt: str, rubric: Any, answer: str, database: Database) -> CheckResult:
        """Return whether an answer meets a rubric. If the model cannot be asked, the result says so.

        `database` is the store of the batch. Raises `BudgetReachedError` if the batch has used up its budget.
        """
        loaded = await asyncio.to_thread(load, self.home, self.environ, chosen=self.settings)
        ceilings = loaded.settings.budget
        spending = Spending(
            database,
            prices_of(loaded.settings, self.environ),
            day_budget(ceilings),
            total=total_budget(ceilings),
        )
        # Without a session: what a task may use is for its own agent.
        metering = Metering(spending, BudgetAccount("the judge", Budget()), "", "", {})

        def with_meter(route: ModelRoute) -> ModelRoute:
            return replace(route, client=metering.client(route.client, route.name, SIDE))

        try:
            async with open_judge(loaded, self.home, self.model, with_meter) as judge:
                return await judge.meets(prompt, rubric, answer)
        except BudgetReachedError:
            raise
        except HermesError as error:
            return CheckResult("judge", None, str(error))
        finally:
            await spending.wait_for_writes()


_CACHE = 2048
"""KiB of the database that a worker keeps in memory: each task reads only what it has just written."""


class SharedStore:
    """A database connection that several callers share; the first caller opens it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opening = asyncio.Lock()
        self._store: Store | None = None

    async def database(self) -> Database:
        """Return the connection, opening it if needed. Raises `StoreError`; the next caller then tries
        again.
        """
        async with self._opening:
            if self._store is None:
                self._store = await Store.open(self._path)
                await self._store.database.read(_keep_little)
            return self._store.database

    async def aclose(self) -> None:
        """Finish queued work and close the connection."""
        if self._store is not None:
            await self._store.close()


def _keep_little(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA cache_size = -{_CACHE}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTask:
    """A task assigned to a worker. `name` is the key of its stored data."""

    task: BatchTask
    name: str
    shown: str
    attempt: int = 1
    session: str = ""
    """The session to continue with; empty for a new one."""
    source: str = ""
    """A folder whose content its folder begins with."""
    toolsets: tuple[str, ...] = ()
    """What a distribution drew; empty: what the task names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Folders, settings and models that are the same for all tasks of a run."""

    folder: ResultFolder
    settings: Mapping[str, Any]
    environ: Mapping[str, str]
    approve: ModeName | None = None
    model: str = ""
    judge: str = ""
    """The model that judges; empty: the usual one."""
    base: Path = Path()
    """The folder of the task file; images are found from there."""


async def attempt(
    assignment: AssignedTask, conditions: Conditions, shared: SharedStore | None = None
) -> TaskResult:
    """Work on a task until its turn has ended, and return the result. Errors of the task or the model never
    raise.

    Stored answers are reused, not requested again. `shared` is the store of this process; None opens a
    separate connection.
    """
    began = time.monotonic()
    ended, path, session = (
        TurnEnded(outcome="failed", text="", session="", usage={}, error="", exit_code=1),
        (),
        "",
    )
    cost: float | None = None
    task, folder = assignment.task, conditions.folder.workspace(assignment.name)
    try:
        await asyncio.to_thread(lay_workspace, folder, task.files, assignment.source)
        engine = await open_engine(
            _options(assignment, conditions, folder),
            environ=conditions.environ,
            database=None if shared is None else await shared.database(),
            automation=AUTOMATION,
        )
        try:
            session = engine.session.id
            conditions.folder.note_begun(assignment.name, session, assignment.attempt)
            ended = await _turn(engine, assignment, conditions)
            path = tuple(engine.session.path)
            cost = (await engine.metering.spending.of_session(session)).money
        finally:
            await engine.aclose()
    except (HermesError, OSError) as error:
        ended = TurnEnded(outcome="failed", text="", session=session, usage={}, error=str(error), exit_code=1)
    checks: tuple[CheckResult, ...] = ()
    if ended.outcome == "done":
        evidence = Evidence(
            answer=ended.text,
            folder=folder,
            calls=_called_tools(path),
            prompt=task.prompt,
            judge=partial(_judge_answer, conditions, shared, task.prompt),
            run=partial(_run_command_check, conditions, folder),
        )
        try:
            checks = await carry_out(task.checks, evidence)
        except (BudgetReachedError, StoreError) as error:
            outcome = "budget" if isinstance(error, BudgetReachedError) else "failed"
            ended = replace(ended, outcome=outcome, error=str(error))
    return TaskResult(
        id=assignment.shown,
        key=assignment.name,
        outcome=ended.outcome,
        text=ended.text,
        usage=_usage(path),
        seconds=round(time.monotonic() - began, 3),
        attempts=assignment.attempt,
        checks=checks,
        session=session,
        error=ended.error,
        cost=cost,
        toolsets=assignment.toolsets or task.toolsets,
    )


async def _run_command_check(
    conditions: Conditions, folder: Path, command: str, seconds: float
) -> tuple[int, str]:
    """Return the exit code of a command check and its output, or the reason why it was refused."""
    commands = UnattendedCommands(
        home=Home(conditions.folder.home),
        surface="batch",
        environ=conditions.environ,
        approve=conditions.approve,
        offline=True,
    )
    ended = await commands.run(command, folder, seconds, why="check")
    return ended.code, ended.refused or ended.output


async def _judge_answer(
    conditions: Conditions, shared: SharedStore | None, prompt: str, rubric: Any, answer: str
) -> CheckResult:
    """Return a model's verdict on an answer."""
    home = Home(conditions.folder.home)
    judge = BatchJudge(
        home=home,
        environ=conditions.environ,
        settings=conditions.settings,
        model=conditions.judge or conditions.model,
    )
    if shared is not None:
        return await judge.meets(prompt, rubric, answer, await shared.database())
    async with await Store.open(home.database) as store:
        return await judge.meets(prompt, rubric, answer, store.database)


def _options(assignment: AssignedTask, conditions: Conditions, folder: Path) -> Options:
    task = assignment.task
    settings = {name: dict(section) for name, section in conditions.settings.items()}
    if toolsets := assignment.toolsets or task.toolsets:
        settings.setdefault("tools", {})["enabled"] = list(toolsets)
    own = {name: getattr(task.budget, name) for name in ("turns", "tokens", "money")}
    if own := {name: value for name, value in own.items() if value is not None}:
        settings.setdefault("budget", {})["session"] = own
    return Options(
        workspace=folder.resolve(),
        model=task.model or conditions.model or None,
        resume=assignment.session or None,
        approve=conditions.approve,
        surface="batch",
        settings=settings,
    )


async def _turn(engine: Engine, assignment: AssignedTask, conditions: Conditions) -> TurnEnded:
    turn = asyncio.ensure_future(_start_or_resume(engine, assignment, conditions))
    seconds = assignment.task.budget.seconds
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.shield(turn)
    except TimeoutError:
        engine.interrupt()
        ended = await turn
        if ended.outcome != "interrupted":
            return ended
        error = f"The {seconds:g} seconds of the task are over."
        return TurnEnded(
            outcome="budget", text=ended.text, session=ended.session, usage={}, error=error, exit_code=1
        )
    except asyncio.CancelledError:
        engine.interrupt()
        with suppress(asyncio.CancelledError):
            await turn
        raise


async def _start_or_resume(engine: Engine, assignment: AssignedTask, conditions: Conditions) -> TurnEnded:
    path = engine.session.path
    if not any(node.kind == "user" for node in path):
        shown = await asyncio.to_thread(_images, assignment.task, conditions)
        return await engine.run(assignment.task.prompt, shown)
    ended = await engine.go_on()
    if ended is not None:
        return ended
    answer = next((node for node in reversed(path) if node.kind == "assistant"), None)
    text = answer.content if answer is not None else ""
    return TurnEnded(outcome="done", text=text, session=engine.session.id, usage={}, error="", exit_code=0)


def _images(task: BatchTask, conditions: Conditions) -> Sequence[Attachment]:
    if not task.image:
        return ()
    return (AttachmentStore(Home(conditions.folder.home).attachments).take(conditions.base / task.image),)


def _called_tools(path: Sequence[Node]) -> list[str]:
    return [
        call["name"] for node in path if node.kind == "assistant" for call in node.data.get("calls") or ()
    ]


def _usage(path: Sequence[Node]) -> dict[str, int]:
    counted = [node.data.get("usage") or {} for node in path if node.kind == "assistant"]
    usage = {"requests": len(counted), "calls": len(_called_tools(path))}
    for name in ("input", "output", "cached"):
        usage[name] = sum(each.get(name) or 0 for each in counted)
    return usage

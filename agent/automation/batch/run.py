"""One run of a batch: checks before the start, the remaining tasks, and their results."""

from __future__ import annotations

import asyncio
import os
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from agent.automation.batch.attempt import AssignedTask, Conditions
from agent.automation.batch.folder import FolderLock, batch_settings, lay_home, variables
from agent.automation.batch.pools import LocalPool, Pool, WorkerDiedError
from agent.automation.batch.results import Begun, ResultFolder, TaskResult
from agent.automation.batch.task import Distribution, NumberedTask, draw_toolsets
from agent.core.config.environment import environment
from agent.core.config.loader import LoadedSettings, load
from agent.core.home import Home
from agent.core.messages import ModeName
from agent.errors import ConfigError, HermesError
from agent.model.providers import resolve
from agent.session.spending.budget import Budget
from agent.session.wiring.routes import plan_routes
from agent.session.wiring.terminal_backend import backend_options
from tools.discovery import discover
from tools.results import ToolError
from tools.terminal.backends.opening import open_backend
from tools.toolsets import no_such


async def refuse_without_model(models: Set[str], loaded: LoadedSettings, environ: Mapping[str, str]) -> None:
    """Raise `HermesError` if none of `models` can be used, because every task would then fail.

    An empty name means the default model. If only some can be used, the tasks of the others fail with the
    reason.
    """
    faults: list[HermesError] = []
    for model in sorted(models):
        try:
            await plan_routes(loaded.settings, environ, model or None)
        except HermesError as error:
            faults.append(error)
    if models and len(faults) == len(models):
        raise faults[0]


def refuse_unknown_toolsets(tasks: Sequence[NumberedTask], distribution: Distribution) -> None:
    """Raise `ConfigError` if a task, or the distribution of a run, names an unknown toolset.

    All tools are imported if any toolset is named. Toolsets of MCP servers are checked later by each session,
    because they are known only once the servers answer.
    """
    if not distribution and not any(each.task.toolsets or each.task.distribution for each in tasks):
        return
    discover()
    if problem := _no_such_text(distribution):
        raise ConfigError(f"--distribution: {problem}")
    for each in tasks:
        if problem := _no_such_text((*each.task.toolsets, *each.task.distribution)):
            raise ConfigError(f"Task {each.label}: {problem}")


async def refuse_unreachable(
    runner: Literal["docker", "ssh"], loaded: LoadedSettings, environ: Mapping[str, str], folder: Path
) -> None:
    """Raise `ConfigError` if `runner` cannot run commands, for example because its host does not answer.

    `folder` is the results folder, which the runner must be able to use.
    """
    ssh = loaded.settings.terminal.ssh
    if runner == "ssh" and not ssh.host:
        raise ConfigError("--runner ssh needs the name of a host; set terminal.ssh.host.")
    if runner == "ssh" and not ssh.shared:
        raise ConfigError(
            "Tasks of --runner ssh work in folders under -o, which the host has to have under the same "
            "path; if it does, set terminal.ssh.shared: true."
        )
    terminal = loaded.settings.terminal.model_copy(update={"backend": runner, "workdir": ""})
    options = backend_options(terminal, environ)
    assert options is not None
    try:
        backend = open_backend(options, folder)
        try:
            await backend.open()
        finally:
            await backend.aclose()
    except ToolError as error:
        raise ConfigError(f"--runner {runner}: {error}") from error


def _no_such_text(names: Iterable[str]) -> str:
    return no_such(name for name in names if not name.startswith("mcp"))


Runner = Literal["local", "docker", "ssh", "ray"]
_KEPT = ("done", "denied")
"""Outcomes that asking again would not change."""
_ONE_AT_ONCE = (
    "One task at once: the model runs on this machine, and each session loads its own weights. "
    "A server of your own, named under `providers`, serves several."
)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """The options that a person chooses for a run."""

    jobs: int = 4
    retries: int = 2
    total: Budget = field(default_factory=Budget)
    """What all tasks may use together, earlier runs over the same folder included."""
    runner: Runner = "local"
    approve: ModeName | None = None
    model: str = ""
    judge: str = ""
    """The model of checks that judge; empty: the usual one."""
    distribution: Distribution = field(default_factory=dict)
    """The chances of toolsets for tasks that name neither toolsets nor chances."""
    address: str = ""
    """Of a cluster, for `ray`."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The progress of a run. `last` is the task that has just ended, if any."""

    total: int
    ended: int = 0
    failed: int = 0
    running: tuple[str, ...] = ()
    tokens: int = 0
    last: TaskResult | None = None
    resumed: int = 0
    """Tasks whose answers an earlier run has."""
    note: str = ""
    """A sentence about the whole run, such as why it takes one task at once."""

    def with_result(self, result: TaskResult) -> BatchProgress:
        """Return the progress after one more ended task."""
        return replace(
            self,
            ended=self.ended + 1,
            failed=self.failed + (not result.passed),
            tokens=self.tokens + result.usage.get("input", 0) + result.usage.get("output", 0),
        )


Told = Callable[[BatchProgress], None]


class BatchRun:
    """Works on tasks until all have ended. `told` is called for each task that begins or ends."""

    def __init__(
        self,
        tasks: Sequence[NumberedTask],
        folder: ResultFolder,
        pool: Pool,
        options: BatchOptions,
        told: Told = lambda progress: None,
        note: str = "",
    ) -> None:
        self._tasks = tasks
        self._folder = folder
        self._pool = pool
        self._options = options
        self._told = told
        self._progress = BatchProgress(len(tasks), note=note)
        names = {each.name for each in tasks}
        kept = {
            each.key: each for each in folder.task_results() if each.key in names and each.outcome in _KEPT
        }
        for result in kept.values():
            self._progress = self._progress.with_result(result)
        self._progress = replace(self._progress, resumed=len(kept))
        self._kept = frozenset(kept)
        self._begun = folder.begun_tasks()
        self._running: dict[str, str] = {}
        self._closed = ""
        """Why nothing more is begun: the ceiling of the whole is reached."""

    async def run(self) -> BatchProgress:
        """Run the remaining tasks and return the final progress.

        Tasks that an earlier run has finished are skipped.
        """
        waiting = deque(each for each in self._tasks if each.name not in self._kept)
        self._tell()
        workers = [
            asyncio.create_task(self._work(waiting)) for _ in range(min(self._options.jobs, len(waiting)))
        ]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        await asyncio.to_thread(self._folder.put_in_order, [each.name for each in self._tasks])
        return self._progress

    async def _work(self, waiting: deque[NumberedTask]) -> None:
        while waiting:
            numbered = waiting.popleft()
            self._running[numbered.name] = numbered.label
            self._tell()
            try:
                result = await self._run_task(numbered)
            finally:
                del self._running[numbered.name]
            self._folder.note_ended(result)
            self._progress = self._progress.with_result(result)
            self._tell(result)

    async def _run_task(self, numbered: NumberedTask) -> TaskResult:
        """Attempt a task, repeating it after failures as often as allowed, and return the last result."""
        known = self._begun.pop(numbered.name, Begun("", 0))
        tries = 0
        while True:
            result = await self._run_attempt(numbered, known.session, known.attempts + 1)
            known = Begun(result.session, result.attempts)
            tries += 1
            if (
                result.outcome not in ("failed", "interrupted")
                or self._closed
                or tries > self._options.retries
            ):
                return result
            pause = min(_FIRST_PAUSE * 2**tries, _LONGEST_PAUSE)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))

    async def _run_attempt(self, numbered: NumberedTask, session: str, attempt: int) -> TaskResult:
        if self._closed:
            return _unasked_result(numbered, session, attempt - 1, self._closed)
        assignment = AssignedTask(
            task=numbered.task,
            name=numbered.name,
            shown=numbered.label,
            attempt=attempt,
            session=session,
            source=numbered.source,
            toolsets=self._toolsets(numbered),
        )
        try:
            result = await self._pool.attempt(assignment)
        except WorkerDiedError as error:
            left = self._folder.begun_tasks().get(numbered.name, Begun(session, attempt))
            return replace(_unasked_result(numbered, left.session, attempt, str(error)), outcome="failed")
        if result.outcome == "budget" and "this home" in result.error:
            result = replace(result, error=result.error.replace("this home", "this batch"))
            self._closed = (
                "The ceiling of the batch is reached; raise --max-tokens or --max-cost to continue."
            )
        return result

    def _toolsets(self, numbered: NumberedTask) -> tuple[str, ...]:
        task = numbered.task
        if task.toolsets:
            return ()
        return draw_toolsets(task.distribution or self._options.distribution, numbered.name)

    def _tell(self, last: TaskResult | None = None) -> None:
        self._told(replace(self._progress, running=tuple(self._running.values()), last=last))


def _unasked_result(numbered: NumberedTask, session: str, attempts: int, why: str) -> TaskResult:
    return TaskResult(
        id=numbered.label,
        key=numbered.name,
        outcome="budget",
        text="",
        usage={},
        seconds=0.0,
        attempts=attempts,
        checks=(),
        session=session,
        error=why,
    )


async def run_batch(
    tasks: Sequence[NumberedTask],
    folder: ResultFolder,
    options: BatchOptions,
    environ: Mapping[str, str],
    *,
    base: Path,
    told: Told = lambda progress: None,
    more: Mapping[str, Any] | None = None,
) -> BatchProgress:
    """Run tasks and store their results in a folder.

    Image paths are relative to `base`; `more` are extra settings of the sessions. Raises `HermesError` if the
    folder cannot be used or another run works on it.
    """
    home = Home.locate(dict(environ))
    await asyncio.to_thread(refuse_unknown_toolsets, tasks, options.distribution)
    loaded = await asyncio.to_thread(load, home, environ, chosen=more)
    models = {each.task.model or options.model for each in tasks}
    await refuse_without_model(models, loaded, environment(home, environ))
    with await asyncio.to_thread(_prepare_folder, folder, home) as lock:
        if options.runner == "docker" or options.runner == "ssh":
            await refuse_unreachable(
                options.runner, loaded, variables(home, folder.home, environ), folder.root
            )
        conditions = Conditions(
            folder=folder,
            settings={**batch_settings(loaded, home, options.total, options.runner), **(more or {})},
            environ=variables(home, folder.home, environ),
            approve=options.approve,
            model=options.model,
            judge=options.judge,
            base=base,
        )
        note = ""
        if options.jobs > 1 and _loads_weights(loaded, models, conditions.environ):
            options, note = replace(options, jobs=1), _ONE_AT_ONCE
        pool = await _pool(conditions, options, lock)
        try:
            return await BatchRun(tasks, folder, pool, options, told, note).run()
        finally:
            await pool.aclose()


def _loads_weights(loaded: LoadedSettings, models: Set[str], environ: Mapping[str, str]) -> bool:
    """Return whether a session with one of `models` loads a model on this machine."""
    for model in models:
        try:
            targets = resolve(loaded.settings, environ, model)
        except HermesError:
            continue  # the task that names it tells why
        if any(target.kind == "local" for target in targets):
            return True
    return False


async def _pool(conditions: Conditions, options: BatchOptions, lock: FolderLock) -> Pool:
    if options.runner != "ray":
        return LocalPool(conditions, max(1, min(options.jobs, os.cpu_count() or 1)), lock.of_workers)
    from agent.automation.batch.pools import open_ray

    return await asyncio.to_thread(open_ray, conditions, options.address)


def _prepare_folder(folder: ResultFolder, home: Home) -> FolderLock:
    try:
        folder.prepare()
        lock = FolderLock(folder.root)
    except OSError as error:
        raise ConfigError(
            f"{folder.root} cannot be used: {error.strerror}; choose another with -o."
        ) from error
    try:
        lay_home(folder.home, home)
    except OSError as error:
        lock.close()
        raise ConfigError(f"{folder.home} cannot be written: {error.strerror}.") from error
    return lock

"""One run of a batch: checks before the start, the remaining tasks, and their results."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

from agent.automation.batch.attempt import (
    AssignedTask,
    Begun,
    Conditions,
    FolderLock,
    ResultFolder,
    ResultsNotWrittenError,
    TaskResult,
    attempt,
    batch_settings,
    lay_home,
    variables,
)
from agent.automation.batch.task import Distribution, NumberedTask, draw_toolsets
from agent.automation.batch.worker import (
    LONGEST_LINE,
    assignment_json,
    assignment_of,
    conditions_json,
    conditions_of,
)
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
from tools.extras import missing
from tools.kit.children import kill_process, module_command, start_child
from tools.results import ToolError
from tools.terminal.backends.opening import open_backend
from tools.text.safe_text import clean
from tools.toolsets import no_such

_PATIENCE = 10.0
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError, ConnectionError)
"""Errors raised by a line that is not an answer from a worker, or is too long."""


class WorkerDiedError(HermesError):
    """Raised if the process that worked on a task ended without an answer."""


class Pool(Protocol):
    """Workers that carry out attempts at tasks."""

    async def attempt(self, assignment: AssignedTask) -> TaskResult:
        """Work on a task and return the result. Raises `WorkerDiedError` if the outcome is unknown."""
        ...

    async def aclose(self) -> None:
        """End all workers, and attempts that are still running."""
        ...


class LocalPool:
    """At most `count` local processes, started when there is work. They inherit the descriptor `lock`."""

    def __init__(self, conditions: Conditions, count: int, lock: int) -> None:
        self._workers = [_Worker(conditions, lock) for _ in range(count)]

    async def attempt(self, assignment: AssignedTask) -> TaskResult:
        worker = min(self._workers, key=lambda each: each.load)
        return await worker.attempt(assignment)

    async def aclose(self) -> None:
        await asyncio.gather(*(each.aclose() for each in self._workers))


class _Worker:
    def __init__(self, conditions: Conditions, lock: int) -> None:
        self._conditions = conditions
        self._lock = lock
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[TaskResult]] = {}
        self._numbers = itertools.count()
        self.load = 0

    async def attempt(self, assignment: AssignedTask) -> TaskResult:
        self.load += 1
        try:
            async with self._starting:
                process = await self._running()
            number = next(self._numbers)
            future = self._waiting[number] = asyncio.get_running_loop().create_future()
            try:
                await _send(process, {"number": number, "assignment": assignment_json(assignment)})
                return await future
            finally:
                self._waiting.pop(number, None)
        finally:
            self.load -= 1

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._process.returncode is None and not _over(self._reading):
            return self._process
        path = self._conditions.folder.root / "worker.log"
        try:
            log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise ResultsNotWrittenError(path, error) from error
        try:
            process = await start_child(
                [*module_command("agent.automation.batch.worker"), str(self._lock)],
                stdin=asyncio.subprocess.PIPE,
                stderr=log,
                limit=LONGEST_LINE,
                fds=(self._lock,),
            )
        except OSError as error:
            raise HermesError(f"A worker cannot be started: {error.strerror}.") from error
        finally:
            os.close(log)
        self._process = process
        self._reading = asyncio.create_task(self._read(process))
        await _send(process, conditions_json(self._conditions))
        return process

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                self._take(json.loads(line))
        except _UNREADABLE:
            # Its answers can no longer be told apart: its tasks are started again elsewhere.
            kill_process(process)
        code = await process.wait()
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(WorkerDiedError(f"The worker of this task {_ending(code)}."))

    def _take(self, said: Any) -> None:
        """Pass an answer from the worker to the waiting caller.

        Raises one of `_UNREADABLE` if it is not an answer.
        """
        future = self._waiting.get(said["number"])
        if future is None or future.done():
            return
        if "fault" in said:
            told = f"The worker failed ({said['fault']}); worker.log has the details."
            future.set_exception(WorkerDiedError(told))
        else:
            future.set_result(TaskResult.from_json(said["result"]))

    async def aclose(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_PATIENCE):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._reading is not None:
            await self._reading


def _ending(code: int) -> str:
    """Return a clause on how a process ended, from its exit code."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _over(task: asyncio.Task[None] | None) -> bool:
    return task is None or task.done()


async def _send(process: asyncio.subprocess.Process, given: Any) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(given).encode() + b"\n")
        await process.stdin.drain()
    except (ConnectionError, RuntimeError) as error:
        raise WorkerDiedError(f"The worker of this task is gone: {error}.") from error


def open_ray(conditions: Conditions, address: str) -> Pool:
    """Return a pool on the Ray cluster at `address`, or on an embedded one. Blocks. Raises `ConfigError`."""
    try:
        ray = import_module("ray")
    except ImportError:
        raise ConfigError(missing("--runner ray", "ray")) from None
    try:
        quiet = {"include_dashboard": False} if not address else {}
        ray.init(address=address or None, log_to_driver=False, logging_level="error", **quiet)
    except Exception as error:  # whatever a cluster answers
        place = f"reached at {address}" if address else "started on this machine"
        told = clean(" ".join(str(error).split())).rstrip(".")
        raise ConfigError(f"Ray cannot be {place}: {told}.") from error
    return RayPool(ray, conditions)


class RayPool:
    """A pool that sends each attempt to a Ray cluster, which decides where it runs."""

    def __init__(self, ray: Any, conditions: Conditions) -> None:
        self._ray = ray
        self._conditions = conditions_json(conditions)
        self._carry = ray.remote(num_cpus=1, max_retries=0)(_carry)

    async def attempt(self, assignment: AssignedTask) -> TaskResult:
        reference = self._carry.remote(self._conditions, assignment_json(assignment))
        try:
            return TaskResult.from_json(await asyncio.wrap_future(reference.future()))
        except self._ray.exceptions.RayError as error:
            raise WorkerDiedError(f"The worker of this task is gone: {type(error).__name__}.") from error
        except asyncio.CancelledError:
            self._ray.cancel(reference)
            raise

    async def aclose(self) -> None:
        await asyncio.to_thread(self._ray.shutdown)


def _carry(conditions: Mapping[str, Any], assignment: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out one attempt in a process of the cluster; return its result as data."""
    result = asyncio.run(attempt(assignment_of(assignment), conditions_of(conditions)))
    return result.to_json()


async def refuse_without_model(models: Set[str], loaded: LoadedSettings, environ: Mapping[str, str]) -> None:
    """Raise `HermesError` if none of `models` can be used, because every task would then fail.

    An empty name stands for the default model. If only some can be used, the tasks with other models fail
    with the reason.
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
"""Outcomes that another attempt would not change."""
_ONE_AT_ONCE = (
    "One task at once: the model runs on this machine, and each session loads its own weights. "
    "A server of your own, named under `providers`, serves several."
)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """The options that the user chooses for a run."""

    jobs: int = 4
    retries: int = 2
    total: Budget = field(default_factory=Budget)
    """The budget of all tasks together, including earlier runs over the same folder."""
    runner: Runner = "local"
    approve: ModeName | None = None
    model: str = ""
    judge: str = ""
    """The model for checks of kind `judge`; empty for the model of the task."""
    distribution: Distribution = field(default_factory=dict)
    """The chances of toolsets for tasks that name neither toolsets nor chances."""
    address: str = ""
    """The address of a cluster, for `ray`; empty for an embedded one."""


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
    """The number of tasks that an earlier run has finished."""
    note: str = ""
    """A sentence about the whole run, such as why it works on one task at a time; may be empty."""

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
    """Works on tasks until all have ended. `told` is called when a task begins or ends."""

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
        """The reason why no more tasks are started (the budget is used up); otherwise empty."""

    async def run(self) -> BatchProgress:
        """Run the remaining tasks, sort the results, and return the final progress.

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
        """Attempt a task, again after failures as often as allowed, and return the last result."""
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
    """Run tasks, store their results in a folder, and return the final progress.

    Image paths are relative to `base`; `more` are extra settings for the sessions. Raises `HermesError`, for
    example if the folder cannot be used or another run works on it.
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
    """Return whether a session with one of `models` loads model weights on this machine."""
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

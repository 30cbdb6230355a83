"""Workers of a batch: processes here, or tasks of a Ray cluster."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Protocol

from agent.automation.batch.attempt import AssignedTask, Conditions, attempt
from agent.automation.batch.results import ResultsNotWrittenError, TaskResult
from agent.automation.batch.worker import (
    LONGEST_LINE,
    assignment_json,
    assignment_of,
    conditions_json,
    conditions_of,
)
from agent.errors import ConfigError, HermesError
from tools.extras import missing
from tools.kit.children import module_command, start_child
from tools.text.safe_text import clean

_PATIENCE = 10.0
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError, ConnectionError)
"""What a line raises that is not an answer of a worker, or is too long."""


class WorkerDiedError(HermesError):
    """Error: the process that worked on a task ended without an answer."""


class Pool(Protocol):
    """Workers that carry out attempts."""

    async def attempt(self, assignment: AssignedTask) -> TaskResult:
        """Work on a task and return the result. Raises `WorkerDiedError` if the outcome is unknown."""
        ...

    async def aclose(self) -> None:
        """End all attempts that are still running."""
        ...


class LocalPool:
    """At most `count` local processes, started when there is work for them. They inherit `lock`."""

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
            # Nothing it says can be told apart any more: what it has is begun again elsewhere.
            with suppress(ProcessLookupError):
                process.kill()
        code = await process.wait()
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(WorkerDiedError(f"The worker of this task {_ending(code)}."))

    def _take(self, said: Any) -> None:
        """Pass an answer of the worker to the waiting caller.

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
    """Return a clause that says how a process ended."""
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
    """Connect to the cluster at `address`, or start an embedded Ray. Blocks. Raises `ConfigError`."""
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
    """A pool that sends each attempt to the cluster; the cluster decides where it runs."""

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
    """Carry out one attempt inside a cluster process."""
    result = asyncio.run(attempt(assignment_of(assignment), conditions_of(conditions)))
    return result.to_json()

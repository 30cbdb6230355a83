"""Child processes, each of which leads a session and a process group that is killed with it.

A child begins with the user's umask, unless its files are for Hermes alone. Hermes's own processes exchange
JSON objects over an inherited socket, each after its length in four bytes.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from tools.kit.umask import person_umask

MUCH = 100_000
"""The size in bytes from which a frame is parsed off the event loop: about 2 ms."""
_START = (
    "import sys; sys.path[:] = {path!r}; from tools.kit.umask import make_private; make_private(); "
    "from {module} import main; main(); from tools.kit.process_exit import exit_process; exit_process(0)"
)

IDLE = 60.0
"""Seconds without a request after which a worker ends."""
_LARGEST = 200_000_000
_KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH")

Stream = int | IO[Any]


async def start_child(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    stdin: Stream = DEVNULL,
    stdout: Stream = PIPE,
    stderr: Stream = DEVNULL,
    fds: Sequence[int] = (),
    private: bool = False,
    limit: int = 65_536,
) -> Process:
    """Start a program in a new session. Raises `OSError` and `ValueError`.

    `env` is its whole environment; None means the environment of this process. It inherits the descriptors
    `fds`. With `private`, files that it creates are for Hermes alone; otherwise they follow the user's umask.
    `limit` is the longest line that can be read from it.
    """
    return await asyncio.create_subprocess_exec(
        *argv,
        env=None if env is None else dict(env),
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=fds,
        start_new_session=True,
        umask=-1 if private else person_umask(),
        limit=limit,
    )


async def run_child(
    argv: Sequence[str | Path],
    data: bytes,
    *,
    seconds: float,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
) -> bytes:
    """Run a program with `data` as its input; return its output and kill its process group.

    Raises `TimeoutError` and `OSError`.
    """
    process = await start_child(argv, env=env, cwd=cwd, stdin=PIPE, private=True)
    try:
        async with asyncio.timeout(seconds):
            return (await process.communicate(data))[0]
    finally:
        await kill_child(process)


def kill_group(group: int, number: int = signal.SIGKILL) -> None:
    """Signal a process group, if it still exists."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def kill_process(process: Process) -> None:
    """Kill a child, unless its end is known.

    `Process.kill` first checks whether it has ended. That takes the exit code away from the event loop, which
    then reports 255.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL)


async def kill_child(process: Process) -> None:
    """Kill a child with its group, and wait for its end. May be called again."""
    if process.returncode is None:
        kill_group(process.pid)
        kill_process(process)
        await process.wait()


async def end_child(process: Process, seconds: float, *, asked: bool = False) -> None:
    """End a child and its group: close its input, then SIGTERM, then SIGKILL, with `seconds` for each step.

    `asked` means that the child was already asked to end, so the first step is skipped.
    """
    if process.stdin is not None and not asked:
        process.stdin.close()
    for number in (None, signal.SIGTERM, signal.SIGKILL)[asked:]:
        if process.returncode is not None:
            break
        if number is not None:
            kill_group(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await process.wait()
    kill_group(process.pid)  # what it left behind


def module_command(module: str) -> list[str]:
    """Return the command that runs `main` of a module of Hermes in a process of its own."""
    return [sys.executable, "-I", "-c", _START.format(path=sys.path, module=module)]


async def start_module(
    module: str, environ: Mapping[str, str] | None = None
) -> tuple[Process, asyncio.StreamReader, asyncio.StreamWriter]:
    """Run `main` of a module of Hermes, with the number of its socket in `sys.argv[1]`.

    It has no standard streams; `environ` has the meaning as in `start_child`. Raises `OSError`.
    """
    ours, its = socket.socketpair()
    try:
        process = await start_child(
            [*module_command(module), str(its.fileno())],
            env=environ,
            stdout=DEVNULL,
            fds=[its.fileno()],
        )
    except BaseException:
        ours.close()
        raise
    finally:
        its.close()
    reader, writer = await asyncio.open_connection(sock=ours)
    return process, reader, writer


class FrameError(Exception):
    """Raised if received data is not a frame. The text gives the reason as a clause."""


class LargeFrameError(FrameError):
    """Raised for a frame that is larger than permitted."""


def framed(data: bytes) -> bytes:
    """Return the bytes that are sent for one object: its length, then its data."""
    return len(data).to_bytes(4, "big") + data


async def read_frame(reader: asyncio.StreamReader, largest: int) -> dict[str, Any] | None:
    """Return the next frame of at most `largest` bytes; None if the stream ends, even within a frame.

    Raises `FrameError`.
    """
    try:
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > largest:
            raise LargeFrameError(f"a frame of {size:,} bytes is too large")
        data = await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    try:
        frame = await asyncio.to_thread(json.loads, data) if size > MUCH else json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a frame is not JSON: {error}") from error
    if not isinstance(frame, dict):
        raise FrameError("a frame is not an object")
    return frame


class WorkerError(Exception):
    """Raised if the process ended, or its answer is invalid."""


class WorkerProcess:
    """A process for one kind of work: started on demand, ended when idle, killed when it hangs.

    It has a scrubbed environment and handles one request at a time, of at most `seconds`; `main` of `module`
    answers the requests (see `agent.core.worker_child`).
    """

    def __init__(
        self, module: str, *, seconds: float, idle: float = IDLE, environ: Mapping[str, str] | None = None
    ) -> None:
        """`environ` is added to the few variables that the process gets."""
        self._module = module
        self._seconds = seconds
        self._idle = idle
        self._environ = dict(environ or {})
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._ending: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pid(self) -> int | None:
        """The id of the process; None while there is none."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def ask(self, order: Mapping[str, Any], data: bytes = b"") -> bytes:
        """Return the answer to a request. Raises `TimeoutError` and `WorkerError`.

        After an error the next request starts a new process.
        """
        async with self._lock:
            self._stay()
            try:
                async with asyncio.timeout(self._seconds):
                    answer = await self._ask(order, data)
            except TimeoutError:
                await self._end()
                raise
            except (OSError, EOFError, ValueError) as error:
                await self._end()
                raise WorkerError(str(error)) from error
            except BaseException:
                await self._end()
                raise
            self._ending = asyncio.get_running_loop().call_later(self._idle, self._leave)
        return answer

    async def close(self) -> None:
        """End the process. The next request starts it again."""
        self._stay()
        async with self._lock:
            await self._end()

    async def _ask(self, order: Mapping[str, Any], data: bytes) -> bytes:
        reader, writer = await self._ensure_started()
        head = json.dumps({**order, "size": len(data)}).encode()
        writer.write(framed(head))
        writer.write(data)
        await writer.drain()
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > _LARGEST:
            raise ValueError("an answer is too large")
        return await reader.readexactly(size)

    async def _ensure_started(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is not None and self._process is not None and self._process.returncode is None:
            return self._streams
        await self._end()
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        self._process, reader, writer = await start_module(self._module, kept | self._environ)
        self._streams = reader, writer
        return self._streams

    def _stay(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _leave(self) -> None:
        task = asyncio.ensure_future(self.close())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self) -> None:
        process, streams = self._process, self._streams
        self._process = self._streams = None
        if streams is not None:
            streams[1].close()
        if process is not None:
            await kill_child(process)

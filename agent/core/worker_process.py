"""A process that does one kind of work: started when needed, ended when idle, killed when it hangs.

It runs a function of ours with a scrubbed environment and speaks over a socket that it was born with; see
`agent.core.worker_child` for its side.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agent.core.child_process import start_child
from agent.core.frames import framed

IDLE = 60.0
"""Seconds without an order after which the process ends."""
_LARGEST = 200_000_000
_KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH")


class WorkerError(Exception):
    """The process ended, or answered with something that is no answer."""


class WorkerProcess:
    """Does one order at a time. `module` is that whose `main` answers, `seconds` what an order may take."""

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
        """The process while there is one."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def ask(self, order: Mapping[str, Any], data: bytes = b"") -> bytes:
        """The answer to an order. Raises `TimeoutError` and `WorkerError`; the next order starts anew."""
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
        """End the process. It starts again when it is needed again."""
        self._stay()
        async with self._lock:
            await self._end()

    async def _ask(self, order: Mapping[str, Any], data: bytes) -> bytes:
        reader, writer = await self._started()
        head = json.dumps({**order, "size": len(data)}).encode()
        writer.write(framed(head))
        writer.write(data)
        await writer.drain()
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > _LARGEST:
            raise ValueError("an answer is too large")
        return await reader.readexactly(size)

    async def _started(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is not None and self._process is not None and self._process.returncode is None:
            return self._streams
        await self._end()
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        self._process, reader, writer = await start_child(self._module, kept | self._environ)
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
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
            await process.wait()

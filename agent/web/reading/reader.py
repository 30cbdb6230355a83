"""The way to the process that reads documents: started when needed, ended when idle, killed when it hangs."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agent.web.reading.page import ReadPage, UnreadableError

SECONDS = 20.0
"""For one document."""
IDLE = 60.0
"""Seconds without an order after which the process ends."""
_LARGEST = 200_000_000
_MUCH = 100_000
_START = "import sys; sys.path[:] = {path!r}; from agent.web.reading.child import main; main()"
_KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH")


class DocumentReader:
    """Reads one document at a time, in a process of its own. `seconds` for each."""

    def __init__(self, seconds: float = SECONDS, idle: float = IDLE) -> None:
        self._seconds = seconds
        self._idle = idle
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._ending: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(
        self,
        data: bytes,
        content_type: str = "",
        url: str = "",
        *,
        wants_plain: bool = False,
        wants_links: bool = False,
    ) -> ReadPage:
        """The document as text. Raises `UnreadableError`."""
        order = {
            "content_type": content_type,
            "url": url,
            "wants_plain": wants_plain,
            "wants_links": wants_links,
            "size": len(data),
        }
        async with self._lock:
            self._stay()
            try:
                async with asyncio.timeout(self._seconds):
                    answer = await self._ask(order, data)
            except TimeoutError:
                await self._end()
                raise UnreadableError(f"took more than {self._seconds:g} s to read") from None
            except (OSError, EOFError, ValueError) as error:
                await self._end()
                raise UnreadableError("made the process that read it fail") from error
            except BaseException:
                await self._end()
                raise
            self._ending = asyncio.get_running_loop().call_later(self._idle, self._leave)
        if "problem" in answer:
            raise UnreadableError(str(answer["problem"]))
        return ReadPage.from_json(answer["page"])

    async def close(self) -> None:
        """End the process. It starts again when it is needed again."""
        self._stay()
        async with self._lock:
            await self._end()

    async def _ask(self, order: Mapping[str, Any], data: bytes) -> dict[str, Any]:
        reader, writer = await self._started()
        head = json.dumps(order).encode()
        writer.write(len(head).to_bytes(4, "big") + head)
        writer.write(data)
        await writer.drain()
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > _LARGEST:
            raise ValueError("an answer is too large")
        answer = await reader.readexactly(size)
        return await asyncio.to_thread(json.loads, answer) if size > _MUCH else json.loads(answer)

    async def _started(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is not None and self._process is not None and self._process.returncode is None:
            return self._streams
        await self._end()
        ours, its = socket.socketpair()
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-I", "-c", _START.format(path=sys.path), str(its.fileno())),
                pass_fds=[its.fileno()],
                env={name: os.environ[name] for name in _KEPT if name in os.environ},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            its.close()
        self._streams = await asyncio.open_connection(sock=ours)
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

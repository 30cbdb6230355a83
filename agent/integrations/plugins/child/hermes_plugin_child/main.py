"""The main program of a plugin's process: receives frames over a private socket and answers them there.

A frame is a length of four bytes, big-endian, followed by one JSON object. Standard output and standard error
belong to the plugin; Hermes writes them into a log.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import struct
import traceback
from pathlib import Path
from typing import Any

from .context import Context, run
from .loading import load, only_sources

LARGEST = 4_000_000
"""The maximum size of one frame, in bytes."""
_LENGTH = struct.Struct(">I")
_COMPLAINT = 4_000


def main() -> int:
    """Answer requests until Hermes closes the connection, then exit without returning."""
    link = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    asyncio.run(_Service(link).serve())
    # Threads of handlers that still run must not hold up the end.
    os._exit(0)


class _Service:
    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._context: Context | None = None

    async def serve(self) -> None:
        reader, self._writer = await asyncio.open_connection(sock=self._link)
        while True:
            try:
                (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                frame = json.loads(await reader.readexactly(length))
            except (asyncio.IncompleteReadError, OSError):
                return
            number = frame["id"]
            if frame["do"] == "cancel":
                if (task := self._tasks.get(number)) is not None:
                    task.cancel()
                continue
            self._tasks[number] = asyncio.create_task(self._answer(number, frame))

    async def _answer(self, number: int, frame: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"id": number}
        try:
            answer["result"] = await self._perform(frame)
            data = json.dumps(answer, ensure_ascii=True).encode("ascii")
            if len(data) > LARGEST:
                raise ValueError(f"the result is larger than {LARGEST:,} bytes")
        except asyncio.CancelledError:
            data = json.dumps({"id": number, "error": "it was stopped"}).encode("ascii")
        except BaseException as error:
            # Also SystemExit: a plugin that wants to leave has failed at what it was asked for.
            traceback.print_exc()
            data = json.dumps({"id": number, "error": _words(error)}).encode("ascii")
        finally:
            self._tasks.pop(number, None)
        self._writer.write(_LENGTH.pack(len(data)) + data)
        await self._writer.drain()

    async def _perform(self, frame: dict[str, Any]) -> Any:
        match frame["do"]:
            case "load":
                return await self._load(frame)
            case "shell":
                return await _shell(frame)
            case _:
                if self._context is None:
                    raise RuntimeError("the plugin has no code")
                try:
                    return await self._context.call(frame["do"], frame["name"], frame["given"])
                except KeyError:
                    if (frame["do"], frame["name"]) in self._context._handlers:
                        raise
                    raise LookupError("it did not register this when it was started") from None

    async def _load(self, frame: dict[str, Any]) -> list[dict[str, Any]]:
        _limit(frame["memory"])
        self._context = Context(frame["name"], frame["root"], frame["data"], frame["workspace"])
        if not frame["handler"]:
            return []
        only_sources(Path(frame["root"]))
        register = load(frame["handler"])
        await run(register, self._context) if _is_async(register) else register(self._context)
        return self._context.entries()


def _is_async(register: Any) -> bool:
    return asyncio.iscoroutinefunction(register)


def _limit(memory: int) -> None:
    """Limit the private memory of this process to `memory` bytes, and switch off core dumps."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


async def _shell(frame: dict[str, Any]) -> dict[str, Any]:
    """Run a shell command from the plugin's hooks, with JSON as its input; return exit code and output."""
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        frame["command"],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=frame["root"],
    )
    try:
        data = json.dumps(frame["given"]).encode("ascii") + b"\n"
        output, errors = await process.communicate(data)
    finally:
        if process.returncode is None:
            process.kill()
    return {
        "code": process.returncode,
        "output": output[: LARGEST // 4].decode("utf-8", "replace"),
        "errors": errors[:_COMPLAINT].decode("utf-8", "replace"),
    }


def _words(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} (line {error.lineno})"
    text = " ".join(str(error).split())[:_COMPLAINT]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__

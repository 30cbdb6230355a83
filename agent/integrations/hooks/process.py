"""Running one hook: a child process with JSON on its input, a time limit, and an answer of limited size."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import IO, Any

from agent.core.config.hook_list import Hook, HookAnswer, HookError, parse_answer
from tools.kit.children import kill_child, kill_group, start_child
from tools.text.words import one_line

LARGEST_ANSWER = 1_000_000
"""Bytes of output that are read."""
_CHUNK = 65_536
_COMPLAINT = 300
"""Characters of a hook's errors that a notice quotes."""


async def run_hook(
    hook: Hook, payload: Mapping[str, Any], workspace: Path, environment: Mapping[str, str]
) -> HookAnswer:
    """Run a hook and read its answer. Raises `HookError`, and leave no process of its group."""
    data = await asyncio.to_thread(_encoded, payload)
    async with AsyncExitStack() as streams:
        source = streams.enter_context(tempfile.TemporaryFile(prefix="hermes-hook-"))  # noqa: SIM115
        await asyncio.to_thread(_fill, source, data)
        output, to_output = await _pipe(streams)
        errors, to_errors = await _pipe(streams)
        try:
            process = await start_child(
                ["/bin/sh", "-c", hook.command],
                stdin=source,
                stdout=to_output,
                stderr=to_errors,
                cwd=workspace,
                env=environment,
            )
        except OSError as error:
            raise HookError(f"it cannot be started: {error.strerror or error}") from error
        finally:
            os.close(to_output)
            os.close(to_errors)
        return await _answer(hook, process, output, errors)


async def _answer(
    hook: Hook,
    process: asyncio.subprocess.Process,
    output: asyncio.StreamReader,
    errors: asyncio.StreamReader,
) -> HookAnswer:
    """Wait for the end and read the answer."""
    complaining = asyncio.create_task(_read(errors, keep=_COMPLAINT * 4))
    answering = asyncio.create_task(_read(output, keep=LARGEST_ANSWER + 1))
    try:
        async with asyncio.timeout(hook.timeout):
            code = await process.wait()
            # What it left in the background may hold the pipes.
            kill_group(process.pid)
            said, complaint = await answering, await complaining
    except TimeoutError:
        raise HookError(f"it did not answer within {hook.timeout:g} s") from None
    finally:
        kill_group(process.pid)
        await kill_child(process)
        for task in (answering, complaining):
            task.cancel()
        await asyncio.gather(answering, complaining, return_exceptions=True)
    if code != 0:
        words = one_line(complaint.decode("utf-8", "replace"))[:_COMPLAINT]
        raise HookError(f"it ended with code {code}" + (f" ({words})" if words else ""))
    if len(said) > LARGEST_ANSWER:
        raise HookError(f"its answer is larger than {LARGEST_ANSWER:,} bytes")
    return parse_answer(said)


def _encoded(payload: Mapping[str, Any]) -> bytes:
    return json.dumps(payload, ensure_ascii=True, default=str).encode("ascii") + b"\n"


def _fill(source: IO[bytes], data: bytes) -> None:
    """The input is a file: a hook that does not read it holds nothing up."""
    source.write(data)
    source.seek(0)


async def _pipe(streams: AsyncExitStack) -> tuple[asyncio.StreamReader, int]:
    """A pipe of our own: one of asyncio's would keep the end of the process waiting for its own end."""
    reading, writing = os.pipe()
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
    )
    streams.callback(transport.close)
    return reader, writing


async def _read(stream: asyncio.StreamReader, keep: int) -> bytes:
    """Everything up to the end, of which the first `keep` bytes are kept."""
    kept = bytearray()
    while chunk := await stream.read(_CHUNK):
        kept += chunk[: max(keep - len(kept), 0)]
    return bytes(kept)

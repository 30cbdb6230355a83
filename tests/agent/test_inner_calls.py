"""Calls of scripts: which of them run side by side."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from agent.events import ToolFinished, ToolStarted
from tests.support.engines import bench
from tests.support.replies import by_step, call, say
from tools.discovery import discover
from tools.registry import registry

CODE = """
from hermes_tools import gather, {tool}
results = gather(*[lambda n=n: {call} for n in range(8)])
print(sum("error" in result for result in results))
"""


async def crowd(folder: Path, monkeypatch: pytest.MonkeyPatch, tool: str, call_text: str) -> tuple[int, Any]:
    """How many calls of a tool were under way at once, and what the model got. Each waits for company."""
    discover()
    entry = registry.get(tool)
    assert entry is not None
    inside, most = 0, 0
    together = asyncio.Event()

    async def handler(arguments: Any, context: Any) -> Any:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        if inside == 8:
            together.set()
        try:
            await asyncio.wait_for(together.wait(), 60 if entry.read_only else 0.02)
        except TimeoutError:
            pass
        try:
            if entry.is_async:
                return await entry.handler(arguments, context)
            return await asyncio.to_thread(entry.handler, arguments, context)
        finally:
            inside -= 1

    get = registry.get
    watched = dataclasses.replace(entry, handler=handler, is_async=True)
    monkeypatch.setattr(registry, "get", lambda name: watched if name == tool else get(name))
    code = CODE.format(tool=tool, call=call_text)
    async with bench(folder, by_step([call("execute_code", code=code), say("done")])) as b:
        for number in range(8):
            (b.workspace / f"{number}.txt").write_text(f"{number}\n")
        await b.turn("go")
        assert len([event for event in b.seen(ToolStarted) if event.parent]) == 8
        assert len([event for event in b.seen(ToolFinished) if event.parent]) == 8
        return most, json.loads(b.server.requests[1].messages[-1]["content"])


async def test_eight_calls_that_only_read_overlap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most, result = await crowd(tmp_path, monkeypatch, "read_file", "read_file(f'{n}.txt')")
    assert (most, result["output"]) == (8, "0\n"), result


async def test_calls_that_change_something_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, result = await crowd(tmp_path, monkeypatch, "write_file", "write_file(f'new{n}.txt', 'x')")
    assert (most, result["output"]) == (1, "0\n"), result

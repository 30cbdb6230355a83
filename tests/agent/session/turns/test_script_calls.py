"""Calls of scripts: which of them run side by side."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from agent.events import ToolFinished, ToolStarted
from tests.support.engines import Bench, bench
from tests.support.replies import by_step, call, say
from tools.discovery import discover
from tools.registry import Registry, registry

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

    get = Registry.get
    watched = dataclasses.replace(entry, handler=handler, is_async=True)
    # A session has a registry of its own, made from the one of all tools.
    monkeypatch.setattr(Registry, "get", lambda self, name: watched if name == tool else get(self, name))
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


@pytest.mark.thorough
async def test_calls_that_change_something_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, result = await crowd(tmp_path, monkeypatch, "write_file", "write_file(f'new{n}.txt', 'x')")
    assert (most, result["output"]) == (1, "0\n"), result


READ_ALL = """
from hermes_tools import read_file
print([len(read_file(f"{n}.txt").get("content", "")) > 0 for n in range(3) for again in range(2)])
"""


def told(b: Bench, number: int) -> list[dict[str, Any]]:
    """The results at the end of a request to the model."""
    messages = b.server.requests[number].messages
    newest = max(i for i, message in enumerate(messages) if message["role"] == "assistant")
    return [json.loads(message["content"]) for message in messages[newest + 1 :] if message["role"] == "tool"]


@pytest.mark.thorough
async def test_a_script_gets_the_text_of_a_file_whoever_has_read_it_before(tmp_path: Path) -> None:
    script = by_step(
        [
            call("read_file", path="0.txt"),
            call("execute_code", code=READ_ALL),
            call("execute_code", code=READ_ALL + "#"),
            say("done"),
        ]
    )
    async with bench(tmp_path, script) as b:
        for number in range(3):
            (b.workspace / f"{number}.txt").write_text(f"{number}\n")
        await b.turn("go")
        assert [told(b, number)[0]["output"] for number in (2, 3)] == [f"{[True] * 6}\n"] * 2


@pytest.mark.thorough
async def test_what_only_a_script_read_was_not_shown_to_the_model(tmp_path: Path) -> None:
    script = by_step(
        [
            call("execute_code", code=READ_ALL),
            call("read_file", path="0.txt"),
            call("execute_code", code=READ_ALL + "#"),
            call("read_file", path="0.txt"),
            call("read_file", path="1.txt"),
            call("write_file", path="2.txt", content="new\n"),
            say("done"),
        ]
    )
    async with bench(tmp_path, script) as b:
        for number in range(3):
            (b.workspace / f"{number}.txt").write_text(f"{number}\n")
        await b.turn("go")
        first, again, other, written = (told(b, number)[0] for number in (2, 4, 5, 6))
        assert first["content"] == "1|0" and other["content"] == "1|1"
        assert again["status"] == "unchanged"
        assert "had not read it" in written["warning"]


async def test_lines_of_a_result_that_was_cut_to_a_preview_are_shown_again(tmp_path: Path) -> None:
    steps = [call("read_file", path="quotes.txt", limit=2_000) for _ in range(2)]
    async with bench(tmp_path, by_step([*steps, say("done")])) as b:
        # Each quote takes two characters in a result.
        (b.workspace / "quotes.txt").write_text(('"' * 48 + "\n") * 1_800)
        await b.turn("go")
        for number in (1, 2):
            assert "preview" in told(b, number)[0]

"""A task with a real shell, and ways to look at real processes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import tools.terminal.process_tool
import tools.terminal.tool  # noqa: F401 registers
from tests.support.tool_context import FakeContext
from tools.registry import call_tool
from tools.terminal.backend import Backend
from tools.terminal.terminals import Terminals


class Task:
    """One task: its context, and its two tools as methods. The result is the parsed JSON."""

    def __init__(
        self,
        workspace: Path,
        terminals: Terminals,
        name: str = "task-1",
        options: dict[str, Any] | None = None,
    ) -> None:
        self.context = FakeContext(workspace, task=name, options=options)
        self.context.terminals = terminals
        self.workspace = self.context.workspace

    async def run(self, command: str, **arguments: Any) -> dict[str, Any]:
        return json.loads(await call_tool("terminal", {"command": command, **arguments}, self.context))

    async def process(self, action: str, session_id: str | None = None, **arguments: Any) -> dict[str, Any]:
        given = {"action": action, "session_id": session_id, **arguments}
        return json.loads(await call_tool("process", given, self.context))

    async def tool(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Any other tool of the same task."""
        return json.loads(await call_tool(tool, arguments, self.context))

    async def output(self, command: str, **arguments: Any) -> str:
        result = await self.run(command, **arguments)
        assert "error" not in result, result
        return result["output"]

    async def poll_until(self, session_id: str, wanted: str) -> str:
        """Poll until the output so far holds `wanted`."""
        seen = ""
        while wanted not in seen:
            await asyncio.sleep(0.02)
            seen += (await self.process("poll", session_id))["output"]
        return seen


@pytest.fixture
async def terminals() -> AsyncIterator[Callable[..., Terminals]]:
    """Makes `Terminals` that are closed at the end."""
    made: list[Terminals] = []

    def make(environ: dict[str, str] | None = None, backend: Backend | None = None) -> Terminals:
        made.append(Terminals(dict(os.environ) if environ is None else environ, backend))
        return made[-1]

    yield make
    for one in made:
        await one.aclose()


@pytest.fixture
async def task(tmp_path: Path, terminals: Callable[..., Terminals]) -> Task:
    workspace = tmp_path / "work space"
    workspace.mkdir()
    return Task(workspace, terminals({**os.environ, "NVM_OWN": "value one"}))


def processes_with(marker: str) -> list[int]:
    """Ids of living processes whose command line holds `marker`."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            line = (folder / "cmdline").read_bytes()
            state = (folder / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if marker.encode() in line and state not in "ZX":
            found.append(int(folder.name))
    return found


async def until(condition: Callable[[], Any]) -> None:
    """Wait for a condition; the test's time limit ends a wait in vain."""
    while not condition():
        await asyncio.sleep(0.01)


def until_now(condition: Callable[[], Any]) -> None:
    while not condition():
        time.sleep(0.01)


DASH = shutil.which("dash") or "/bin/sh"

"""A runner with real children, and tools whose results are easy to check."""

from __future__ import annotations

import asyncio
import json
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools.code.data import Clock, CodeJob, CodeLimits, CodeOutcome, CodeProgress
from tools.code.runner import CodeRunner


def tool(name: str, required: tuple[str, ...] = (), **kinds: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": kinds, "required": list(required)}
    return {"name": name, "description": f"The tool {name}. It has more to it.", "parameters": parameters}


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
TOOLS = (
    tool("read_file", ("path",), path=TEXT, offset={"type": "integer", "default": 1}),
    tool("write_file", ("path", "content"), path=TEXT, content=TEXT),
    tool("terminal", ("command",), command=TEXT, timeout=WHOLE, workdir=TEXT, background={"type": "boolean"}),
    tool("web_search", ("query",), query=TEXT),
    tool("clarify", ("question",), question=TEXT),
)


class Scripts:
    """Runs scripts and keeps what was called. `answers` overrides what a tool does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runner = CodeRunner(spare=False)
        self.called: list[tuple[str, dict[str, Any]]] = []
        self.progress: list[CodeProgress] = []
        self.answers: dict[str, Any] = {}

    async def serve(self, name: str, arguments: dict[str, Any]) -> str:
        self.called.append((name, arguments))
        answer = self.answers.get(name)
        if answer is not None:
            return await answer(arguments)
        return json.dumps({"tool": name, **arguments}, ensure_ascii=False)

    def job(self, script: str, **given: Any) -> CodeJob:
        limits = CodeLimits(**given.pop("limits", {}))
        fields = {"folder": self.folder, "tools": TOOLS, "known": frozenset({"clarify", "frobnicate"})}
        return CodeJob(script=textwrap.dedent(script), limits=limits, **{**fields, **given})

    async def run(
        self, script: str, *, stop: asyncio.Event | None = None, clock: Clock | None = None, **given: Any
    ) -> CodeOutcome:
        job = self.job(script, **given)
        return await self.runner.run(job, self.serve, self.progress.append, stop=stop, clock=clock)

    async def output(self, script: str, **given: Any) -> str:
        outcome = await self.run(script, **given)
        assert outcome.status == "ok", outcome
        return outcome.stdout


@pytest.fixture
async def scripts(tmp_path: Path) -> AsyncIterator[Scripts]:
    made = Scripts(tmp_path)
    yield made
    await made.runner.aclose()


def out_of_time_with(sign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the time of every script be over once there is such a file."""
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + 100_000 * sign.exists())
    monkeypatch.setattr("tools.code.data.time", clock)


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file; where a script makes it, all of its time is over."""
    out_of_time_with(tmp_path / "late", monkeypatch)
    return tmp_path / "late"


def living(marker: str) -> list[int]:
    """Ids of living processes whose command line or environment holds `marker`."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            text = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            state = (folder / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()[0]
        except (OSError, IndexError):
            continue
        if folder.name.isdigit() and marker.encode() in text and state not in "ZX":
            found.append(int(folder.name))
    return found


async def until(condition: Any) -> None:
    """Wait for a condition; the test's time limit ends a wait in vain."""
    while not condition():
        await asyncio.sleep(0.01)

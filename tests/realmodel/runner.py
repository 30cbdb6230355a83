"""Runs tasks through the whole engine with the local model, and keeps the figures."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from agent.events import Event, Noticed, RequestStarted, ToolStarted, TurnEnded, UsageChanged
from agent.session.options import Options
from agent.session.runtime import open_engine
from tests.realmodel.tasks import Task, Turn, furnish


@dataclass(frozen=True)
class Step:
    """One request: seconds it took, tokens of its prompt, and how many of them were cached."""

    seconds: float
    prompt: int | None
    cached: int | None


@dataclass(frozen=True)
class Record:
    task: str
    right: bool
    turn: Turn
    steps: tuple[Step, ...]

    def line(self) -> str:
        calls = " → ".join(f"{name} {json.dumps(arguments)}" for name, arguments in self.turn.calls)
        seconds = ", ".join(f"{step.seconds:.1f}" for step in self.steps)
        mark = "✓" if self.right else "✗"
        return f"{mark} {self.task} [{seconds} s] {calls or 'no call'} | {self.turn.answer[:120]!r}"


class _Stopwatch:
    """Times requests by the engine's own events; loading the model does not count."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.calls: list[tuple[str, dict[str, object]]] = []
        self._since = 0.0

    def __call__(self, event: Event) -> None:
        match event:
            case RequestStarted() | Noticed():
                self._since = monotonic()
            case UsageChanged():
                usage = event.request
                self.steps.append(Step(monotonic() - self._since, usage.input, usage.cached))
            case ToolStarted():
                self.calls.append((event.tool, event.arguments))
            case _:
                pass


async def run(task: Task, model: Path, home: Path, folder: Path) -> Record:
    """One task in a fresh folder and a fresh session."""
    _prepare(model, home, folder)
    watch = _Stopwatch()
    options = Options(workspace=folder, model="local", approve="all")
    engine = await open_engine(options, watch, environ={**os.environ, "HERMES_HOME": str(home)})
    try:
        ended: TurnEnded = await engine.run(task.request)
    finally:
        await engine.aclose()
    if ended.error:
        raise AssertionError(f"{task.name}: {ended.error}")
    turn = Turn(tuple(watch.calls), ended.text, folder)
    return Record(task.name, task.right(turn), turn, tuple(watch.steps))


def _prepare(model: Path, home: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    furnish(folder)
    home.mkdir(parents=True, exist_ok=True)
    local = {"model": str(model), "threads": int(os.environ.get("HERMES_TEST_THREADS", "0"))}
    (home / "config.yaml").write_text(json.dumps({"local": local}))


def summary(records: Sequence[Record]) -> str:
    """All records and the figures, as text for a person."""
    steps = [step for record in records for step in record.steps]
    later = [step for record in records for step in record.steps[1:]]
    mean = sum(step.seconds for step in steps) / max(1, len(steps))
    mean_later = sum(step.seconds for step in later) / max(1, len(later))
    right = sum(record.right for record in records)
    figures = (
        f"{right} of {len(records)} right; {mean:.1f} s per step, {mean_later:.1f} s from the second step on"
    )
    return "\n".join([*(record.line() for record in records), figures])

"""A scripted model for many agents: each conversation follows the script of its own task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.support.delivery import Recorded
from tests.support.replies import Reply, ScriptItem, by_step, exhausted

MAIN = "main"
UNASKED = "subagents: {forecast_tokens: null}\n"
"""Settings with which nobody is asked before agents are sent."""


def task_of(recorded: Recorded) -> str:
    """The goal of the agent that asks, `main` for the session's own."""
    asked = next(message["content"] for message in recorded.messages if message["role"] == "user")
    _, marker, rest = str(asked).partition("Your task: ")
    return rest.split("\n", 1)[0].strip() if marker else MAIN


def by_task(scripts: Mapping[str, Sequence[ScriptItem] | Callable[[Any], Reply]]) -> Callable[[Any], Reply]:
    """A script per goal; each is answered by the step its conversation has reached."""
    chosen = {goal: script if callable(script) else by_step(script) for goal, script in scripts.items()}

    def choose(request: Any) -> Reply:
        script = chosen.get(task_of(request))
        return exhausted(0) if script is None else script(request)

    return choose


def report(summary: str = "All done.", outcome: str = "completed", **lists: Sequence[str]) -> str:
    """A report as an agent is asked to write it."""
    parts = [f"Outcome: {outcome}", summary]
    for heading, items in lists.items():
        parts.append(
            "\n".join([f"{heading.replace('_', ' ').capitalize()}:", *(f"- {each}" for each in items)])
        )
    return "\n\n".join(parts)

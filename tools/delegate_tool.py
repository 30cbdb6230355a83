"""The `delegate_task` tool, with which an agent starts other agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tools.context import Assignment, Delegates, ToolContext
from tools.registry import Arguments, registry
from tools.results import Display, TextDetail, ToolError, error_text
from tools.text.safe_text import clean
from tools.text.words import one_line, without_marks

NAME = "delegate_task"
MAX_TASKS = 32
"""The maximum number of agents in one call."""
MOST_NAMED = 16
"""Agent kinds described in the schema, one line each; others are only named."""
ABOUT_CHARS = 120
MORE_CHARS = 400
"""The character limits of such a line's description, and of the line with the other names."""


async def delegate_task(arguments: Arguments, context: ToolContext) -> Mapping[str, Any]:
    """Start an agent for each task, and wait for the reports unless they work in the background."""
    assignments = _assignments(arguments)
    await context.permit_agents(NAME, assignments)
    return await context.service(Delegates).run(assignments, bool(arguments.get("background")))


def _assignments(arguments: Arguments) -> list[Assignment]:
    """Return one assignment per task, with the common fields as defaults. Raises `ToolError`."""
    tasks = arguments.get("tasks") or [{}]
    if len(tasks) > MAX_TASKS:
        raise ToolError(f"{len(tasks)} tasks are too many for one call; send at most {MAX_TASKS}.")
    made = []
    for number, task in enumerate(tasks, 1):
        said = {**arguments, **task}
        if not str(said.get("goal") or "").strip():
            raise ToolError(f"Task {number} has no goal; say what should be reached.")
        made.append(
            Assignment(
                goal=said["goal"],
                context=said.get("context") or "",
                toolsets=tuple(said.get("toolsets") or ()),
                agent=said.get("agent") or "",
                isolation=said.get("isolation") or "shared",
                budget=dict(said.get("budget") or {}),
                model=said.get("model") or "",
            )
        )
    return made


def _describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    tasks = arguments.get("tasks")
    count = len(tasks) if isinstance(tasks, list) and tasks else 1
    goal = clean(str(arguments.get("goal") or ""))
    if count > 1:
        goal = f"{count} agents" + (f": {goal}" if goal else "")
    elif not goal and isinstance(tasks, list) and tasks and isinstance(tasks[0], Mapping):
        goal = clean(str(tasks[0].get("goal", "")))
    subject = goal.split("\n", 1)[0][:120]
    if result is None or result.get("error"):
        return Display("delegate", subject, error_text(result)[:200])
    if started := result.get("started"):
        return Display("delegate", subject, f"{', '.join(map(str, started))} in the background")
    reports = [each for each in result.get("results", ()) if isinstance(each, Mapping)]
    lines = [
        f"{each.get('id')} · {each.get('outcome')}: {without_marks(clean(str(each.get('summary', ''))))}"
        for each in reports
    ]
    done = sum(each.get("outcome") == "completed" for each in reports)
    summary = f"{done} of {len(reports)} completed" if len(reports) != 1 else str(reports[0].get("outcome"))
    return Display("delegate", subject, summary, TextDetail(clean("\n\n".join(lines))))


_TASK: dict[str, Any] = {
    "goal": {"type": "string"},
    "context": {"type": "string"},
    "toolsets": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Only these.",
    },
    "agent": {"type": "string"},
    "model": {"type": "string"},
    "isolation": {"type": "string", "enum": ["shared", "readonly", "copy"]},
    "budget": {
        "type": "object",
        "description": "Ceilings of each: turns, tokens, money, seconds.",
        "properties": {name: {"type": "number"} for name in ("turns", "tokens", "money", "seconds")},
        "additionalProperties": False,
    },
}


def _bare(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return only the type, items and choices of a schema, because the rest is described elsewhere."""
    return {key: schema[key] for key in ("type", "items", "enum") if key in schema}


def _without_repeats(definition: dict[str, Any], _on_offer: frozenset[str]) -> dict[str, Any]:
    """Return the definition without repetitions: the fields of `tasks` and those of `budget`.
    Calls are checked against the full definition.
    """
    properties = definition["parameters"]["properties"]
    tasks = {"type": "array", "items": {"type": "object", "required": ["goal"]}}
    budget = {key: properties["budget"][key] for key in ("type", "description")}
    return {
        **definition,
        "parameters": {
            **definition["parameters"],
            "properties": {**properties, "budget": budget, "tasks": tasks},
        },
    }


def with_agent_kinds(definition: Mapping[str, Any], kinds: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return a definition; if it is this tool's, with the available kinds of agents listed in it.

    `kinds` are pairs of name and description.
    """
    if definition["name"] != NAME or not kinds:
        return dict(definition)
    lines = [f"- {name}: {shortened(about)}" for name, about in kinds[:MOST_NAMED]]
    if len(kinds) > MOST_NAMED:
        lines.append(f"and {', '.join(name for name, _ in kinds[MOST_NAMED:])}"[:MORE_CHARS])
    words = "A short name, or a kind of agent:\n"
    parameters = definition["parameters"]
    agent = {**parameters["properties"]["agent"], "description": words + "\n".join(lines)}
    properties = {**parameters["properties"], "agent": agent}
    return {**definition, "parameters": {**parameters, "properties": properties}}


def shortened(about: str) -> str:
    """Return the first sentence of a description, cut to `ABOUT_CHARS` characters."""
    line = one_line(about).partition(". ")[0]
    return line if len(line) <= ABOUT_CHARS else f"{line[: ABOUT_CHARS - 1].rstrip()}…"


registry.register(
    name=NAME,
    toolset="delegate",
    schema={
        "description": (
            "Send agents that work on their own and report back, for work that parts well or would fill your "
            "context. They see only the goal and context you give. `tasks` sends several side by side, each "
            "with these fields; those beside it count for all. readonly: changes nothing; copy: works in a "
            "copy of the workspace, whose changes you merge or discard. A result is completed only if its "
            "outcome says so."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                **_TASK,
                "tasks": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {name: _bare(each) for name, each in _TASK.items()},
                        "required": ["goal"],
                        "additionalProperties": False,
                    },
                },
                "background": {"type": "boolean", "description": "You are told of its end."},
            },
            "additionalProperties": False,
        },
    },
    handler=delegate_task,
    describe=_describe,
    patch=_without_repeats,
    # It changes nothing itself: what the agents do is governed and recorded call by call.
    read_only=True,
    place=70,
    bundles=("default",),
    traits=("sends_agents",),
)

"""The task of an agent made from a call: its definition counts, and a call can only make it narrower."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from agent.session.spending.budget import Budget
from agent.session.subagents.definitions import Broken, Catalog, Definition, stricter
from agent.session.subagents.records import Task
from tools.context import Assignment
from tools.registry import Registry
from tools.results import ToolError
from tools.text.safe_text import clean
from tools.toolsets import members


def task_of(assignment: Assignment, catalog: Catalog, registry: Registry, background: bool = False) -> Task:
    """The task that an assignment means. Raises `ToolError` if it means none."""
    definition = None
    if not assignment.only_answers:
        definition = _definition(assignment.agent.strip().removeprefix("@"), catalog)
    task = Task(
        goal=assignment.goal,
        context=assignment.context,
        toolsets=assignment.toolsets,
        name=assignment.agent,
        prompt=assignment.prompt,
        isolation=assignment.isolation,
        budget=_budget(assignment),
        background=background,
        model=assignment.model.strip(),
        only_answers=assignment.only_answers,
    )
    return task if definition is None else _applied(task, definition, registry)


def _definition(name: str, catalog: Catalog) -> Definition | None:
    """The definition of that name; None if it is only a name. Raises `ToolError` for a broken one."""
    if (broken := catalog.broken.get(name)) is not None:
        raise ToolError(f"The agent {clean(name)} cannot be sent. {first_problem(broken)}")
    return catalog.definitions.get(name)


def first_problem(broken: Broken) -> str:
    """What is wrong with a definition, in a sentence."""
    more = len(broken.problems) - 1
    return clean(f"{broken.problems[0]}{f' And {more} more.' if more else ''}")


def _applied(task: Task, definition: Definition, registry: Registry) -> Task:
    """A task for an agent of that kind. Raises `ToolError` where the two exclude each other."""
    name = definition.name
    if definition.model and task.model and task.model != definition.model:
        raise ToolError(f"The agent {name} works with {definition.model}; leave `model` out.")
    isolation = stricter(task.isolation, definition.isolation)
    if definition.foreign:
        if task.toolsets or task.model:
            raise ToolError(f"{name} has tools and a model of its own; leave toolsets and model out.")
        if isolation == "readonly":
            raise ToolError(f"Nothing keeps {name}, a program of its own, from writing; use a copy.")
    values: dict[str, Any] = {
        "foreign": name if definition.foreign else "",
        "name": name,
        "prompt": definition.prompt,
        "toolsets": _tools(task, definition, registry),
        "model": definition.model or task.model,
        "effort": definition.effort,
        "isolation": isolation,
        "budget": task.budget.within(definition.budget),
    }
    return Task(**{each.name: getattr(task, each.name) for each in fields(Task)} | values)


def _tools(task: Task, definition: Definition, registry: Registry) -> tuple[str, ...]:
    """What both allow."""
    if not task.toolsets or not definition.tools:
        return definition.tools or task.toolsets
    allowed = {tool for name in definition.tools for tool in members(name, registry) or ()}
    wanted = {name: members(name, registry) for name in task.toolsets}
    # Names that stand for nothing are told of where all names are checked.
    unknown = [name for name, found in wanted.items() if found is None]
    both = sorted(allowed & {tool for found in wanted.values() for tool in found or ()})
    if not both and not unknown:
        raise ToolError(
            f"The agent {definition.name} may use {', '.join(definition.tools)}; "
            f"nothing of that is in {clean(', '.join(task.toolsets))}. Leave `toolsets` out."
        )
    return (*both, *unknown)


def _budget(assignment: Assignment) -> Budget:
    known = {each.name for each in fields(Budget)}
    if unknown := sorted(set(assignment.budget) - known):
        raise ToolError(f"A budget has no {', '.join(unknown)}; it has {', '.join(sorted(known))}.")
    limits: dict[str, Any] = {}
    for name, value in assignment.budget.items():
        if value <= 0:
            raise ToolError(f"The budget of {name} must be above zero; it is {value:g}.")
        limits[name] = int(value) if name in ("turns", "tokens") else float(value)
    return Budget(**limits)

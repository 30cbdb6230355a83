"""The service with which an agent's tools start and control other agents, and merge their copies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import PRIVATE_FILE, private_folder
from agent.session.spending.budget import Budget
from agent.session.subagents.agent_copies import NOT_KEPT, AgentCopies
from agent.session.subagents.definitions import Broken, Catalog, Definition, stricter
from agent.session.subagents.forecast import Forecaster
from agent.session.subagents.live_agent import MAIN_AGENT, LiveAgent
from agent.session.subagents.records import NAMED, PREVIEW, SPILL, AgentReport, Task, overall
from agent.session.subagents.scheduler import Scheduler
from tools.context import AgentAnswer, Assignment, Conflicts, Delegates, PermitMerge
from tools.files.diffs import shorten_diff
from tools.registry import Registry
from tools.results import ToolError
from tools.text.safe_text import clean
from tools.toolsets import members

if TYPE_CHECKING:
    from agent.workspace.checkpoints.restore.ref_plan import Choice, PlanItem


def task_of(assignment: Assignment, catalog: Catalog, registry: Registry, background: bool = False) -> Task:
    """Return the task of an assignment. Raises `ToolError` for an invalid assignment."""
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
    return task if definition is None else _apply_definition(task, definition, registry)


def _definition(name: str, catalog: Catalog) -> Definition | None:
    """Return the definition with this name, or None if there is none. Raises `ToolError` if it is broken."""
    if (broken := catalog.broken.get(name)) is not None:
        raise ToolError(f"The agent {clean(name)} cannot be sent. {first_problem(broken)}")
    return catalog.definitions.get(name)


def first_problem(broken: Broken) -> str:
    """Return a sentence about the first problem of a definition, and the number of the others."""
    more = len(broken.problems) - 1
    return clean(f"{broken.problems[0]}{f' And {more} more.' if more else ''}")


def _apply_definition(task: Task, definition: Definition, registry: Registry) -> Task:
    """Return the task with the defaults and limits of its kind of agent. Raises `ToolError` if they
    contradict each other.
    """
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
    """Return the tools that both task and definition allow. Raises `ToolError` if there are none."""
    if not task.toolsets or not definition.tools:
        return definition.tools or task.toolsets
    allowed = {tool for name in definition.tools for tool in members(name, registry) or ()}
    wanted = {name: members(name, registry) for name in task.toolsets}
    # Unknown names are reported where all names are checked.
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


NOT_MERGED = (
    "What it changed is in its copy only. Nothing of that is merged: look with `subagents` diff, "
    "then merge or discard."
)
CHOICES: Mapping[Conflicts, Choice] = {"keep": "mine", "take": "checkpoint", "merge": "merge"}


@dataclass(frozen=True, slots=True)
class CopyMerging:
    """Access to agents' copies during one call of an agent. Methods raise `ToolError` or `HermesError`."""

    copies: AgentCopies
    agent: str
    call: str

    async def diff(self, run: LiveAgent, paths: Sequence[str]) -> dict[str, Any]:
        wanted = await self._paths_in_copy(run, paths)
        difference = await self.copies.changes(run.id, wanted)
        plan = await self.copies.plan_merge(run.id, wanted)
        patch = difference.patch
        return {
            "id": run.id,
            "files": len(difference.changes),
            "added": patch.added,
            "removed": patch.removed,
            "paths": [each.label() for each in difference.files[:NAMED]],
            "diff": shorten_diff(clean(patch.body.decode("utf-8", "replace"))),
            **_reasons("conflicts", [(item.path, item.reason) for item in plan.having("conflict")]),
            **_reasons("cannot_be_merged", [(item.path, item.reason) for item in plan.having("lost")]),
            **_reasons("not_shown", [(item.path, item.reason) for item in patch.left_out]),
        }

    async def merge(
        self, run: LiveAgent, paths: Sequence[str], conflicts: Conflicts, permit: PermitMerge
    ) -> dict[str, Any]:
        if not run.is_over:
            raise ToolError(f"{run.id} still works in its copy; wait for its end, or kill it first.")
        plan = await self.copies.plan_merge(run.id, await self._paths_in_copy(run, paths))
        chosen: dict[str, Choice] = {item.path: CHOICES[conflicts] for item in plan.having("conflict")}
        moving = [item for item in plan.items if _moves(item, chosen)]
        if moving:
            root = Path(plan.root)
            changed = tuple(root / item.path for item in moving if item.target is not None)
            removed = tuple(root / item.path for item in moving if item.target is None)
            await permit(run.id, changed, removed)
        restored = await self.copies.merge(run, plan, chosen)
        left = (await self.copies.changes(run.id)).changes if self.copies.holds(run.id) else ()
        done = restored.step.changes if restored.step is not None else ()
        if restored.step is not None:
            self.copies.note_step(self.agent, self.call, restored.step)
        return {
            "id": run.id,
            "merged": [clean(change.path) for change in done[:NAMED]],
            "merged_total": len(done),
            **_reasons("left_as_they_are", [(item.path, item.reason) for item in restored.skipped]),
            "unmerged": len(left),
            "note": _after(run, len(done), len(left)),
        }

    async def discard(self, run: LiveAgent) -> dict[str, Any]:
        count = await self.copies.discard(run)
        return {"id": run.id, "discarded": count}

    async def _paths_in_copy(self, run: LiveAgent, paths: Sequence[str]) -> list[str]:
        """Return paths relative to the copy; absolute ones in the copy or workspace are accepted."""
        root, origin = await self.copies.places(run.id)
        return [_within(path, root, origin) for path in paths]


def _moves(item: PlanItem, chosen: Mapping[str, Choice]) -> bool:
    return item.state == "change" or (item.state == "conflict" and chosen[item.path] != "mine")


def _within(path: str, root: Path, origin: Path) -> str:
    given = Path(path)
    if not given.is_absolute():
        return path
    for above in (root, origin):
        if given.is_relative_to(above):
            relative = given.relative_to(above).as_posix()
            return "" if relative == "." else relative
    raise ToolError(f"{clean(path)} is neither in the workspace nor in the copy.")


def _after(run: LiveAgent, done: int, left: int) -> str:
    files = "Files changed on disk; read them again. " if done else ""
    if not left:
        return f"{files}All of it is merged."
    return f"{files}{left:,} {'path' if left == 1 else 'paths'} in the copy of {run.id} are not merged."


def _reasons(key: str, items: Sequence[tuple[str, str]]) -> dict[str, Any]:
    if not items:
        return {}
    shown = [{"path": clean(path), "reason": clean(reason)} for path, reason in items[:NAMED]]
    return {key: shown, **({f"{key}_total": len(items)} if len(items) > NAMED else {})}


@dataclass(frozen=True, slots=True)
class DelegateService(Delegates):
    """Starts and controls agents (`tools.context.Delegates`) for one call of one agent."""

    scheduler: Scheduler
    agent: str
    call: str
    scratch: Path
    forecaster: Forecaster

    async def agree(self, assignments: Sequence[Assignment]) -> bool:
        """Ask the user to approve a forecast if the agents may use much.

        Returns True only if the user was asked and approved.
        """
        tasks = await self._tasks(assignments, False)
        return await self.forecaster.agree(tasks, self.agent, [each.reads for each in assignments])

    async def run(self, assignments: Sequence[Assignment], background: bool) -> Mapping[str, Any]:
        """Start agents, and return their reports; with `background`, return only their ids, at once.

        Only the session's own agent can start them in the background, because other agents end too soon.
        """
        background = background and self.agent == MAIN_AGENT
        tasks = await self._tasks(assignments, background)
        ids = await self.scheduler.start(tasks, self.agent, self.call)
        if background:
            for id in ids:
                self.scheduler.news.when_over(self.scheduler.run(id))
            return {
                "started": ids,
                "note": "They work in the background; you are told when each has ended.",
            }
        try:
            reports = await self.scheduler.wait(ids, waiter=self.agent)
        except asyncio.CancelledError:
            self.scheduler.interrupt(ids)
            raise
        return await self._together(reports)

    async def ask(self, assignments: Sequence[Assignment]) -> Sequence[AgentAnswer]:
        """Start agents, wait for them, and return their answers."""
        ids = await self.scheduler.start(await self._tasks(assignments, False), self.agent, self.call)
        try:
            reports = await self.scheduler.wait(ids, waiter=self.agent)
        except asyncio.CancelledError:
            self.scheduler.interrupt(ids)
            raise
        return [_agent_said(self.scheduler.run(report.id), report) for report in reports]

    async def list(self) -> Mapping[str, Any]:
        runs = self.scheduler.below(self.agent)
        return {"agents": [_row(run) | self._copy_of(run) for run in runs]}

    async def wait(self, id: str, seconds: float | None) -> Mapping[str, Any]:
        wanted = [self._mine(id)] if id else [run for run in self._runs() if not run.is_over]
        reports = await self.scheduler.wait([run.id for run in wanted], seconds, self.agent)
        running = [run.id for run in wanted if not run.is_over]
        if not reports and running:
            return {"still_running": running}
        return {**await self._together(reports), **({"still_running": running} if running else {})}

    async def result(self, id: str) -> Mapping[str, Any]:
        run = self._mine(id)
        if run.report is None:
            partial = run.child.last_words() if run.child is not None else ""
            return {**_row(run), **({"so_far": partial[:PREVIEW]} if partial else {})}
        return await self._report_data(run.report)

    async def send_input(self, id: str, text: str) -> Mapping[str, Any]:
        run = self._mine(id)
        await self.scheduler.send_input(run.id, text, self.agent)
        return _row(run)

    async def pause(self, id: str) -> Mapping[str, Any]:
        run = self._mine(id)
        if run.is_over:
            raise ToolError(f"{run.id} has ended ({run.standing}); there is nothing to pause.")
        self.scheduler.pause(run.id)
        return _row(run)

    async def resume(self, id: str, text: str) -> Mapping[str, Any]:
        run = self._mine(id)
        await self.scheduler.resume(run.id, text, by=self.agent)
        return _row(run)

    async def kill(self, id: str) -> Mapping[str, Any]:
        return await self._report_data(await self.scheduler.kill(self._mine(id).id))

    async def diff(self, id: str, paths: Sequence[str]) -> Mapping[str, Any]:
        run = self._mine(id)
        return await self._merging().diff(run, paths)

    async def merge(
        self, id: str, paths: Sequence[str], conflicts: Conflicts, permit: PermitMerge
    ) -> Mapping[str, Any]:
        run = self._mine(id)
        return await self._merging().merge(run, paths, conflicts, permit)

    async def discard(self, id: str) -> Mapping[str, Any]:
        run = self._mine(id)
        return await self._merging().discard(run)

    async def _tasks(self, assignments: Sequence[Assignment], background: bool) -> Sequence[Task]:
        services, catalog = self.scheduler.services, Catalog()
        if any(each.agent for each in assignments):
            catalog = await asyncio.to_thread(services.definitions.load)
        return [task_of(each, catalog, services.registry, background) for each in assignments]

    def _merging(self) -> CopyMerging:
        copies = self.scheduler.services.workspaces.copies
        if not copies.are_kept:
            raise ToolError(NOT_KEPT)
        return CopyMerging(copies, self.agent, self.call)

    def _copy_of(self, run: LiveAgent) -> dict[str, Any]:
        """Return data for the model about an ended agent's copy; empty if it has none."""
        return {"copy": "not merged"} if run.is_over and self._holds(run.id) else {}

    def _holds(self, id: str) -> bool:
        return self.scheduler.services.workspaces.copies.holds(id)

    def _runs(self) -> Sequence[LiveAgent]:
        return [run for run in self.scheduler.runs() if run.parent == self.agent]

    def _mine(self, id: str) -> LiveAgent:
        run = self.scheduler.run(id)
        if run not in self.scheduler.below(self.agent):
            raise ToolError(f"{run.id} was sent by another agent; you can only reach your own.")
        return run

    async def _together(self, reports: Sequence[AgentReport]) -> dict[str, Any]:
        told = [await self._report_data(report) for report in reports]
        return {"outcome": overall(report.outcome for report in reports), "results": told}

    async def _report_data(self, report: AgentReport) -> dict[str, Any]:
        """Return a report as data for the model; a long report is shortened, and saved in a file."""
        told = report.to_json()
        if self._holds(report.id):
            told["note"] = NOT_MERGED
        if len(report.summary) + sum(map(len, (*report.findings, *report.open_points))) <= SPILL:
            return told
        path = self.scratch / f"{report.id}-report.md"
        await asyncio.to_thread(_write, path, _text(report))
        told["summary"] = report.summary[:PREVIEW]
        told["findings"], told["open_points"] = _short(report.findings), _short(report.open_points)
        return {**told, "full_report": str(path), "hint": "The whole report is in that file; read_file it."}


def _agent_said(run: LiveAgent, report: AgentReport) -> AgentAnswer:
    return AgentAnswer(
        id=report.id,
        outcome=report.outcome,
        text=report.summary,
        reason=report.error,
        model=run.record.model,
        tokens=report.usage.tokens,
        cost=report.usage.cost,
    )


def _row(run: LiveAgent) -> dict[str, Any]:
    row = {"id": run.id, "state": run.standing, "goal": run.task.goal[:200], "action": run.action}
    return {name: value for name, value in row.items() if value} | {"usage": run.tally.figures()}


def _short(items: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for item in items:
        if sum(map(len, kept)) + len(item) > PREVIEW:
            break
        kept.append(item)
    return kept


def _text(report: AgentReport) -> str:
    parts = [report.summary]
    for title, items in (("Findings", report.findings), ("Open points", report.open_points)):
        if items:
            parts.append("\n".join([f"{title}:", *(f"- {item}" for item in items)]))
    return "\n\n".join(parts) + "\n"


def _write(path: Path, text: str) -> None:
    private_folder(path.parent)
    path.touch(mode=PRIVATE_FILE)
    path.write_text(text, encoding="utf-8", errors="replace")

"""The scheduler as the tools of one agent see it: its own agents, as JSON-able data."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.core.home import PRIVATE_FILE, private_folder
from agent.session.subagents.agent_copies import NOT_KEPT
from agent.session.subagents.assignment import task_of
from agent.session.subagents.copy_merging import NOT_MERGED, CopyMerging
from agent.session.subagents.definitions import Catalog
from agent.session.subagents.forecast_question import Forecaster
from agent.session.subagents.live_agent import MAIN_AGENT, LiveAgent
from agent.session.subagents.records import PREVIEW, SPILL, AgentReport, Task, overall
from agent.session.subagents.scheduler import Scheduler
from tools.context import AgentSaid, Assignment, Conflicts, PermitMerge
from tools.results import ToolError


@dataclass(frozen=True, slots=True)
class DelegateService:
    """`tools.context.Delegates` for one call of one agent."""

    scheduler: Scheduler
    agent: str
    call: str
    scratch: Path
    forecaster: Forecaster

    async def agree(self, assignments: Sequence[Assignment]) -> bool:
        """Let the person see what these take, if it may be much; True if they were asked and agreed."""
        tasks = await self._tasks(assignments, False)
        return await self.forecaster.agree(tasks, self.agent, [each.reads for each in assignments])

    async def run(self, assignments: Sequence[Assignment], background: bool) -> Mapping[str, Any]:
        """Send agents. Only the session's own agent lives long enough to have them in the background."""
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

    async def ask(self, assignments: Sequence[Assignment]) -> Sequence[AgentSaid]:
        """Send agents, and wait for what each says."""
        ids = await self.scheduler.start(await self._tasks(assignments, False), self.agent, self.call)
        try:
            reports = await self.scheduler.wait(ids, waiter=self.agent)
        except asyncio.CancelledError:
            self.scheduler.interrupt(ids)
            raise
        return [_said(self.scheduler.run(report.id), report) for report in reports]

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
        return await self._told(run.report)

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
        return await self._told(await self.scheduler.kill(self._mine(id).id))

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
        """What there is to be said of a copy with changes."""
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
        told = [await self._told(report) for report in reports]
        return {"outcome": overall(report.outcome for report in reports), "results": told}

    async def _told(self, report: AgentReport) -> dict[str, Any]:
        """A report for the model; one that is too long is kept in a file."""
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


def _said(run: LiveAgent, report: AgentReport) -> AgentSaid:
    return AgentSaid(
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
    used = {"requests": run.tally.requests, "tokens": run.tally.tokens, "cost": run.tally.cost}
    return {name: value for name, value in row.items() if value} | {"usage": used}


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

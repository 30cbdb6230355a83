"""The workspaces of a session's agents: its own, or copies of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from agent.session.subagents.agent_copies import NOT_KEPT, AgentCopies
from agent.session.subagents.records import AgentWorker, Task
from agent.session.wiring.agent_workspace import AgentWorkspace, OpenReach, open_in_copy
from tools.results import ToolError

if TYPE_CHECKING:
    from agent.workspace.checkpoints.entries import Step
    from agent.workspace.isolated_copies.workspace_copy import WorkspaceCopy

log = logging.getLogger(__name__)

ELSEWHERE = (
    "Commands of this session run on another machine, which a copy is not part of; "
    "use isolation `shared`, or `readonly` for an agent that only looks."
)
COPY_OF_COPY = (
    "You work in a copy yourself. Send agents with isolation `shared`: they work in the same copy as you."
)


class AgentWorkspaces:
    """Gives agents their ground. `shared` is that of the session, `open_reach` makes others."""

    def __init__(self, shared: AgentWorkspace, copies: AgentCopies, open_reach: OpenReach) -> None:
        self.shared = shared
        self.copies = copies
        self._open_reach = open_reach
        self._own: dict[str, AgentWorkspace] = {}

    def check(self, task: Task, sender: AgentWorker | None) -> None:
        """Raises `ToolError` when there is no such ground for an agent that `sender` sends."""
        if task.isolation != "copy":
            return
        if sender is not None and sender.ground_of:
            raise ToolError(COPY_OF_COPY)
        if self.shared.reach.around.commands_elsewhere:
            raise ToolError(ELSEWHERE)
        if not self.copies.are_kept:
            raise ToolError(NOT_KEPT)

    def of(self, run: AgentWorker) -> AgentWorkspace:
        """The ground an agent is on, or would be if it began now."""
        return self._own.get(run.ground_of, self.shared)

    def step_of(self, agent: str, call: str) -> Step | None:
        """The step of a call that merged a copy; told once."""
        return self.copies.step_of(agent, call)

    async def enter(self, run: AgentWorker) -> AgentWorkspace:
        """The ground an agent begins to work on; its copy is made if it has none. Raises `HermesError`."""
        if run.ground_of != run.id:
            return self.of(run)
        copy, news = await self.copies.enter(run)
        place = self._own[run.id] = await self.open_in(copy, run.id, news)
        return place

    async def open_in(self, copy: WorkspaceCopy, agent: str, news: str = "") -> AgentWorkspace:
        """A copy as the workspace of an agent, which closes it. Raises `HermesError`."""
        return await open_in_copy(self._open_reach, self.shared.reach, copy, agent, news)

    async def leave(self, run: AgentWorker) -> None:
        """An agent has ended: close what it acted through. Never raises."""
        try:
            await self.of(run).reach.terminals.end(run.record.id)
        except Exception:
            log.exception("the terminal of an agent could not be closed")
        if (place := self._own.pop(run.id, None)) is not None:
            await place.close()

"""Where the agents of a session work: in its workspace, or in a copy of that which is their own."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agent.assembly.reach import Around, Reach
from agent.errors import HermesError
from agent.subagents.copies import Copies
from agent.subagents.records import Task, Worker
from tools.results import ToolError

if TYPE_CHECKING:
    from agent.assembly.foundation import Closer
    from agent.workspace.checkpoints.entries import Step
    from agent.workspace.checkpoints.recorder import Recorder as Steps

log = logging.getLogger(__name__)

OpenReach = Callable[[Around], Awaitable[Reach]]

NOT_KEPT = (
    "What happens to files is not kept in this session (checkpoints.enabled), so no agent can work in a "
    "copy; use isolation `shared`, or `readonly` for one that only looks."
)
ELSEWHERE = (
    "Commands of this session run on another machine, which a copy is not part of; "
    "use isolation `shared`, or `readonly` for an agent that only looks."
)
COPY_OF_COPY = (
    "You work in a copy yourself. Send agents with isolation `shared`: they work in the same copy as you."
)


@dataclass(slots=True, kw_only=True)
class Ground:
    """Where an agent works, and by what it acts there."""

    reach: Reach
    steps: Steps | None
    """What keeps each step of its calls; None where only the copy as a whole counts."""
    position: Callable[[], int] | None = None
    """Where the files of the workspace stand for it; None where that is not kept."""
    origin: Path | None = None
    """The workspace that was copied; None for an agent that works in it."""
    news: str = ""
    """What an agent that begins there is told."""
    closers: list[Closer] = field(default_factory=list)


class Grounds:
    """Gives agents their ground. `shared` is that of the session, `open_reach` makes others."""

    def __init__(self, shared: Ground, copies: Copies | None, open_reach: OpenReach) -> None:
        """`copies` is None where none can be made."""
        self.shared = shared
        self.copies = copies
        self._open_reach = open_reach
        self._own: dict[str, Ground] = {}

    def check(self, task: Task, sender: Worker | None) -> None:
        """Raises `ToolError` when there is no such ground for an agent that `sender` sends."""
        if task.isolation != "copy":
            return
        if sender is not None and sender.ground_of:
            raise ToolError(COPY_OF_COPY)
        if self.shared.reach.around.commands_elsewhere:
            raise ToolError(ELSEWHERE)
        if self.copies is None:
            raise ToolError(NOT_KEPT)

    def of(self, run: Worker) -> Ground:
        """The ground an agent is on, or would be if it began now."""
        return self._own.get(run.ground_of, self.shared)

    def step_of(self, agent: str, call: str) -> Step | None:
        """The step of a call that merged a copy; told once."""
        return None if self.copies is None else self.copies.step_of(agent, call)

    async def enter(self, run: Worker) -> Ground:
        """The ground an agent begins to work on; its copy is made if it has none. Raises `HermesError`."""
        if run.ground_of != run.id:
            return self.of(run)
        if self.copies is None:
            raise HermesError(NOT_KEPT)
        copy, news = await self.copies.enter(run)
        shared = self.shared.reach
        closers: list[Closer] = []
        around = Around(
            workspace=copy.root,
            origin=copy.origin,
            scratch=shared.scratch / run.id,
            agent=run.id,
            approver=None,
            closers=closers,
            rules=shared.gate,
        )
        try:
            reach = await self._open_reach(around)
        except BaseException:
            await _close(closers)
            raise
        ground = Ground(
            reach=reach,
            steps=None,
            position=lambda: copy.position,
            origin=copy.origin,
            news=news,
            closers=closers,
        )
        self._own[run.id] = ground
        return ground

    async def leave(self, run: Worker) -> None:
        """An agent has ended: close what it acted through. Never raises."""
        try:
            await self.of(run).reach.terminals.end(run.record.id)
        except Exception:
            log.exception("the terminal of an agent could not be closed")
        if (ground := self._own.pop(run.id, None)) is not None:
            await _close(ground.closers)


async def _close(closers: list[Closer]) -> None:
    for close in reversed(closers):
        try:
            await close()
        except Exception:
            log.exception("what an agent acted through could not be closed")

"""The workspace of an agent: its session's workspace, or a copy of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agent.session.turns.tool_context import Acting
from agent.session.wiring.execution_context import ExecutionContext, ExecutionScope
from tools.kit.threads import close_all
from tools.services.actions import Action, RunCommand

if TYPE_CHECKING:
    from agent.events import Event
    from agent.session.wiring.shared_services import Closer
    from agent.workspace.checkpoints.recorder import StepRecorder
    from agent.workspace.git_origins import GitOrigins
    from agent.workspace.isolated_copies.workspace_copy import WorkspaceCopy

log = logging.getLogger(__name__)

Claim = Callable[[str, "Callable[[Event], None]"], AbstractAsyncContextManager[object]]
OpenReach = Callable[[ExecutionScope], Awaitable[ExecutionContext]]


@dataclass(slots=True, kw_only=True)
class AgentWorkspace:
    """The folder in which an agent works, and the services with which it acts there."""

    reach: ExecutionContext
    steps: StepRecorder | None = None
    """The recorder of its calls' steps; None if calls are not recorded one by one."""
    position: Callable[[], int | None] = lambda: None
    """Returns the position of the workspace's files; None if it is not recorded."""
    origin: Path | None = None
    """The workspace of which this is a copy; None if it is not a copy."""
    news: str = ""
    """A note for an agent that begins to work there; may be empty."""
    origins: GitOrigins | None = None
    """Determines which files git brought from commits of others; None if no steps are recorded."""
    claim: Claim = lambda call, emit: nullcontext()
    """A context for a call that may change files: changes meanwhile are attributed to the call, and not
    reported as the work of other programs.
    """
    before_programs: Sequence[Acting] = ()
    """Functions called before an action, ahead of all others, to prepare for programs that it runs."""
    closers: list[Closer] = field(default_factory=list)

    def keep_steps(self, steps: StepRecorder, folder: Path) -> None:
        """Record the changes of calls in `steps` from now on. `folder` is for data about commits."""
        from agent.workspace.git_origins import GitOrigins

        self.steps, self.position = steps, lambda: steps.position
        line = steps.store.line(steps.line)
        self.origins = GitOrigins(steps.root, folder / "commits.json", line.steps, self.reach.ask_remote)
        self.before_programs = [self.origins.acting]
        steps.links_stay = self.reach.links_stay

    def keep_files(self, session: str, *, has_hooks: bool = False) -> Acting:
        """Return a function that saves the files that a call is about to change.

        `session` is part of the key, because agents of different sessions may use the same call ids. With
        `has_hooks`, calls that only read are included, because the user's programs run with each call.
        """

        async def acting(call: str, action: Action) -> None:
            # Looking at all files before and after costs more than most commands that only look.
            if self.steps is not None and (has_hooks or not await self._only_looks(action, session)):
                await self.steps.acting(call, action, session)

        return acting

    async def _only_looks(self, action: Action, session: str) -> bool:
        """Return whether an action is a command that certainly does not change files."""

        def is_read_only(command: RunCommand) -> bool:
            names = self.reach.gate.programs_that_look(command)
            return names is not None and self.reach.terminals.has_usual_programs(session, names)

        if not isinstance(action, RunCommand) or action.background or action.pty or action.outside:
            return False
        return await asyncio.to_thread(is_read_only, action)

    async def close(self) -> None:
        """Close what was opened for this workspace alone. Errors are only logged."""
        try:
            await close_all(reversed(self.closers))
        except Exception:
            log.exception("what an agent acted through could not be closed")


async def open_in_copy(
    open_reach: OpenReach, shared: ExecutionContext, copy: WorkspaceCopy, agent: str, news: str = ""
) -> AgentWorkspace:
    """Return an agent's workspace in a copy, under the rules of the session. Raises `HermesError`."""
    closers: list[Closer] = []
    around = ExecutionScope(
        workspace=copy.root,
        origin=copy.origin,
        scratch=shared.scratch / agent,
        agent=agent,
        approver=None,
        closers=closers,
        rules=shared.gate,
    )
    place = AgentWorkspace(
        reach=shared, position=lambda: copy.position, origin=copy.origin, news=news, closers=closers
    )
    try:
        place.reach = await open_reach(around)
    except BaseException:
        await place.close()
        raise
    return place

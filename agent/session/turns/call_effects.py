"""The effects of calls on files: recorded as steps, and undone at guarded paths if not approved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from agent.session.turns.turn_helpers import TurnHelpers
from agent.session.turns.unasked_changes import UnaskedChanges
from tools.context import ToolContext

if TYPE_CHECKING:
    from agent.workspace.checkpoints.entries import Step
    from agent.workspace.checkpoints.recorder import StepRecorder

Around = Callable[[str], AbstractAsyncContextManager[object]]
"""A function that returns the context for a call that may change something."""
StepOf = Callable[[str], "Step | None"]
"""Returns the step of a call that had other code change files, such as a merge; None for most calls."""

WATCHING = "Watching the project"
GUARDED = "Looking after guarded places"


@dataclass(slots=True, kw_only=True)
class CallEffects:
    """Records and checks the effects of one agent's calls on files."""

    session: str
    steps: StepRecorder | None
    """The recorder of steps; None if the file changes of calls are not recorded."""
    unasked: UnaskedChanges
    helpers: TurnHelpers
    around: Around
    step_of: StepOf | None
    settled: Callable[[], None]
    """Called when a call that may change something has ended, with all its effects handled."""
    _steps: dict[str, Step] = field(default_factory=dict)
    """The steps of ended calls by call id, until their results are committed."""

    async def run(
        self, call: str, tool: str, label: str, context: ToolContext, work: Callable[[], Awaitable[str]]
    ) -> str:
        """Run the tool and return its result; changes in the workspace meanwhile belong to the call."""
        around, helpers, unasked = self.around, self.helpers, self.unasked
        try:
            async with helpers.around(WATCHING, lambda: around(call), None):
                async with self._record_step(call, label):
                    text = await work()
                    settle = partial(unasked.settle_settings, call, tool, context, text)
                    text = await helpers.ask(GUARDED, settle, text)
                # Without a user to ask, the reverted changes stay reverted.
                return await helpers.ask(GUARDED, lambda: unasked.settle(call, tool, context, text), text)
        finally:
            await helpers.ask(GUARDED, lambda: unasked.forgo(call), None)
            helpers.hear("Preparing for the next script", self.settled, None)

    def take_step(self, call: str) -> Step | None:
        """Return and forget the step of a call that has ended; None if there is none.

        If the call led to a step of another agent, that step is returned.
        """
        found = self._steps.pop(call, None)
        if found is not None or (step_of := self.step_of) is None:
            return found
        return self.helpers.hear("Showing a call", lambda: step_of(call), None)

    @asynccontextmanager
    async def _record_step(self, call: str, label: str) -> AsyncIterator[None]:
        """Record the file changes made in this context as the step of the call."""
        if (steps := self.steps) is None:
            yield
            return
        before = steps.position
        stack = AsyncExitStack()
        # Without a record for undo the call does not run; once it ran, its result stands.
        recording = await stack.enter_async_context(steps.during(call, label, self.session))

        async def keep() -> None:
            if recording.step is not None:
                self._steps[call] = recording.step
                await asyncio.shield(self.unasked.take_back(recording.step, call))
            elif (restore := await steps.restored_after(before)) is not None:
                # It was written down by what carried it out, for the call that asked for it.
                self._steps[call] = replace(restore, call=call)

        try:
            yield
        finally:
            await self.helpers.ask("Keeping what the call did to files, for undo", stack.aclose, None)
            await self.helpers.ask(GUARDED, keep, None)

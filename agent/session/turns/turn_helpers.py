"""Helpers of a turn, which may fail: the person reads a notice, the log has the cause, the turn goes on.

Everything that stands around calls and turns without deciding anything is asked through this: what was
learned, context files of folders, watching, diagnostics, figures, displays, records beside the
conversation. What guards an effect (the gate, the boundary, a required hook, the record for undo, the budget)
is not: where that fails, the effect does not happen.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agent.events import Event, Noticed
from agent.session.spending.budget import BudgetReachedError
from tools.services.actions import Action
from tools.services.diagnostics import Diagnostics, FileEdit
from tools.text.safe_text import clean

log = logging.getLogger(__name__)

T = TypeVar("T")

_REASON = 300
"""Characters of an error that a sentence quotes."""


@dataclass(slots=True)
class TurnHelpers:
    """Those of one agent. `emit` takes the notices; each helper is told of once in a turn."""

    emit: Callable[[Event], None]
    _told: set[str] = field(default_factory=set)

    def turn_began(self) -> None:
        """A helper that fails again in this turn is told of again."""
        self._told.clear()

    async def ask(
        self,
        name: str,
        work: Callable[[], Awaitable[T]],
        instead: T,
        *,
        through: type[Exception] | None = None,
    ) -> T:
        """What a helper gives, or `instead` where it fails; `name` begins the sentence about that.

        Errors of the kind `through` are no faults and are raised, and so is a ceiling that is reached.
        """
        try:
            return await work()
        except Exception as error:
            self._tell_failure(name, error, through)
            return instead

    def hear(self, name: str, work: Callable[[], T], instead: T) -> T:
        """The same for a helper that answers at once."""
        try:
            return work()
        except Exception as error:
            self._tell_failure(name, error, None)
            return instead

    @asynccontextmanager
    async def around(
        self, name: str, opened: Callable[[], AbstractAsyncContextManager[T]], instead: T
    ) -> AsyncIterator[T]:
        """A helper that is open while something runs, which its faults do not touch."""
        async with AsyncExitStack() as outer:
            stack = AsyncExitStack()
            given = await self.ask(name, lambda: stack.enter_async_context(opened()), instead)

            async def close() -> None:
                await self.ask(name, stack.aclose, None)

            outer.push_async_callback(close)
            yield given

    def _tell_failure(self, name: str, error: Exception, through: type[Exception] | None) -> None:
        if isinstance(error, BudgetReachedError) or (through is not None and isinstance(error, through)):
            raise error
        log.error("%s failed: %r", name, error, exc_info=None if name in self._told else error)
        if name not in self._told:
            self._told.add(name)
            text = f"{name} failed ({cause(error)}). The work goes on without it; the log has the details."
            self.emit(Noticed(kind="warning", text=text))


@dataclass(frozen=True, slots=True)
class HelpedDiagnostics:
    """Diagnostics whose failure does not touch the edit they look at."""

    servers: Diagnostics
    helpers: TurnHelpers

    async def after(self, edits: Sequence[FileEdit]) -> dict[str, Any] | None:
        return await self.helpers.ask(
            "Looking for errors after an edit", lambda: self.servers.after(edits), None
        )


def helping(
    helpers: TurnHelpers, hears: Callable[[str, Action], Awaitable[None]]
) -> Callable[[str, Action], Awaitable[None]]:
    """One that hears of actions and prevents none."""

    async def acting(call: str, action: Action) -> None:
        await helpers.ask("Noting what a call reaches", lambda: hears(call, action), None)

    return acting


def cause(error: Exception) -> str:
    """An unexpected error in a few words."""
    return clean(" ".join(f"{type(error).__name__}: {error}".split())[:_REASON])

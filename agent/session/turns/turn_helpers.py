"""Helpers of a turn, which may fail: the user gets a notice, the log has the cause, the turn continues.

Helpers are all services around calls and turns that decide nothing: learnings, context files of folders,
watching, diagnostics, figures, displays, records next to the conversation. Guards of effects (the gate, the
boundary, a required hook, the record for undo, the budget) are not among them: if a guard fails, the effect
does not happen.
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
"""The maximum number of characters of an error that a notice quotes."""


@dataclass(slots=True)
class TurnHelpers:
    """Runs the helpers of one agent. `emit` receives notices; a failed helper is reported once per turn."""

    emit: Callable[[Event], None]
    _told: set[str] = field(default_factory=set)

    def turn_began(self) -> None:
        """Start a new turn: helpers that fail in it are reported again."""
        self._told.clear()

    async def ask(
        self,
        name: str,
        work: Callable[[], Awaitable[T]],
        instead: T,
        *,
        through: type[Exception] | None = None,
    ) -> T:
        """Return the result of a helper, or `instead` if it fails. `name` begins the notice about that.

        Errors of the type `through`, and reached ceilings, are not failures and are raised.
        """
        try:
            return await work()
        except Exception as error:
            self._tell_failure(name, error, through)
            return instead

    def hear(self, name: str, work: Callable[[], T], instead: T) -> T:
        """Return the result of a synchronous helper, or `instead` if it fails, as `ask` does."""
        try:
            return work()
        except Exception as error:
            self._tell_failure(name, error, None)
            return instead

    @asynccontextmanager
    async def around(
        self, name: str, opened: Callable[[], AbstractAsyncContextManager[T]], instead: T
    ) -> AsyncIterator[T]:
        """Keep the context of a helper open while other code runs. Its failures do not affect that code."""
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
            text = f"{name} failed ({cause(error)}). The work continues without it; the log has the details."
            self.emit(Noticed(kind="warning", text=text))


@dataclass(frozen=True, slots=True)
class HelpedDiagnostics(Diagnostics):
    """Diagnostics whose failure does not affect an edit."""

    servers: Diagnostics
    helpers: TurnHelpers

    async def after(self, edits: Sequence[FileEdit]) -> dict[str, Any] | None:
        return await self.helpers.ask(
            "Looking for errors after an edit", lambda: self.servers.after(edits), None
        )


def helping(
    helpers: TurnHelpers, hears: Callable[[str, Action], Awaitable[None]]
) -> Callable[[str, Action], Awaitable[None]]:
    """Return a function that passes actions on to `hears`.

    A failure of `hears` does not prevent the action.
    """

    async def acting(call: str, action: Action) -> None:
        await helpers.ask("Noting what a call reaches", lambda: hears(call, action), None)

    return acting


def cause(error: Exception) -> str:
    """Return the type and message of an unexpected error, shortened."""
    return clean(" ".join(f"{type(error).__name__}: {error}".split())[:_REASON])

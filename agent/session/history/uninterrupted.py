"""Work that is carried to its end once it was asked for, even when whoever asked goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

Asked = ParamSpec("Asked")
Outcome = TypeVar("Outcome")


class RunningOperations:
    """All of it that has not ended yet."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def carry(self, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Do it and wait for it; a caller who is cancelled leaves it to its end. Raises what it raises."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def settled(self) -> None:
        """Wait until nothing is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)


class Uninterruptible(Protocol):
    """Whose work may not stop half-way."""

    under_way: RunningOperations


Owner = TypeVar("Owner", bound=Uninterruptible)


def uninterrupted(
    work: Callable[Concatenate[Owner, Asked], Coroutine[Any, Any, Outcome]],
) -> Callable[Concatenate[Owner, Asked], Coroutine[Any, Any, Outcome]]:
    """Let a method go on to its end whatever becomes of its caller."""

    @wraps(work)
    async def carried(self: Owner, *args: Asked.args, **options: Asked.kwargs) -> Outcome:
        return await self.under_way.carry(work(self, *args, **options))

    return carried

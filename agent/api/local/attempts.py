"""Parallel attempts of an engine in this process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.api.session import Attempt
from agent.session.attempts.parallel_attempts import LiveAttempt
from agent.session.engine import Engine


class LocalAttempts:
    """What `Attempts` asks for. Each method raises `HermesError` where a session has none."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def listed(self) -> Sequence[Attempt]:
        return _told(self._engine.attempts.all)

    async def start(self, message: str, count: int, models: Sequence[str] | None = None) -> Sequence[Attempt]:
        return _told(await self._engine.attempts.start(message, count, models))

    async def stop(self, number: int | None = None) -> Sequence[Attempt]:
        return _told(self._engine.attempts.stop(number))

    async def ended(self, number: int) -> Attempt:
        return _told([self._engine.attempts.ended(number)])[0]


def _told(attempts: Iterable[LiveAttempt]) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(
            branch=each.head,
            model=each.model,
            outcome=each.outcome,
            text=each.text,
            calls=each.calls,
            changed=each.changed,
            left_out=each.left_out,
        )
        for each in attempts
    )

"""Requests that wait for a person: questions, approvals, forecasts, ceilings that were reached.

Each is an event with a future. A surface resolves it; an interrupt resolves
every pending one first, as cancelled; with nobody there it ends at once.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from agent.events import (
    ApprovalAsked,
    Asked,
    CeilingAsked,
    CeilingReply,
    Decision,
    Event,
    ForecastAsked,
    QuestionAsked,
    RequestResolved,
    Room,
)
from agent.safety.grants import spelled
from agent.safety.outlook import Outlook
from agent.safety.verdict import Verdict
from tools.actions import Action
from tools.context import Answer
from tools.redact import mask_known

if TYPE_CHECKING:
    from agent.subagents.budget import BudgetReachedError
    from agent.subagents.forecast import Forecast

NOT_TOLD = Outlook()

Reply = TypeVar("Reply", Answer, Decision, CeilingReply)


class Inbox:
    """All pending requests of one engine, oldest first."""

    def __init__(
        self,
        emit: Callable[[Event], None],
        *,
        attended: bool,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        """`secrets` are values, by name, that approvals show as their names.

        Nothing else is masked there: what only looks like a token may be what runs.
        """
        self._emit = emit
        self._secrets = secrets or {}
        self._attended = attended
        self._numbers = itertools.count(1)
        self._pending: dict[str, Asked] = {}

    @property
    def attended(self) -> bool:
        """Whether a person can answer."""
        return self._attended

    def pending(self) -> tuple[Asked, ...]:
        return tuple(self._pending.values())

    async def ask(
        self, question: str, choices: Sequence[str], allow_freetext: bool, agent: str = "main"
    ) -> Answer:
        """Put a question to the person. Declined at once when nobody is there."""
        if not self._attended:
            return Answer("declined")
        request = QuestionAsked(
            agent=agent,
            id=f"question-{next(self._numbers)}",
            question=question,
            choices=tuple(choices),
            allow_freetext=allow_freetext,
            reply=asyncio.get_running_loop().create_future(),
        )
        return await self._wait(request, request.reply, request.cancelled, lambda answer: answer.outcome)

    async def approve(
        self, action: Action, verdict: Verdict, agent: str = "main", outlook: Outlook = NOT_TOLD
    ) -> Decision:
        """Ask the person to allow an action, with what the rules say of it and what it would reach.

        Denied at once when nobody is there.
        """
        if not self._attended:
            return Decision("expired")
        request = ApprovalAsked(
            agent=agent,
            id=f"approval-{next(self._numbers)}",
            tool=action.tool,
            headline=self._known(action.headline()),
            reasons=tuple(self._known(reason) for reason in verdict.reasons),
            parts=tuple(replace(part, text=self._known(part.text)) for part in verdict.parts),
            touches=tuple(self._known(path) for path in outlook.touches),
            network=outlook.network,
            sandbox=outlook.sandbox,
            rule="" if verdict.once else self._known(spelled(action)),
            reply=asyncio.get_running_loop().create_future(),
        )
        return await self._wait(request, request.reply, request.cancelled, lambda decision: decision.choice)

    async def foresee(self, forecast: Forecast, rooms: Sequence[Room], agent: str = "main") -> Decision:
        """Ask the person whether agents that may take so much are sent.

        Expired at once when nobody is there.
        """
        if not self._attended:
            return Decision("expired")
        goals = tuple(self._known(goal) for goal in forecast.goals)
        request = ForecastAsked(
            agent=agent,
            id=f"forecast-{next(self._numbers)}",
            forecast=replace(forecast, goals=goals),
            rooms=tuple(rooms),
            reply=asyncio.get_running_loop().create_future(),
        )
        return await self._wait(request, request.reply, request.cancelled, lambda decision: decision.choice)

    async def raise_ceiling(self, reached: BudgetReachedError, again: float, agent: str) -> CeilingReply:
        """Ask the person what becomes of a ceiling; `again` is the new one that is offered.

        Expired at once when nobody is there.
        """
        if not self._attended:
            return CeilingReply("expired")
        request = CeilingAsked(
            agent=agent,
            id=f"ceiling-{next(self._numbers)}",
            owner=reached.owner,
            measure=reached.measure,
            ceiling=reached.ceiling,
            used=reached.used,
            needed=reached.wanted,
            again=again,
            setting=reached.setting,
            reply=asyncio.get_running_loop().create_future(),
        )
        return await self._wait(request, request.reply, request.cancelled, lambda answer: answer.outcome)

    def _known(self, text: str) -> str:
        return mask_known(text, self._secrets)

    def cancel_all(self, agent: str = "") -> None:
        """Resolve everything that is pending as cancelled; of one agent only, if given."""
        for request in tuple(self._pending.values()):
            if request.reply.done() or agent not in ("", request.agent):
                continue
            reply: asyncio.Future[Any] = request.reply
            reply.set_result(request.cancelled)

    async def _wait(
        self,
        request: Asked,
        reply: asyncio.Future[Reply],
        cancelled: Reply,
        outcome: Callable[[Reply], str],
    ) -> Reply:
        self._pending[request.id] = request
        result = cancelled
        try:
            self._emit(request)
            result = await reply
        finally:
            del self._pending[request.id]
            self._emit(RequestResolved(agent=request.agent, id=request.id, outcome=outcome(result)))
        return result

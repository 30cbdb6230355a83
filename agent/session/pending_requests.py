"""Requests that wait for the user: questions, approvals, forecasts, ceilings that were reached.

Each is an event with a future, which a surface resolves. An interrupt first resolves every pending request as
cancelled. In an unattended session a request is resolved at once.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any

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
from agent.safety.grants import Grant, Grants, rule_words
from agent.safety.impact import Account, Impact
from agent.safety.rules import Verdict
from tools.context import PersonAnswer
from tools.services.actions import Action
from tools.text.redact import mask_known

if TYPE_CHECKING:
    from agent.core.event_data import Forecast
    from agent.session.spending.budget import BudgetReachedError

NOT_TOLD = Impact()


class PendingRequests:
    """All pending requests of one engine, oldest first."""

    def __init__(
        self,
        emit: Callable[[Event], None],
        *,
        attended: bool,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        """Create the requests of an engine. `secrets` maps names to values; approvals show the name instead
        of the value.

        Nothing else is masked in approvals: text that only looks like a token may be part of the command.
        """
        self._emit = emit
        self._secrets = secrets or {}
        self._attended = attended
        self._numbers = itertools.count(1)
        self._process = token_hex(3)
        self._pending: dict[str, Asked] = {}

    @property
    def attended(self) -> bool:
        """True if a user can answer."""
        return self._attended

    def pending(self) -> tuple[Asked, ...]:
        return tuple(self._pending.values())

    async def ask(
        self, question: str, choices: Sequence[str], allow_freetext: bool, agent: str = "main"
    ) -> PersonAnswer:
        """Ask the user a question; return the answer. In an unattended session it is declined at once."""
        return await self.ask_person(
            QuestionAsked, agent, question=question, choices=tuple(choices), allow_freetext=allow_freetext
        )

    async def approve(
        self,
        action: Action,
        verdict: Verdict,
        agent: str = "main",
        impact: Impact = NOT_TOLD,
        account: Account | None = None,
    ) -> Decision:
        """Ask the user to allow an action; return the decision. The user sees the verdict of the rules, the
        impact, and a sentence about the action.

        In an unattended session the request expires at once.
        """
        return await self.ask_person(
            ApprovalAsked,
            agent,
            tool=action.tool,
            headline=self._mask(action.headline()),
            reasons=tuple(self._mask(reason) for reason in verdict.reasons),
            parts=tuple(replace(part, text=self._mask(part.text)) for part in verdict.parts),
            touches=tuple(self._mask(path) for path in impact.touches),
            network=impact.network,
            sandbox=impact.sandbox,
            rule="" if verdict.once else self._mask(rule_words(action)),
            sentence=self._mask(account.sentence) if account is not None else "",
            undo=account.undo if account is not None else "",
            folder=str(getattr(action, "cwd", "")),
        )

    async def foresee(self, forecast: Forecast, rooms: Sequence[Room], agent: str = "main") -> Decision:
        """Ask the user whether to start agents that may use as much as forecast; return the decision.

        In an unattended session the request expires at once.
        """
        goals = tuple(self._mask(goal) for goal in forecast.goals)
        told = replace(forecast, goals=goals)
        return await self.ask_person(ForecastAsked, agent, forecast=told, rooms=tuple(rooms))

    async def raise_ceiling(self, reached: BudgetReachedError, again: float, agent: str) -> CeilingReply:
        """Ask the user what to do about a ceiling; return the reply. `again` is the proposed new ceiling.

        In an unattended session the request expires at once.
        """
        return await self.ask_person(
            CeilingAsked,
            agent,
            owner=reached.owner,
            measure=reached.measure,
            ceiling=reached.ceiling,
            used=reached.used,
            needed=reached.wanted,
            again=again,
            setting=reached.setting,
        )

    async def ask_person(self, kind: type[Asked], agent: str = "main", **fields: Any) -> Any:
        """Send a request of any kind to the user and return the reply; `fields` are the fields of the kind.

        In an unattended session it is answered at once with the default of the kind.
        """
        if not self._attended:
            return kind.unattended
        request = kind(
            agent=agent,
            # Never the id of another process: a late answer must not reach another request.
            id=f"{kind.type}-{self._process}-{next(self._numbers)}",
            reply=asyncio.get_running_loop().create_future(),
            **fields,
        )
        self._pending[request.id] = request
        result = request.cancelled
        try:
            self._emit(request)
            result = await request.reply
        finally:
            del self._pending[request.id]
            by = str(getattr(result, "by", ""))
            self._emit(RequestResolved(agent=agent, id=request.id, outcome=request.outcome(result), by=by))
        return result

    def _mask(self, text: str) -> str:
        return mask_known(text, self._secrets)

    def cancel_all(self, agent: str = "") -> None:
        """Resolve all pending requests as cancelled, or only those of one agent."""
        for request in tuple(self._pending.values()):
            if request.reply.done() or agent not in ("", request.agent):
                continue
            request.reply.set_result(request.cancelled)


class Approvals:
    """Lists and revokes grants, and lists the requests that wait for approval."""

    def __init__(self, grants: Grants, asked: Callable[[], Sequence[Asked]]) -> None:
        self._grants = grants
        self._asked = asked

    async def grants(self) -> Sequence[Grant]:
        """Return the grants that allow more than one action and are still in force."""
        return self._grants.all()

    async def revoke(self, grant: Grant) -> bool:
        """Revoke a grant; return whether it was still in force."""
        return await self._grants.revoke(grant)

    async def give(self, grant: Grant) -> Grant:
        """Restore a grant that was revoked by mistake; return it."""
        return await self._grants.give(grant)

    async def pending(self) -> Sequence[Asked]:
        """Return every request that waits for the user, oldest first."""
        return self._asked()

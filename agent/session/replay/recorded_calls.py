"""Tool calls whose results are on record: nothing is run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent.core.messages import ToolCall
from agent.core.store.nodes import Node
from agent.session.conversation.live_session import LiveSession
from agent.session.replay.tape import Tape
from agent.session.turns.call_runner import FinishedCall


class RecordedCalls:
    """Gives each call the result it had, in the order in which results were written."""

    def __init__(self, session: LiveSession, tape: Tape) -> None:
        self._session = session
        self._tape = tape

    def turn_began(self) -> None:
        pass

    async def run(
        self, node: Node, calls: Sequence[ToolCall], broken: Mapping[str, str] | None = None
    ) -> list[FinishedCall]:
        """Raises `ReplayDifference` where a call that must not run was run, or has no result."""
        open_calls = {call.id: call for call in calls}
        finished: dict[str, FinishedCall] = {}
        while open_calls:
            result = self._tape.take_result(set(open_calls))
            if result is None:
                break
            call = open_calls.pop(str(result.data["call"]))
            outcome = result.data.get("outcome", "done")
            if reason := (broken or {}).get(call.id):
                self._check_refusal(result, reason)
            await self._session.finish_call(call, result.content, result.data)
            finished[call.id] = FinishedCall(call, outcome, result.content)
        return [finished[call.id] for call in calls if call.id in finished]

    def _check_refusal(self, result: Node, reason: str) -> None:
        try:
            said: Any = json.loads(result.content).get("error")
        except (ValueError, AttributeError):
            said = result.content
        if said != reason:
            self._tape.differ(f"the result of {result.data.get('tool')}", said, reason, result)

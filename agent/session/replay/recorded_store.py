"""A store that gives out a recorded branch: what the engine writes has to be what is on the tape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.core.store.nodes import MAIN, BranchHead, Node
from agent.session.conversation.live_session import LiveSession
from agent.session.replay.tape import Tape


class RecordedStore:
    """The part of `agent.core.store.store.Store` that an open session uses."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self.session: LiveSession | None = None
        """The session that reads from here; what is fed reaches it before what it writes."""

    async def append(
        self,
        session: str,
        kind: str,
        content: str,
        data: Mapping[str, Any] | None = None,
        *,
        head: str = MAIN,
        expected: object = None,
    ) -> Node:
        tape = self._tape
        if tape.difference is None and (kind != "user" or (data or {}).get("origin") == "engine"):
            tape.feed()
            await self.caught_up()
        return tape.append(kind, content, data or {})

    async def finish_call(
        self,
        session: str,
        call: str,
        result: str,
        data: Mapping[str, Any],
        *,
        head: str = MAIN,
        expected: object = None,
    ) -> Node:
        node = self._tape.take_result({call})
        assert node is not None
        await self.caught_up()
        self._tape.pass_result(node)
        return node

    async def start_call(self, session: str, node: int, call: str, name: str) -> None:
        pass

    async def save_draft(self, session: str, head: str, content: str, reasoning: str) -> None:
        pass

    async def path(self, session: str, head: str = MAIN) -> list[Node]:
        return list(self._tape.read())

    async def heads(self, session: str) -> list[BranchHead]:
        return [BranchHead(session, MAIN, None, 0.0)]

    async def caught_up(self) -> None:
        """Let the session take in what was fed."""
        if self.session is not None:
            await self.session.catch_up()

"""News of model servers during a session: what they say after a restart, and tools that they dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agent.events import Event, Noticed
from agent.model.transport.reply import ModelReply, ModelRoute
from agent.model.usage import Meter, request_cost

BLIND = 12
"""Characters for each token that was counted from which on not everything can have been read."""


class ServerNews:
    """Hears of the servers that the routes of one session lead to; the first route has the meter's window."""

    def __init__(self, meter: Meter, emit: Callable[[Event], None]) -> None:
        self._meter = meter
        self._emit = emit
        self._answered: set[str] = set()

    async def renew(self, routes: Sequence[ModelRoute]) -> list[tuple[ModelRoute, str]]:
        """Take in what servers say that were started again. The routes whose model is not shown tools
        any more, each with a reason."""
        untooled: list[tuple[ModelRoute, str]] = []
        for at, route in enumerate(routes):
            now = await route.watched.news() if route.watched is not None else None
            if now is None:
                continue
            if at == 0:
                self._meter.renew(now.info)
                if window := now.info.context_window:
                    route.spoken.forget_window()
                    words = f"The window of {route.name} has {window:,} tokens, told by the server."
                    self._emit(Noticed(kind="info", text=words))
            if now.untooled:
                untooled.append((route, f"the server of {route.name} says that its template knows no tools"))
        return untooled

    async def named(self, route: ModelRoute, reply: ModelReply) -> ModelReply:
        """A reply under the name of the model that gave it, where a gateway let another one answer."""
        if not reply.answered:
            return reply
        other = await route.watched.other(reply.answered) if route.watched is not None else None
        if other is None:
            return replace(reply, answered="")
        self._meter.learn_model(other.label, other.info)
        if other.label not in self._answered:
            self._answered.add(other.label)
            self._emit(Noticed(kind="info", text=f"{other.label} answered in place of {route.name}."))
        # The price is kept with the message: a later session does not know this model.
        usage = replace(reply.usage, cost=request_cost(reply.usage, other.info))
        return replace(reply, answered=other.label, usage=usage)

    def unseen(self, route: ModelRoute, reply: ModelReply, size: int) -> str:
        """Why the model cannot have seen the tools of its first request; empty where nothing says so.

        Some servers take tools that their template has no place for, and drop them. `size` is that of
        the request, in bytes.
        """
        first = route.name not in self._answered
        self._answered.add(route.name)
        if not first or reply.calls or route.watched is None or not route.watched.may_drop_tools:
            return ""
        read = reply.usage.input
        if not read or reply.usage.cached or size < BLIND * read:
            return ""
        return f"{route.name} read {read:,} tokens of {size:,} characters, so it was not shown its tools"

"""Questions of a session at a place: put there, answered from there, and said to be over there."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from agent.events import Asked, RequestResolved
from agent.integrations.gateways import message_rows
from agent.integrations.gateways.adapter import GatewayError, Incoming
from agent.integrations.gateways.asking import ask_body, choice_of, meant, needed, over
from agent.integrations.gateways.message_rows import BoundPlace, Delivery, ReceivedMessage
from agent.integrations.gateways.people import may

if TYPE_CHECKING:
    from agent.integrations.gateways.head_ports import Head
    from agent.integrations.gateways.ports import ChatSession

log = logging.getLogger(__name__)


class ChatQuestions:
    """The open questions of one place, as rows of the store; an earlier process may have put them."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def stop(self) -> None:
        """Let no question expire any more."""
        for timer in self._timers.values():
            timer.cancel()

    async def answered(self, row: ReceivedMessage) -> bool:
        """Whether a text was the answer to a question that is open here."""
        if self._head.session is None:
            return False
        asks = await self._asks()
        if not asks:
            return False
        replied = [each for each in asks if each.message and each.message == row.incoming.message]
        ask = (replied or asks)[-1 if replied else 0]
        answer = meant(ask.body, row.incoming.text)
        if answer is None:
            return False
        await self._head.done(row)
        if said := await self._decide(ask, answer, row.incoming):
            await self._head.say(said)
        return True

    async def pressed(self, incoming: Incoming) -> None:
        """Take the press of a button, of this place or of none."""
        found = choice_of(incoming.button)
        told = "This is over."
        if found is not None:
            ask: Delivery | None = await self._head.read(lambda c: message_rows.delivery(c, found[0]))
            # A button of another chat, or of another gateway, decides nothing here.
            if ask is not None and ask.place == self._head.place and ask.kind == "ask" and ask.body["open"]:
                options = ask.body["options"]
                if found[1] < len(options):
                    label, answer = options[found[1]]
                    told = await self._decide(ask, answer, incoming) or label
        try:
            await self._head.gateway.adapter.acknowledge(incoming, told)
        except GatewayError as error:
            log.info("%s: a press could not be acknowledged: %s", self._head.gateway.name, error)

    async def _decide(self, ask: Delivery, answer: str, incoming: Incoming) -> str:
        """Answer a question of the session; a sentence if that did not count."""
        scope = await self._head.scope_of(incoming)
        if not may(scope, needed(ask.body)):
            return "You may not answer this." if scope else ""
        session = self._head.session
        if session is None or session.id != ask.session:
            return "This is over."
        who = incoming.sender.name or incoming.sender.id
        address = f"{self._head.place} ({incoming.sender.id})"
        return session.answer(
            ask.body["request"], answer, f"{who} at {address}", scope, self._head.gateway.name
        )

    async def _asks(self) -> list[Delivery]:
        session, name = self._head.session, self._head.gateway.name
        if session is None:
            return []
        found: list[Delivery] = await self._head.read(lambda c: message_rows.open_asks(c, name, session.id))
        return [each for each in found if each.place == self._head.place]

    async def ask(self, asked: Asked) -> None:
        """Put a question of the session, and let it expire."""
        session, name, place, now = self._head.session, self._head.gateway.name, self._head.place, time.time()
        if session is None or asked.reply.done():
            return
        bound: BoundPlace | None = await self._head.read(lambda c: message_rows.bound(c, name, place))
        body = ask_body(asked, group=bound is None or bound.is_group)
        if body is None:
            await self._head.say("A question waits that only the terminal or the page can show.")
        else:
            await self._head.write(
                lambda c: message_rows.deliver(c, name, place, "ask", body, now, session=session.id)
            )
            self._head.gateway.owe()
        loop = asyncio.get_running_loop()
        self._timers[asked.id] = loop.call_later(
            self._head.gateway.approval_timeout, session.expire, asked.id
        )

    async def resolved(self, event: RequestResolved) -> None:
        """Say of a question that it is over, and who decided."""
        if (timer := self._timers.pop(event.id, None)) is not None:
            timer.cancel()
        for ask in await self._asks():
            if ask.body["request"] == event.id:
                await self._close(ask, event.outcome, event.by)

    async def settle(self, session: ChatSession) -> None:
        """Questions as they stand: those of an earlier process are over, new ones are put."""
        pending = {each.id: each for each in session.pending}
        for ask in await self._asks():
            if pending.pop(ask.body["request"], None) is None:
                await self._close(ask, "cancelled", "")
        for each in pending.values():
            await self.ask(each)

    async def _close(self, ask: Delivery, outcome: str, by: str) -> None:
        body = over(ask.body, outcome, by)
        await self._head.write(lambda c: message_rows.change(c, ask.id, body))
        self._head.gateway.owe()

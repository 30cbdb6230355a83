"""Questions that a session asks in a chat: sent, answered by button or text, and marked when closed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.events import ApprovalAsked, Asked, CeilingAsked, ForecastAsked, QuestionAsked, RequestResolved
from agent.integrations.gateways import book
from agent.integrations.gateways.adapter import Button, GatewayError, Incoming, Outgoing, PlatformLimits
from agent.integrations.gateways.book import BoundPlace, Delivery, ReceivedMessage
from agent.integrations.gateways.people import may
from themes.states import STATES

if TYPE_CHECKING:
    from agent.integrations.gateways.ports import ChatPlace, ChatSession


MOST = 1_500
"""The maximum length in characters of an action that is shown; page and terminal show it whole."""
WORDS = {"once": "Yes, once", "session": "Yes, in this session", "always": "Yes, always", "deny": "No"}


def ask_body(asked: Asked, *, group: bool) -> dict[str, Any] | None:
    """Return the text and choices of a request as they are stored; None if only a full screen can show it.

    In groups, an approval applies once only.
    """
    lasting = () if group else ("session", "always")
    match asked:
        case QuestionAsked():
            options = [[choice[:60], choice] for choice in asked.choices]
            text, scope = asked.question, "talk"
            free = asked.allow_freetext or not asked.choices
        case ApprovalAsked():
            allowed = ("once", *(lasting if asked.rule else ()), "deny")
            reasons = "".join(f"\n• {each}" for each in asked.reasons[:5])
            said = f"\n\n{asked.sentence}" if asked.sentence else ""
            undo = f"\n{asked.undo}" if asked.undo else ""
            text = f"**May I?** {asked.tool}{said}\n\n{_code(asked.headline)}{reasons}{undo}"
            options, scope, free = [[WORDS[each], each] for each in allowed], "approve", False
        case ForecastAsked():
            text = "**May I?** Send agents that may take much."
            options = [[WORDS[each], each] for each in ("once", *(lasting[:1]), "deny")]
            scope, free = "approve", False
        case CeilingAsked():
            text = (
                f"**A ceiling is reached**: {asked.owner}, {asked.used:,.2f} of {asked.ceiling:,.2f} "
                f"{asked.measure}. Raise it to {asked.again:,.2f}?"
            )
            options, scope, free = [["Raise it", "once"], ["No", "deny"]], "approve", False
        case _:
            return None
    return {
        "open": True,
        "request": asked.id,
        "text": text,
        "options": options,
        "scope": scope,
        "free": free,
    }


def shown_ask(body: Mapping[str, Any], row: int, limits: PlatformLimits) -> Outgoing:
    """Return the message for a question: with buttons, or with numbers on platforms without buttons."""
    options = body["options"]
    if not body["open"]:
        return Outgoing(text=f"{body['text']}\n\n{body['over']}")
    if options and len(options) <= limits.buttons:
        buttons = tuple(Button(label, f"ask:{row}:{at}") for at, (label, _) in enumerate(options))
        return Outgoing(text=body["text"], buttons=buttons)
    lines = [f"{at}. {label}" for at, (label, _) in enumerate(options, 1)]
    how = "Reply with the number" + (", or with your own words." if body["free"] else ".")
    tail = "\n".join([*lines, "", how]) if lines else "Reply with your answer."
    return Outgoing(text=f"{body['text']}\n\n{tail}")


def over(body: Mapping[str, Any], outcome: str, by: str) -> dict[str, Any]:
    """Return the stored form of a question that is closed, with its outcome and who decided."""
    yes, no = STATES["done"].glyph, STATES["denied"].glyph
    words = {"once": f"{yes} yes, once", "session": f"{yes} yes, in this session",
             "always": f"{yes} yes, always", "deny": f"{no} no", "answered": f"{yes} answered",
             "raised": f"{yes} raised", "stopped": f"{no} no", "expired": f"{no} nobody answered: no",
             "cancelled": "— over"}  # fmt: skip
    said = words.get(outcome, outcome)
    return {**body, "open": False, "over": f"**{said}**" + (f" ({by})" if by else "")}


def choice_of(value: str) -> tuple[int, int] | None:
    """Return the question's row and the choice number from a button's value; None if it is from elsewhere."""
    mark, _, rest = value.partition(":")
    row, _, at = rest.partition(":")
    if mark != "ask" or not (row.isascii() and row.isdigit() and at.isascii() and at.isdigit()):
        return None
    return int(row), int(at)


def match_answer(body: Mapping[str, Any], text: str) -> str | None:
    """Return the answer to a question that a text gives, by number, label or free text; None if none."""
    said = text.strip()
    if body["scope"] == "approve" and said.casefold() == "yes":
        said = "once"  # which allows the least
    options = body["options"]
    number = said.rstrip(".)")
    if number.isascii() and number.isdigit() and 1 <= int(number) <= len(options):
        return str(options[int(number) - 1][1])
    for label, answer in options:
        if said.casefold() in (str(label).casefold(), str(answer).casefold()):
            return str(answer)
    return said if body["free"] and said else None


def _code(text: str) -> str:
    """Return untrusted text in a code fence that it cannot close itself."""
    shown = text if len(text) <= MOST else text[:MOST] + " …"
    fence = "```"
    while fence in shown:
        fence += "`"
    return f"{fence}\n{shown}\n{fence}"


def quote_text(text: str) -> str:
    """Format a text that was written elsewhere as a quotation."""
    return "\n".join(f"> {line}" for line in text[:2_000].split("\n"))


log = logging.getLogger(__name__)


class ChatQuestions:
    """The open questions of one place, kept in the store. An earlier process may have asked them."""

    def __init__(self, head: ChatPlace) -> None:
        self._head = head
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def stop(self) -> None:
        """Cancel the timers that let questions expire."""
        for timer in self._timers.values():
            timer.cancel()

    async def take_answer(self, row: ReceivedMessage) -> bool:
        """Use a text as the answer to an open question; return whether it answered one."""
        if self._head.session is None:
            return False
        asks = await self._asks()
        if not asks:
            return False
        replied = [each for each in asks if each.message and each.message == row.incoming.message]
        ask = (replied or asks)[-1 if replied else 0]
        answer = match_answer(ask.body, row.incoming.text)
        if answer is None:
            return False
        await self._head.mark_done(row)
        if said := await self._decide(ask, answer, row.incoming):
            await self._head.say(said)
        return True

    async def take_press(self, incoming: Incoming) -> None:
        """Handle a button press; one of another chat or a closed question has no effect."""
        found = choice_of(incoming.button)
        told = "This is over."
        if found is not None:
            ask: Delivery | None = await self._head.read(lambda c: book.delivery(c, found[0]))
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
        """Answer a question from the session.

        Returns a sentence if the answer was not accepted, otherwise an empty text.
        """
        scope = await self._head.scope_of(incoming)
        if not may(scope, "approve" if ask.body["scope"] == "approve" else "talk"):
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
        found: list[Delivery] = await self._head.read(lambda c: book.open_asks(c, name, session.id))
        return [each for each in found if each.place == self._head.place]

    async def ask(self, asked: Asked) -> None:
        """Send a question from the session to the chat, and start its timer."""
        session, name, place, now = self._head.session, self._head.gateway.name, self._head.place, time.time()
        if session is None or asked.reply.done():
            return
        bound: BoundPlace | None = await self._head.read(lambda c: book.find_bound_place(c, name, place))
        body = ask_body(asked, group=bound is None or bound.is_group)
        if body is None:
            await self._head.say("A question waits that only the terminal or the page can show.")
        else:
            await self._head.write(
                lambda c: book.queue_delivery(c, name, place, "ask", body, now, session=session.id)
            )
            self._head.gateway.wake_sender()
        loop = asyncio.get_running_loop()
        self._timers[asked.id] = loop.call_later(
            self._head.gateway.approval_timeout, session.expire, asked.id
        )

    async def show_resolution(self, event: RequestResolved) -> None:
        """Edit the message of a question to say that it is closed, and who decided."""
        if (timer := self._timers.pop(event.id, None)) is not None:
            timer.cancel()
        for ask in await self._asks():
            if ask.body["request"] == event.id:
                await self._close(ask, event.outcome, event.by)

    async def settle(self, session: ChatSession) -> None:
        """Close the questions of an earlier process, and send those that are open now."""
        pending = {each.id: each for each in session.pending}
        for ask in await self._asks():
            if pending.pop(ask.body["request"], None) is None:
                await self._close(ask, "cancelled", "")
        for each in pending.values():
            await self.ask(each)

    async def _close(self, ask: Delivery, outcome: str, by: str) -> None:
        body = over(ask.body, outcome, by)
        await self._head.write(lambda c: book.edit_delivery(c, ask.id, body))
        self._head.gateway.wake_sender()

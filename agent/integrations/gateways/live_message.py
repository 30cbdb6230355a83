"""An answer while it is written: a sign of typing, and one message that is changed now and then, no flood."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from agent.events import Event, ReplyCut, TextAdded, ToolStarted
from agent.integrations.gateways import message_rows
from agent.integrations.gateways.adapter import GatewayError, Outgoing, RateLimitedError
from agent.integrations.gateways.chunks import chunks

if TYPE_CHECKING:
    from agent.integrations.gateways.head_ports import Head

log = logging.getLogger(__name__)

FIRST = 1.0
"""Seconds of writing before there is anything to see."""
LEAST = 40
"""Characters of an answer before it is shown while it is written."""


class LiveMessage:
    """What a place sees of the turn that runs. It is lost with the process; answers are not."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._task: asyncio.Task[None] | None = None
        self._text = ""
        self._tool = ""
        self._shown = ""
        self._row = 0
        self._message = ""

    def begin(self) -> None:
        """A turn begins."""
        self.stop()
        self._task = asyncio.create_task(self._run(), name="live message")

    def stop(self) -> None:
        """The turn is over, or nobody looks on."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.taken()

    def hear(self, event: Event) -> None:
        """Something that changes what is seen."""
        match event:
            case TextAdded():
                self._text += event.text
            case ReplyCut():
                self._text = ""
            case ToolStarted():
                self._tool = f"⚙ {event.display.verb} {event.display.subject}"[:200]
            case _:
                pass

    def taken(self) -> None:
        """The message is complete and is delivered in place of what was shown."""
        self._text = self._tool = self._shown = self._message = ""
        self._row = 0

    async def _run(self) -> None:
        limits = self._head.gateway.adapter.limits
        typed = 0.0
        while True:
            if limits.typing and time.monotonic() - typed > limits.typing * 0.8:
                typed = time.monotonic()
                await self._safely(self._head.gateway.adapter.typing(self._head.place))
            await asyncio.sleep(max(limits.edit_pause, FIRST) if limits.edits else max(limits.typing / 2, 1))
            if limits.edits and time.monotonic() >= self._head.gateway.paused_until:
                async with self._head.gateway.lock(self._head.place):
                    await self._safely(self._show())

    async def _safely(self, work: Any) -> None:
        try:
            await work
        except RateLimitedError as error:
            self._head.gateway.pause(error.wait)
        except GatewayError as error:
            log.info("%s: %s", self._head.gateway.name, error)
        except Exception:
            log.exception("the answer could not be shown while it is written")

    async def _show(self) -> None:
        head, limits = self._head, self._head.gateway.adapter.limits
        text = self._text if len(self._text.strip()) >= LEAST else self._tool
        session = head.session
        if not text.strip() or session is None:
            return
        pieces = chunks(text, limits.text * 8 // 10, limits.unit)
        # Only as much as one message holds: the rest comes when all of it is there.
        shown = f"{pieces[0]} …"
        if shown == self._shown:
            return
        message = Outgoing(text=shown, quiet=True)
        name, place, id = head.gateway.name, head.place, session.id
        if self._message:
            await head.gateway.adapter.edit(place, self._message, message)
        else:
            self._row = await head.write(
                lambda c: message_rows.deliver(
                    c, name, place, "text", {"text": shown}, time.time(), session=id, state="draft"
                )
            )
            row = self._row
            sent = await head.gateway.adapter.send(place, message, f"hermes-{row}-draft")
            self._message = sent
            await head.write(lambda c: message_rows.sent(c, row, sent))
        self._shown = shown

"""Sends the person's messages to the session: images are read first, order is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import HermesError

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.core.messages import Attachment
    from agent.session.turns.turn_queue import QueuedMessage
    from app.tui.conversation.session_host import SessionHost
    from widgets.prompt.dropped import MentionedFile


class MessageSender:
    """Messages between prompt and engine. Those sent before the session is open wait here."""

    def __init__(
        self,
        host: SessionHost,
        show: Callable[[tuple[str, ...]], None],
        complain: Callable[[str], None],
        give_back: Callable[[Sequence[str]], None],
    ) -> None:
        """`give_back` receives messages that cannot be delivered any more."""
        self._host = host
        self._give_back = give_back
        self._show = show
        self._complain = complain
        self._held: list[QueuedMessage] = []
        self._last: asyncio.Task[None] | None = None

    @property
    def workspace(self) -> Path:
        """Where relative paths begin."""
        client = self._host.client
        return client.workspace if client is not None else Path.cwd()

    def send(self, text: str, images: Sequence[MentionedFile] = (), *, steer: bool = False) -> None:
        """Send a message, at once when nothing must be read first; what comes later leaves later."""
        before = self._last if self._last is not None and not self._last.done() else None
        if not images and before is None:
            from agent.session.turns.turn_queue import QueuedMessage

            self._deliver(QueuedMessage(text), steer=steer)
        else:
            sending = self._read_and_deliver(text, images, steer, before)
            self._last = asyncio.create_task(sending, name="outbox")

    def release(self, client: SessionClient) -> None:
        """The session is open: what waited for it leaves."""
        held, self._held = self._held, []
        for item in held:
            client.submit(item.text, item.attachments)

    def waiting(self) -> list[str]:
        """The messages that wait for the engine or in its queue, in order."""
        client = self._host.client
        return list(client.queue) if client is not None else [item.text for item in self._held]

    def set_waiting(self, texts: Sequence[str]) -> None:
        """Replace the messages that wait; a text that stays keeps its images."""
        if self._host.client is not None:
            self._host.client.set_queue(texts)
        else:
            from agent.session.turns.turn_queue import readdressed

            self._held = readdressed(texts, self._held)
            self._show(tuple(texts))

    async def _read_and_deliver(
        self, text: str, images: Sequence[MentionedFile], steer: bool, before: asyncio.Task[None] | None
    ) -> None:
        attachments: tuple[Attachment, ...] = ()
        if images:
            attachments, problems = await asyncio.to_thread(self._take, images, self.workspace)
            for problem in problems:
                self._complain(problem)
        if before is not None:
            await asyncio.wait([before])
        from agent.session.turns.turn_queue import QueuedMessage

        self._deliver(QueuedMessage(text, attachments), steer=steer)

    def _take(
        self, images: Sequence[MentionedFile], workspace: Path
    ) -> tuple[tuple[Attachment, ...], list[str]]:
        from agent.core.attachments import AttachmentStore
        from agent.core.home import Home
        from app.tui.conversation.attachments import take

        return take(images, AttachmentStore(Home.locate().attachments), workspace)

    def _deliver(self, item: QueuedMessage, *, steer: bool) -> None:
        client = self._host.client
        if client is None:
            self._held.append(item)
            self._show(tuple(self.waiting()))
            return
        try:
            (client.steer if steer else client.submit)(item.text, item.attachments)
        except HermesError as error:
            self._complain(str(error))
            self._give_back([item.text])

"""The open session: opening, switching and closing it, and sending it messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agent.errors import HermesError
from app.tui.startup.preload import set_hurried

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.core.messages import Attachment
    from agent.events import Event
    from agent.session.turns.turn_queue import QueuedMessage
    from widgets.prompt.draft import MentionedFile


class SessionRequest(NamedTuple):
    """The session to open; its fields take precedence over the command line."""

    resume: str | None = None
    """The session to resume: its id, the start of its id, or its title."""
    model: str | None = None
    fresh: bool = False
    """True for a new session, even if the command line asks to resume one."""
    after: str = ""
    """The id of the previous session, set by `SessionHost`."""
    tour: bool = False
    """True for a session with the guided tour, in a folder of its own."""
    attach: bool = False
    """True if sessions are opened in the running service from now on."""


Listener = Callable[["Event"], None]
Opener = Callable[[SessionRequest, Listener], Awaitable["SessionClient"]]


def opened_first(listener: Listener) -> Listener:
    """Return a listener that passes `session_opened` on before the notices that came while the session
    opened.

    That event clears the previous session from the screen, and the notices belong to the new one.
    """
    early: list[Event] | None = []

    def handle(event: Event) -> None:
        nonlocal early
        if early is not None and event.type == "notice":
            early.append(event)
            return
        listener(event)
        if early is not None and event.type == "session_opened" and event.agent == "main":
            late, early = early, None
            for notice in late:
                listener(notice)

    return handle


class NotOpenYetError(HermesError):
    """Raised by actions that need an open session while there is none."""


class SessionHost:
    """Opens and closes sessions, at most one being open at a time.

    `unsent` receives the messages still queued in a session when another one was opened.
    """

    def __init__(
        self, opener: Opener, listener: Listener, unsent: Callable[[Sequence[str]], None] = lambda _: None
    ) -> None:
        self._opener = opener
        self._listener = listener
        self._unsent = unsent
        self._turn = asyncio.Lock()
        self._closed = False
        self.client: SessionClient | None = None
        self.opened = asyncio.Event()
        """Set while a session is open."""
        self.session = ""
        """The id of the session opened last; empty if there was none."""
        self.spoken = False
        """True if the session closed last had a message from the user."""
        self.is_served = False
        """True if the session belongs to the service and may be shared. Set when a session is opened."""

    @property
    def busy(self) -> bool:
        return self.client is not None and self.client.busy

    @property
    def is_lost(self) -> bool:
        """True if the process of the session has ended."""
        return self.client is not None and self.client.is_lost

    async def open(self, wish: SessionRequest) -> SessionClient:
        """Open a session. The previous one is closed first, because both may need the same lock.

        Raises `HermesError` after opening the previous session again.
        """
        async with self._turn:
            before = self.session if self.client is not None else ""
            left = await self._close()
            try:
                return await self._open(wish._replace(after=before))
            except HermesError:
                if before:
                    await self._open(SessionRequest(resume=before))
                raise
            finally:
                self._give_back(left)

    async def close(self) -> None:
        """Stop running work, close the session, and let no other be opened."""
        self._closed = True
        async with self._turn:
            await self._close()

    async def _open(self, wish: SessionRequest) -> SessionClient:
        client = await self._opener(wish, opened_first(self._listener))
        if self._closed:
            await client.aclose()
            raise HermesError("Hermes is about to end; no session was opened.")
        self.client = client
        self.opened.set()
        self.session = client.id
        return client

    async def _close(self) -> Sequence[str]:
        """Close the session; return its queued messages, unless the service keeps them."""
        client, self.client = self.client, None
        self.opened.clear()
        if client is None:
            return ()
        self.spoken = any(node.kind == "user" for node in client.path)
        try:
            await client.aclose()
        except BaseException:
            self._give_back(client.queue)
            raise
        # A session of the service keeps its queue in the service.
        return () if self.is_served and not client.is_lost else client.queue

    def _give_back(self, texts: Sequence[str]) -> None:
        """Pass the texts to `unsent`, except those that the new session has in its queue as well."""
        waiting = self.client.queue if self.client is not None else ()
        left = tuple(each for each in texts if each not in waiting)
        if left and not self._closed:
            self._unsent(left)


class MessageSender:
    """Sends messages from the prompt to the session, and holds them until one is open."""

    def __init__(
        self,
        host: SessionHost,
        show: Callable[[tuple[str, ...]], None],
        show_warning: Callable[[str], None],
        give_back: Callable[[Sequence[str]], None],
    ) -> None:
        """`give_back` receives messages that can no longer be delivered."""
        self._host = host
        self._give_back = give_back
        self._show = show
        self._show_warning = show_warning
        self._held: list[QueuedMessage] = []
        self._last: asyncio.Task[None] | None = None

    @property
    def workspace(self) -> Path:
        """The workspace of the session, or the current folder without a session."""
        client = self._host.client
        return client.workspace if client is not None else Path.cwd()

    def send(self, text: str, images: Sequence[MentionedFile] = (), *, steer: bool = False) -> None:
        """Send a message, in a task if images must be stored first. Messages keep their order."""
        before = self._last if self._last is not None and not self._last.done() else None
        if not images and before is None:
            from agent.session.turns.turn_queue import QueuedMessage

            self._deliver(QueuedMessage(text), steer=steer)
        else:
            sending = self._read_and_deliver(text, images, steer, before)
            self._last = asyncio.create_task(sending, name="outbox")

    def release(self, client: SessionClient) -> None:
        """Send to `client` the messages that were held until a session was open."""
        held, self._held = self._held, []
        set_hurried(False)
        for item in held:
            client.submit(item.text, item.attachments)

    def waiting(self) -> list[str]:
        """Return the texts of the messages that are queued or held, in order."""
        client = self._host.client
        return list(client.queue) if client is not None else [item.text for item in self._held]

    def set_waiting(self, texts: Sequence[str]) -> None:
        """Replace the queued messages; a text that remains keeps its images."""
        if self._host.client is not None:
            self._host.client.set_queue(texts)
        else:
            from agent.session.turns.turn_queue import match_attachments

            self._held = match_attachments(texts, self._held)
            self._show(tuple(texts))

    async def _read_and_deliver(
        self, text: str, images: Sequence[MentionedFile], steer: bool, before: asyncio.Task[None] | None
    ) -> None:
        attachments: tuple[Attachment, ...] = ()
        if images:
            attachments, problems = await asyncio.to_thread(self._take, images, self.workspace)
            for problem in problems:
                self._show_warning(problem)
        if before is not None:
            await asyncio.wait([before])
        from agent.session.turns.turn_queue import QueuedMessage

        self._deliver(QueuedMessage(text, attachments), steer=steer)

    def _take(
        self, images: Sequence[MentionedFile], workspace: Path
    ) -> tuple[tuple[Attachment, ...], list[str]]:
        from agent.core.attachments import AttachmentStore
        from agent.core.home import Home
        from app.tui.conversation.attachments import store_mentioned

        return store_mentioned(images, AttachmentStore(Home.locate().attachments), workspace)

    def _deliver(self, item: QueuedMessage, *, steer: bool) -> None:
        client = self._host.client
        if client is None:
            self._held.append(item)
            set_hurried(True)
            self._show(tuple(self.waiting()))
            return
        try:
            (client.steer if steer else client.submit)(item.text, item.attachments)
        except HermesError as error:
            self._show_warning(str(error))
            self._give_back([item.text])

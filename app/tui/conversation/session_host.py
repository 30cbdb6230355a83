"""The one session the application works with, and changing it for another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from agent.errors import HermesError

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.events import Event


class SessionRequest(NamedTuple):
    """Which session to open, beyond what the command line says."""

    resume: str | None = None
    """Id, start of an id, or title."""
    model: str | None = None
    fresh: bool = False
    """A new session, whatever the command line says about resuming."""
    after: str = ""
    """The session that was open before; `SessionHost` fills it in."""
    attach: bool = False
    """From now on sessions are those of the service, which runs already."""


Listener = Callable[["Event"], None]
Opener = Callable[[SessionRequest, Listener], Awaitable["SessionClient"]]


def opened_first(listener: Listener) -> Listener:
    """A listener that hears `session_opened` before the notices that came while the session was opening.

    With that event the screen is cleared of the session before, and they are about the new one.
    """
    early: list[Event] | None = []

    def hear(event: Event) -> None:
        nonlocal early
        if early is not None and event.type == "notice":
            early.append(event)
            return
        listener(event)
        if early is not None and event.type == "session_opened" and event.agent == "main":
            late, early = early, None
            for notice in late:
                listener(notice)

    return hear


class SessionHost:
    """Opens and closes sessions one after the other.

    `unsent` receives the messages that still waited in a session when another one was opened.
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
        self.session = ""
        """Id of the session that was open last; empty if none ever was."""
        self.spoken = False
        """Whether anything was said in it."""
        self.is_served = False
        """Whether it is one of the service, which others may share; who opens sessions says so."""

    @property
    def busy(self) -> bool:
        return self.client is not None and self.client.busy

    @property
    def lost(self) -> bool:
        """Whether the process behind the session has ended."""
        return self.client is not None and self.client.lost

    async def open(self, wish: SessionRequest) -> SessionClient:
        """Open a session; the one before is closed first, because two may want the same lock.

        When that fails the session before is opened again, and the error raised.
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
        """Stop what runs and close the session, for good."""
        self._closed = True
        async with self._turn:
            await self._close()

    async def _open(self, wish: SessionRequest) -> SessionClient:
        client = await self._opener(wish, opened_first(self._listener))
        if self._closed:
            await client.aclose()
            raise HermesError("Hermes is about to end; no session was opened.")
        self.client = client
        self.session = client.id
        return client

    async def _close(self) -> Sequence[str]:
        """Close the session; the messages that waited in it and do so nowhere else."""
        client, self.client = self.client, None
        if client is None:
            return ()
        self.spoken = any(node.kind == "user" for node in client.path)
        try:
            await client.aclose()
        except BaseException:
            self._give_back(client.queue)
            raise
        # A session of the service keeps its queue there.
        return () if self.is_served and not client.lost else client.queue

    def _give_back(self, texts: Sequence[str]) -> None:
        """Hand out messages of the session before, but for those that wait in this one as well."""
        waiting = self.client.queue if self.client is not None else ()
        left = tuple(each for each in texts if each not in waiting)
        if left and not self._closed:
            self._unsent(left)

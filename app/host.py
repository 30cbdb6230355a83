"""The one engine the application works with, and changing it for another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from agent.errors import HermesError

if TYPE_CHECKING:
    from agent.engine import Engine
    from agent.events import Event


class Wish(NamedTuple):
    """Which session to open, beyond what the command line says."""

    resume: str | None = None
    """Id, start of an id, or title."""
    model: str | None = None
    fresh: bool = False
    """A new session, whatever the command line says about resuming."""


Listener = Callable[["Event"], None]
Opener = Callable[[Wish, Listener], Awaitable["Engine"]]


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


class EngineHost:
    """Opens and closes engines one after the other.

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
        self.engine: Engine | None = None
        self.session = ""
        """Id of the session that was open last; empty if none ever was."""
        self.spoken = False
        """Whether anything was said in it."""

    @property
    def busy(self) -> bool:
        return self.engine is not None and self.engine.busy

    async def open(self, wish: Wish) -> Engine:
        """Open a session; the one before is closed first, because two may want the same lock.

        When that fails the session before is opened again, and the error raised.
        """
        async with self._turn:
            before = self.session if self.engine is not None else ""
            await self._close()
            try:
                return await self._open(wish)
            except HermesError:
                if before:
                    await self._open(Wish(resume=before))
                raise

    async def close(self) -> None:
        """Stop what runs and close the engine, for good."""
        self._closed = True
        async with self._turn:
            await self._close()

    async def _open(self, wish: Wish) -> Engine:
        engine = await self._opener(wish, opened_first(self._listener))
        if self._closed:
            await engine.aclose()
            raise HermesError("Hermes is about to end; no session was opened.")
        self.engine = engine
        self.session = engine.session.id
        return engine

    async def _close(self) -> None:
        engine, self.engine = self.engine, None
        if engine is not None:
            self.spoken = any(node.kind == "user" for node in engine.session.path)
            try:
                await engine.aclose()
            finally:
                if engine.queue and not self._closed:
                    self._unsent(engine.queue)

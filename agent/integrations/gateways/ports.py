"""Ports of the service that hosts the sessions, and what the parts of a running gateway share."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agent.core.messages import Attachment
from agent.core.store.connection import Database
from agent.core.store.nodes import Node
from agent.events import Asked, Event, TurnEnded
from agent.integrations.gateways import book
from agent.integrations.gateways.adapter import Adapter, Incoming, Place
from agent.integrations.gateways.book import ReceivedMessage
from agent.integrations.gateways.markup import chunks
from agent.integrations.gateways.people import ChatScope, scope_of

if TYPE_CHECKING:
    from agent.core.config.sections import GatewaySettings


How = Literal["prompt", "steer"]
WordKind = Literal["plugin", "prompt", ""]
"""The command of a plugin, a skill or a prompt of a server, or nothing."""


class ChatClient(Protocol):
    """The engine of a session, as far as chats use it."""

    @property
    def model(self) -> str: ...
    @property
    def workspace(self) -> Path: ...
    @property
    def path(self) -> Sequence[Node]: ...
    @property
    def busy(self) -> bool: ...
    @property
    def queue(self) -> tuple[str, ...]: ...
    @property
    def history(self) -> Any: ...
    def interrupt(self) -> None: ...
    def set_queue(self, texts: Sequence[str]) -> None: ...
    async def idle(self) -> None: ...
    async def go_on(self) -> TurnEnded | None: ...
    async def compact(self, focus: str = "") -> str: ...
    async def whole_path(self) -> Sequence[Node]: ...


class ChatSession(Protocol):
    """One hosted session."""

    @property
    def id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def client(self) -> ChatClient: ...
    @property
    def pending(self) -> tuple[Asked, ...]: ...

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Hear every event from now on; the returned function ends that."""
        ...

    def message(self, text: str, how: How, attachments: Sequence[Attachment], received: int) -> None:
        """Hand a message over. Raises `HermesError`."""
        ...

    def answer(self, request: str, answer: str, who: str, scope: ChatScope, gateway: str) -> str:
        """Answer a request; a sentence if that did not count, else empty."""
        ...

    async def kind_of_word(self, name: str) -> WordKind:
        """What `/name` is here beside the commands of chats."""
        ...

    async def run_plugin(self, name: str, rest: str) -> str:
        """Run the command of a plugin, and what it says. Raises `HermesError`."""
        ...

    def expire(self, request: str) -> None:
        """Nobody answered in time: what an ask is where nobody is there."""
        ...


class ChatHost(Protocol):
    """The service."""

    @property
    def database(self) -> Database: ...

    async def create(self, workspace: str, surface: str, model: str | None = None) -> ChatSession:
        """A new session. Raises `HermesError`; `StoreError` where it may be made later."""
        ...

    async def session(self, id: str, surface: str, model: str | None = None) -> ChatSession:
        """A stored one, opened if it is not. Raises `HermesError`; `NoSession` where it is gone."""
        ...

    async def reopen(self, id: str, surface: str, model: str) -> ChatSession:
        """An open one with another model; with the one before where this raises `HermesError`."""
        ...

    async def list_sessions(self) -> Sequence[Mapping[str, Any]]:
        """Sessions that are stored, those used last first. Raises `HermesError`."""
        ...

    async def transcribe(self, data: bytes, name: str, session: ChatSession) -> str:
        """What a recording says. Raises `HermesError`."""
        ...

    def keep_image(self, data: bytes, name: str) -> Attachment:
        """An image for a message, kept in the home. Blocking. Raises `HermesError`."""
        ...


class Gateway(ABC):
    """One gateway, as its places see it."""

    def __init__(
        self,
        name: str,
        adapter: Adapter,
        settings: GatewaySettings,
        host: ChatHost,
        approval_timeout: float,
        workspace: str,
    ) -> None:
        """`workspace` is the folder of new sessions."""
        self.name = name
        self.adapter = adapter
        self.settings = settings
        self.host = host
        self.approval_timeout = approval_timeout
        self.workspace = workspace
        self.paused_until = 0.0
        """When the platform wants to hear of us again, by the monotonic clock."""
        self._locks: dict[Place, asyncio.Lock] = {}
        self._owed = asyncio.Event()
        self._known = asyncio.Event()

    def lock(self, place: Place) -> asyncio.Lock:
        """Held while something is sent to a place or changed there."""
        return self._locks.setdefault(place, asyncio.Lock())

    def owe(self) -> None:
        """There is something to send."""
        self._owed.set()

    async def wait_until_known(self) -> None:
        """Back once the platform has told the adapter who it is there, which all its requests may need.

        What an earlier process owes, or has not fetched, is there before the first connection.
        """
        await self._known.wait()

    def pause(self, seconds: float) -> None:
        """Send nothing for a while."""
        self.paused_until = max(self.paused_until, time.monotonic() + seconds)

    @abstractmethod
    def home_of(self, gateway: str) -> str:
        """The chat that the settings name for a gateway."""

    @abstractmethod
    def wake_place(self, gateway: str, place: Place) -> None:
        """A session goes on at a place of a gateway."""


class ChatPlace:
    """A place with its session, as its questions and its live message see it."""

    def __init__(self, gateway: Gateway, place: Place) -> None:
        self.gateway = gateway
        self.place = place
        self.session: ChatSession | None = None

    async def read(self, work: Callable[[Any], Any]) -> Any:
        """A look at the store."""
        return await self.gateway.host.database.read(work)

    async def write(self, work: Callable[[Any], Any]) -> Any:
        """A change of the store."""
        return await self.gateway.host.database.write(work)

    async def say(self, text: str) -> None:
        """Tell the place something that is not part of the conversation."""
        limits = self.gateway.adapter.limits
        name, place, now = self.gateway.name, self.place, time.time()

        def store(c: Any) -> None:
            for piece in chunks(text, limits.text, limits.unit):
                book.deliver(c, name, place, "text", {"text": piece}, now)

        await self.write(store)
        self.gateway.owe()

    async def mark_done(self, row: ReceivedMessage) -> None:
        """A message needs no more."""
        await self.write(lambda c: book.mark_done(c, row.id))

    async def scope_of(self, incoming: Incoming) -> ChatScope:
        """What the person may now."""
        settings, name = self.gateway.settings, self.gateway.name
        return await self.read(
            lambda c: scope_of(c, name, incoming.sender.id, settings.allow, settings.approve)
        )

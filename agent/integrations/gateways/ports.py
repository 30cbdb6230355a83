"""Interfaces of the service that hosts the sessions, and base classes for the parts of a running gateway."""

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
"""What `/name` means: the command of a plugin, a skill or a server's prompt (`prompt`), or nothing."""


class ChatClient(Protocol):
    """The part of a session's client that chats use."""

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
    """One session of the service."""

    @property
    def id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def client(self) -> ChatClient: ...
    @property
    def pending(self) -> tuple[Asked, ...]: ...

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` for every event from now on; the returned function stops that."""
        ...

    def message(self, text: str, how: How, attachments: Sequence[Attachment], received: int) -> None:
        """Pass a message to the session; `received` is its row in the store. Raises `HermesError`."""
        ...

    def answer(self, request: str, answer: str, who: str, scope: ChatScope, gateway: str) -> str:
        """Answer a request. Returns a sentence if the answer was not accepted, otherwise an empty text."""
        ...

    async def kind_of_word(self, name: str) -> WordKind:
        """Return what `/name` means in this session, apart from the commands of chats.

        `plugin` is a plugin's command, `prompt` a skill or a server's prompt, and an empty text nothing.
        """
        ...

    async def run_plugin(self, name: str, rest: str) -> str:
        """Run a plugin's command and return its output. Raises `HermesError`."""
        ...

    def expire(self, request: str) -> None:
        """Close a request that was not answered in time, with the result for an absent user."""
        ...


class ChatHost(Protocol):
    """The service that hosts the sessions."""

    @property
    def database(self) -> Database: ...

    async def create(self, workspace: str, surface: str, model: str | None = None) -> ChatSession:
        """Create a session. Raises `HermesError`, or `StoreError` if a later try may succeed."""
        ...

    async def session(self, id: str, surface: str, model: str | None = None) -> ChatSession:
        """Return a stored session, opening it if needed.

        Raises `HermesError`, or `NoSession` if it was deleted.
        """
        ...

    async def reopen(self, id: str, surface: str, model: str) -> ChatSession:
        """Close an open session, open it again with another model, and return it.

        If this raises `HermesError`, the session keeps its model.
        """
        ...

    async def list_sessions(self) -> Sequence[Mapping[str, Any]]:
        """Return the stored sessions, the most recently used first. Raises `HermesError`."""
        ...

    async def transcribe(self, data: bytes, name: str, session: ChatSession) -> str:
        """Return the text of a recording. Raises `HermesError`."""
        ...

    def keep_image(self, data: bytes, name: str) -> Attachment:
        """Store an image of a message in the home folder and return it. Blocks. Raises `HermesError`."""
        ...


class Gateway(ABC):
    """The parts of one gateway that its chats use."""

    def __init__(
        self,
        name: str,
        adapter: Adapter,
        settings: GatewaySettings,
        host: ChatHost,
        approval_timeout: float,
        workspace: str,
    ) -> None:
        """Set up the gateway. `workspace` is the working folder of new sessions."""
        self.name = name
        self.adapter = adapter
        self.settings = settings
        self.host = host
        self.approval_timeout = approval_timeout
        self.workspace = workspace
        self.paused_until = 0.0
        """The time on the monotonic clock until which nothing is sent to the platform."""
        self._locks: dict[Place, asyncio.Lock] = {}
        self._owed = asyncio.Event()
        self._known = asyncio.Event()

    def lock(self, place: Place) -> asyncio.Lock:
        """Return the lock that is held while something is sent to a chat or edited there."""
        return self._locks.setdefault(place, asyncio.Lock())

    def wake_sender(self) -> None:
        """Start sending the queued deliveries."""
        self._owed.set()

    async def wait_until_known(self) -> None:
        """Wait until the adapter knows its identity on the platform, which all requests may need.

        Deliveries and downloads of an earlier process may be pending before the first connection.
        """
        await self._known.wait()

    def pause(self, seconds: float) -> None:
        """Stop sending for some seconds; a longer pause that is already set stays."""
        self.paused_until = max(self.paused_until, time.monotonic() + seconds)

    @abstractmethod
    def home_of(self, gateway: str) -> str:
        """Return the chat that the settings name for a gateway; empty if none."""

    @abstractmethod
    def wake_place(self, gateway: str, place: Place) -> None:
        """Make a chat of a gateway check its messages, because a session now continues there."""


class ChatPlace:
    """A chat or thread and its session, as needed by its questions and its progress message."""

    def __init__(self, gateway: Gateway, place: Place) -> None:
        self.gateway = gateway
        self.place = place
        self.session: ChatSession | None = None

    async def read(self, work: Callable[[Any], Any]) -> Any:
        """Run a query on the store and return its result."""
        return await self.gateway.host.database.read(work)

    async def write(self, work: Callable[[Any], Any]) -> Any:
        """Change the store by `work` and return its result."""
        return await self.gateway.host.database.write(work)

    async def say(self, text: str) -> None:
        """Queue a message to the chat that is not part of the conversation."""
        limits = self.gateway.adapter.limits
        name, place, now = self.gateway.name, self.place, time.time()

        def store(c: Any) -> None:
            for piece in chunks(text, limits.text, limits.unit):
                book.queue_delivery(c, name, place, "text", {"text": piece}, now)

        await self.write(store)
        self.gateway.wake_sender()

    async def mark_done(self, row: ReceivedMessage) -> None:
        """Mark a received message as fully handled."""
        await self.write(lambda c: book.mark_done(c, row.id))

    async def scope_of(self, incoming: Incoming) -> ChatScope:
        """Return the current scope of the person who sent a message."""
        settings, name = self.gateway.settings, self.gateway.name
        return await self.read(
            lambda c: scope_of(c, name, incoming.sender.id, settings.allow, settings.approve)
        )

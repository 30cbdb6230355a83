"""Ports of the service that hosts the sessions, and between the parts of a running gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agent.core.messages import Attachment
from agent.core.store.connection import Database
from agent.core.store.nodes import Node
from agent.events import Asked, Event, TurnEnded
from agent.integrations.gateways.adapter import Adapter, Incoming, Place
from agent.integrations.gateways.book import BoundPlace, ReceivedMessage
from agent.integrations.gateways.people import ChatScope

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


class GatewayHouse(Protocol):
    """The other gateways, as one of them sees them."""

    def home(self, gateway: str) -> str:
        """The chat that the settings name for one."""
        ...

    def wake_place(self, gateway: str, place: Place) -> None:
        """A session goes on at a place of another one."""
        ...


class Gateway(Protocol):
    """One gateway, as its places see it."""

    name: str
    adapter: Adapter
    settings: GatewaySettings
    host: ChatHost
    approval_timeout: float
    workspace: str
    house: GatewayHouse
    paused_until: float
    """When the platform wants to hear of us again, by the monotonic clock."""

    def lock(self, place: Place) -> asyncio.Lock:
        """Held while something is sent to a place or changed there."""
        ...

    def owe(self) -> None:
        """There is something to send."""
        ...

    async def wait_until_known(self) -> None:
        """Back once the adapter can ask the platform for something."""
        ...

    def pause(self, seconds: float) -> None:
        """Send nothing for a while."""
        ...


class Head(Protocol):
    """A place with its session, as its commands and its live message see it."""

    gateway: Gateway
    place: Place
    session: ChatSession | None

    @property
    def surface(self) -> str:
        """How permissions call what begins here."""
        ...

    async def read(self, work: Callable[[Any], Any]) -> Any:
        """A look at the store."""
        ...

    async def write(self, work: Callable[[Any], Any]) -> Any:
        """A change of the store."""
        ...

    async def say(self, text: str) -> None:
        """Tell the place something that is not part of the conversation."""
        ...

    async def mark_done(self, row: ReceivedMessage) -> None:
        """A message needs no more."""
        ...

    async def scope_of(self, incoming: Incoming) -> ChatScope:
        """What the person may now."""
        ...

    async def begin(self, group: bool, model: str | None = None) -> ChatSession:
        """Let a new session begin here. Raises `HermesError`."""
        ...

    async def bind(self, id: str, told: int, group: bool) -> None:
        """Talk to this session from now on. Raises `HermesError`."""
        ...

    async def attach(self, bound: BoundPlace) -> None:
        """Hear a session, after telling what it said meanwhile. Raises `HermesError`."""
        ...

    def detach(self) -> None:
        """Hear no more of the session."""
        ...

    async def session_for(self, incoming: Incoming) -> ChatSession:
        """The session of the place; a new one if it has none. Raises `HermesError`."""
        ...

    async def hand_over(
        self, row: ReceivedMessage, text: str, attachments: Any = (), how: Any = "prompt"
    ) -> None:
        """Give a message to the session; from its commit on it is a part of that."""
        ...

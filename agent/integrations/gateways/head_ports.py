"""Ports between the parts of a running gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from agent.integrations.gateways.adapter import Adapter, Incoming, Place
from agent.integrations.gateways.book import BoundPlace, ReceivedMessage
from agent.integrations.gateways.people import ChatScope
from agent.integrations.gateways.ports import ChatHost, ChatSession

if TYPE_CHECKING:
    from agent.core.config.sections import GatewaySettings


class GatewayHouse(Protocol):
    """The other gateways, as one of them sees them."""

    def home(self, gateway: str) -> str:
        """The chat that the settings name for one."""
        ...

    def moved(self, gateway: str, place: Place) -> None:
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

    async def known(self) -> None:
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
        """Tell the place something that is no part of the conversation."""
        ...

    async def done(self, row: ReceivedMessage) -> None:
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

"""Ports of the service: sessions that it hosts, as the core of messengers asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from agent.core.messages import Attachment
from agent.core.store.connection import Database
from agent.core.store.nodes import Node
from agent.events import Asked, Event, TurnEnded
from agent.integrations.gateways.people import ChatScope

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

    async def listed(self) -> Sequence[Mapping[str, Any]]:
        """Sessions that are stored, those used last first. Raises `HermesError`."""
        ...

    async def transcribed(self, data: bytes, name: str, session: ChatSession) -> str:
        """What a recording says. Raises `HermesError`."""
        ...

    def keep_image(self, data: bytes, name: str) -> Attachment:
        """An image for a message, kept in the home. Blocking. Raises `HermesError`."""
        ...

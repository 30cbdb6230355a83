"""Ports of the application: the few things that its parts ask of it, each a protocol of its own.

A part names the ports it takes, alone or combined; `HermesApp` has them all. Nothing here knows the
application, and no part does. Ports that only one part offers stand beside it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from textual.screen import Screen

    from agent.api.session import AgentConversation, SessionClient
    from app.tui.commands.keys import Keys
    from app.tui.conversation.bridge import Bridge
    from app.tui.conversation.sender import MessageSender
    from app.tui.conversation.session_host import SessionHost, SessionRequest

Outcome = TypeVar("Outcome")


class NoticePort(Protocol):
    """Short words to the person, beside the conversation."""

    def say(self, text: str, *, timeout: float | None = None) -> None:
        """A short remark that goes away, after `timeout` seconds if given."""
        ...

    def complain(self, text: str) -> None:
        """A sentence about something that did not work."""
        ...


class DialogPort(Protocol):
    """Screens over the one the person looks at."""

    def push_screen(self, screen: Screen[Any], /) -> object:
        """Show a screen and go on."""
        ...

    async def push_screen_wait(self, screen: Screen[Outcome], /) -> Outcome | Any:
        """Show a screen and wait for what it ends with; only in a worker."""
        ...


class SessionPort(Protocol):
    """The session that is open."""

    @property
    def host(self) -> SessionHost: ...

    def need_client(self) -> SessionClient:
        """The session that is open. Raises `HermesError` while there is none."""
        ...

    async def open_session(self, wish: SessionRequest, /) -> None:
        """Open a session and show what was said in it. Raises `HermesError`; then nothing has changed."""
        ...


class EventsPort(Protocol):
    """What the events of the session have told so far."""

    @property
    def bridge(self) -> Bridge: ...


class SendingPort(Protocol):
    """What the person sends to the session."""

    @property
    def message_sender(self) -> MessageSender: ...


class KeysPort(Protocol):
    """The keys by which commands are reached."""

    @property
    def keys(self) -> Keys: ...


class TypingPort(Protocol):
    """What the person types."""

    last_key: float
    """When a key was pressed last, on the monotonic clock."""

    def spill(self, text: str) -> None:
        """Put what was meant for the draft into it, as if it were pasted."""
        ...

    def draft(self) -> str:
        """What is written and not sent."""
        ...


class WorkPort(Protocol):
    """Work beside the messages of the application."""

    def run_worker(
        self, work: Callable[[], Awaitable[Any]], /, *, group: str = ..., exclusive: bool = ...
    ) -> object:
        """Run a coroutine function; with `exclusive` what runs in its `group` is cancelled first."""
        ...


class SlashRunner(Protocol):
    """Carries out slash commands."""

    async def run_slash(self, text: str) -> None:
        """Carry out what was typed after a slash."""
        ...


class SlashPort(Protocol):
    """Slash commands as they are typed."""

    @property
    def actions(self) -> SlashRunner: ...


class OrderPort(Protocol):
    """Commands by their id."""

    def action_order(self, id: str) -> None:
        """Carry out the command with this id."""
        ...


class BranchViewer(Protocol):
    """Other branches of the session."""

    async def look_at(self, head: str) -> str:
        """Show a branch by its head; a sentence about it."""
        ...


class BranchViewPort(Protocol):
    """The way to another branch."""

    @property
    def history_actions(self) -> BranchViewer: ...


class AgentControls(Protocol):
    """What the person can do with agents, each by its id."""

    drafts: dict[str, str]
    """Texts that were begun for agents and not sent."""

    async def kill(self, agent: str) -> None:
        """End it, after a question."""
        ...

    async def pause(self, agent: str) -> None:
        """Let it wait, or go on."""
        ...

    async def tell(self, agent: str, text: str) -> bool:
        """Send it a message; whether that was possible."""
        ...

    async def waiting(self, agent: str) -> tuple[str, ...]:
        """The messages it has not read yet."""
        ...

    async def past(self, agent: str) -> AgentConversation:
        """Its conversation so far. Raises `HermesError`."""
        ...

    async def recall(self, client: SessionClient) -> None:
        """Show the agents that were sent before the session was opened."""
        ...

    def clear_ended(self) -> None:
        """Show those that have ended no longer."""
        ...


class AgentsPort(Protocol):
    """The agents of the session."""

    @property
    def agents(self) -> AgentControls: ...

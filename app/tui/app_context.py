"""The application as its parts see it.

A part takes an `AppContext`; `HermesApp` is one. Nothing here knows the application, and no part does. What a
part offers that needs the context itself is a protocol here, or one beside that part which adds it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from textual.events import Event
    from textual.screen import Screen
    from textual.timer import Timer
    from textual.widget import Widget

    from agent.api.session import SessionClient
    from agent.session.subagents.agents import AgentConversation
    from app.tui.commands.keys import Keys
    from app.tui.conversation.bridge import Bridge
    from app.tui.conversation.session_host import MessageSender, SessionHost, SessionRequest
    from app.tui.conversation.session_screen import SessionScreen
    from app.tui.terminal.answers import TerminalAnswers
    from app.tui.terminal.tty_output import TerminalAttention

Outcome = TypeVar("Outcome")


class SlashRunner(Protocol):
    """Carries out slash commands."""

    async def run_slash(self, text: str) -> None:
        """Carry out what was typed after a slash."""
        ...


class BranchViewer(Protocol):
    """Other branches of the session."""

    async def look_at(self, head: str) -> str:
        """Show a branch by its head; a sentence about it."""
        ...


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


class AppContext(Protocol):
    """What the parts of the application ask of it."""

    attention: TerminalAttention
    tour: bool
    """Whether the next session is the tour."""
    answers: TerminalAnswers
    drawn: Callable[[str], str]
    console: Console
    last_key: float
    """When a key was pressed last, on the monotonic clock."""

    @property
    def session(self) -> SessionScreen:
        """The screen of the session, under whatever lies over it."""
        ...

    @property
    def host(self) -> SessionHost: ...

    @property
    def bridge(self) -> Bridge:
        """What the events of the session have told so far."""
        ...

    @property
    def message_sender(self) -> MessageSender: ...

    @property
    def keys(self) -> Keys:
        """The keys by which commands are reached."""
        ...

    @property
    def actions(self) -> SlashRunner: ...

    @property
    def history_actions(self) -> BranchViewer: ...

    @property
    def agents(self) -> AgentControls: ...

    @property
    def backlog(self) -> int:
        """Bytes that wait for the terminal."""
        ...

    @property
    def focused(self) -> Widget | None: ...

    @property
    def screen(self) -> Screen[Any]: ...

    @property
    def screen_stack(self) -> Sequence[Screen[Any]]:
        """The screens that lie over each other, the one the person looks at last."""
        ...

    @property
    def direct_write(self) -> Callable[[str], None] | None:
        """What takes rows to the terminal past Textual's frames; None where there is no terminal of ours."""
        ...

    def begin(self) -> object:
        """Open the first session."""
        ...

    def action_order(self, id: str) -> None:
        """Carry out the command with this id."""
        ...

    def use_keys(self, keys: Keys) -> None:
        """Let these keys be in force."""
        ...

    def say(self, text: str, *, timeout: float | None = None) -> None:
        """A short remark that goes away, after `timeout` seconds if given."""
        ...

    def complain(self, text: str) -> None:
        """A sentence about something that did not work."""
        ...

    def push_screen(self, screen: Screen[Any], callback: Callable[[Any], None] | None = None, /) -> object:
        """Show a screen over the others and go on; `callback` gets what it ends with."""
        ...

    async def push_screen_wait(self, screen: Screen[Outcome], /) -> Outcome | Any:
        """Show a screen and wait for what it ends with; only in a worker."""
        ...

    def need_client(self) -> SessionClient:
        """The session that is open. Raises `HermesError` while there is none."""
        ...

    async def open_session(self, wish: SessionRequest, /) -> None:
        """Open a session and show what was said in it. Raises `HermesError`; then nothing has changed."""
        ...

    def spill(self, text: str) -> None:
        """Put what was meant for the draft into it, as if it were pasted."""
        ...

    def draft(self) -> str:
        """What is written and not sent."""
        ...

    def run_worker(
        self, work: Callable[[], Awaitable[Any]], /, *, group: str = ..., exclusive: bool = ...
    ) -> object:
        """Run a coroutine function; with `exclusive` what runs in its `group` is cancelled first."""
        ...

    def set_timer(self, delay: float, callback: Callable[[], Any], /) -> Timer:
        """Call once after `delay` seconds."""
        ...

    def call_later(self, callback: Callable[..., Any], /, *arguments: Any) -> object:
        """Call in turn with the events of the application."""
        ...

    def call_after_refresh(self, callback: Callable[..., Any], /, *arguments: Any) -> object:
        """Call once what should be visible by now has been drawn."""
        ...

    async def on_event(self, event: Event, /) -> None:
        """Take an event as if it came just now."""
        ...

    def bind(self, keys: str, /, action: str, *, description: str = ..., show: bool = ...) -> None:
        """Bind keys to an action."""
        ...

    def clear_notifications(self) -> None:
        """Take all remarks away."""
        ...

    def copy_to_clipboard(self, text: str, /) -> None:
        """Hand a text to the terminal's clipboard."""
        ...

    def exit(self) -> None:
        """End the application."""
        ...

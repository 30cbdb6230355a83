"""The interface through which the parts of the application use it.

A part takes an `AppContext`, which `HermesApp` implements. Neither this module nor any part imports the
application. A service that itself needs the context is a protocol, here or next to the part that adds it.
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
    from app.tui.terminal.attention import Attention
    from app.tui.terminal.terminals import TerminalAnswers

Outcome = TypeVar("Outcome")


class SlashRunner(Protocol):
    """Runs slash commands."""

    async def run_slash(self, text: str) -> None:
        """Run the slash command in `text`."""
        ...


class BranchViewer(Protocol):
    """A service that switches the session to another branch."""

    async def switch_without_files(self, head: str) -> str:
        """Switch the conversation to the named branch without changing files; return a notice."""
        ...


class AgentControls(Protocol):
    """The user's actions on agents; each agent is given by its id."""

    drafts: dict[str, str]
    """The unsent text to each agent, by its id."""

    async def kill(self, agent: str) -> None:
        """Ask for confirmation, then stop the agent and its subagents permanently."""
        ...

    async def pause(self, agent: str) -> None:
        """Pause the agent and its subagents, or let them continue."""
        ...

    async def send_message(self, agent: str, text: str) -> bool:
        """Send the agent a message; return whether that was possible."""
        ...

    async def waiting(self, agent: str) -> tuple[str, ...]:
        """Return the messages that the agent has not read yet; empty if they cannot be read."""
        ...

    async def past(self, agent: str) -> AgentConversation:
        """Return the agent's conversation so far. Raises `HermesError`."""
        ...

    async def recall(self, client: SessionClient) -> None:
        """Show the agents that were started before the session was opened."""
        ...

    def clear_ended(self) -> None:
        """Remove ended agents from the list."""
        ...


class AppContext(Protocol):
    """The members of the application that its parts use."""

    attention: Attention
    mouse: str
    """The value of `display.mouse` in effect."""
    tour: bool
    """True if the next session to open is the guided tour."""
    answers: TerminalAnswers
    drawn: Callable[[str], str]
    console: Console
    last_key: float
    """The time of the last key press, on the monotonic clock."""

    @property
    def session(self) -> SessionScreen:
        """The session's screen, even while other screens cover it."""
        ...

    @property
    def host(self) -> SessionHost: ...

    @property
    def bridge(self) -> Bridge:
        """The bridge that turns events of the session into what the panes show."""
        ...

    @property
    def message_sender(self) -> MessageSender: ...

    @property
    def keys(self) -> Keys:
        """The key bindings of the commands."""
        ...

    @property
    def actions(self) -> SlashRunner: ...

    @property
    def history_actions(self) -> BranchViewer: ...

    @property
    def agents(self) -> AgentControls: ...

    @property
    def backlog(self) -> int:
        """The number of bytes not yet written to the terminal."""
        ...

    @property
    def focused(self) -> Widget | None: ...

    @property
    def screen(self) -> Screen[Any]: ...

    @property
    def screen_stack(self) -> Sequence[Screen[Any]]:
        """The open screens, the topmost one last."""
        ...

    @property
    def direct_write(self) -> Callable[[str], None] | None:
        """A function that writes rows to the terminal outside Textual's frames; None if the terminal is not
        controlled by the application.
        """
        ...

    def open_first_session(self) -> object:
        """Mount the panes and open the first session."""
        ...

    def action_order(self, id: str) -> None:
        """Run the command with this id."""
        ...

    def use_keys(self, keys: Keys) -> None:
        """Put these key bindings into effect."""
        ...

    def show_notice(self, text: str, *, timeout: float | None = None) -> None:
        """Show a short notice, for `timeout` seconds or the default time."""
        ...

    def show_warning(self, text: str) -> None:
        """Show a sentence as a warning notice."""
        ...

    def push_screen(self, screen: Screen[Any], callback: Callable[[Any], None] | None = None, /) -> object:
        """Show a screen above the others without waiting; `callback` receives its result."""
        ...

    async def push_screen_wait(self, screen: Screen[Outcome], /) -> Outcome | Any:
        """Show a screen and wait for its result. Only possible in a worker."""
        ...

    def need_client(self) -> SessionClient:
        """Return the client of the open session. Raises `HermesError` while there is none."""
        ...

    async def open_session(self, wish: SessionRequest, /) -> None:
        """Open a session and show its conversation. On a `HermesError` the previous one is open again."""
        ...

    def paste_into_draft(self, text: str) -> None:
        """Insert into the prompt, as if pasted, text that was typed for the draft while a dialog opened."""
        ...

    def draft(self) -> str:
        """The text written in the prompt and not yet sent."""
        ...

    def run_worker(
        self, work: Callable[[], Awaitable[Any]], /, *, group: str = ..., exclusive: bool = ...
    ) -> object:
        """Run a coroutine function; with `exclusive`, running workers of its `group` are cancelled first."""
        ...

    def set_timer(self, delay: float, callback: Callable[[], Any], /) -> Timer:
        """Call `callback` once after `delay` seconds."""
        ...

    def call_later(self, callback: Callable[..., Any], /, *arguments: Any) -> object:
        """Queue a call that runs in order with the application's events."""
        ...

    def call_after_refresh(self, callback: Callable[..., Any], /, *arguments: Any) -> object:
        """Call a function after the next screen refresh."""
        ...

    async def on_event(self, event: Event, /) -> None:
        """Handle an event as if it had just arrived."""
        ...

    def bind(self, keys: str, /, action: str, *, description: str = ..., show: bool = ...) -> None:
        """Bind keys to an action."""
        ...

    def clear_notifications(self) -> None:
        """Remove all notices."""
        ...

    def copy_to_clipboard(self, text: str, /) -> None:
        """Copy a text to the clipboard; a notice names the way that was used."""
        ...

    async def ask_background(self) -> bool | None:
        """Ask the terminal whether its background is light; return None if it does not answer."""
        ...

    def report_mouse(self, policy: str, /) -> None:
        """Make the terminal report the mouse events that a value of `display.mouse` asks for."""
        ...

    def exit(self) -> None:
        """End the application."""
        ...

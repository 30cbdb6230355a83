"""The conversation and the prompt in front: the session's, or an agent's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from app.tui.conversation.conversation_screen import ConversationScreen

if TYPE_CHECKING:
    from textual.screen import Screen

    from app.tui.conversation.session_screen import SessionScreen
    from app.tui.ports import AgentsPort, DialogPort, EventsPort
    from widgets.prompt.widget import Prompt
    from widgets.transcript.view import Transcript

    class AgentAttachPorts(AgentsPort, DialogPort, EventsPort, Protocol):
        """What following an agent asks of the application."""


class ConversationPort(Protocol):
    """The screens that lie over each other, the one the person looks at last."""

    @property
    def session(self) -> SessionScreen: ...

    @property
    def screen_stack(self) -> Sequence[Screen[Any]]: ...


def screen(app: ConversationPort) -> ConversationScreen:
    """The topmost screen with a conversation; dialogs over it do not count."""
    for each in reversed(app.screen_stack):
        if isinstance(each, ConversationScreen):
            return each
    return app.session


def agent(app: ConversationPort) -> str:
    """The id of the agent whose conversation it is; empty for the session's own."""
    return screen(app).shows_agent


def transcript(app: ConversationPort) -> Transcript:
    """The conversation."""
    return screen(app).transcript


def prompt(app: ConversationPort) -> Prompt:
    """The prompt below it."""
    return screen(app).prompt


def attach(app: AgentAttachPorts, agent: str) -> None:
    """Show the conversation of an agent, and follow it."""
    from app.tui.conversation.agent_screen import AgentScreen

    if app.bridge.team.row(agent) is not None:
        app.push_screen(AgentScreen(agent, app.agents, app.bridge))

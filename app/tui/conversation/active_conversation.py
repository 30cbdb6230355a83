"""The conversation and the prompt in front: the session's, or an agent's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.tui.conversation.session_screen import ConversationScreen

if TYPE_CHECKING:
    from app.tui.app_context import AppContext
    from widgets.prompt.widget import Prompt
    from widgets.transcript.view import Transcript


def screen(app: AppContext) -> ConversationScreen:
    """The topmost screen with a conversation; dialogs over it do not count."""
    for each in reversed(app.screen_stack):
        if isinstance(each, ConversationScreen):
            return each
    return app.session


def agent(app: AppContext) -> str:
    """The id of the agent whose conversation it is; empty for the session's own."""
    return screen(app).shows_agent


def transcript(app: AppContext) -> Transcript:
    """The conversation."""
    return screen(app).transcript


def prompt(app: AppContext) -> Prompt:
    """The prompt below it."""
    return screen(app).prompt


def attach(app: AppContext, agent: str) -> None:
    """Show the conversation of an agent, and follow it."""
    from app.tui.conversation.agent_screen import AgentScreen

    if app.bridge.team.row(agent) is not None:
        app.push_screen(AgentScreen(agent, app.agents, app.bridge))

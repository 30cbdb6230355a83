"""The conversation and the prompt in the foreground: those of the session or of a subagent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.tui.conversation.session_screen import ConversationScreen

if TYPE_CHECKING:
    from app.tui.app_context import AppContext
    from widgets.prompt.widget import Prompt
    from widgets.transcript.view import Transcript


def screen(app: AppContext) -> ConversationScreen:
    """Return the topmost screen with a conversation, ignoring dialogs above it."""
    for each in reversed(app.screen_stack):
        if isinstance(each, ConversationScreen):
            return each
    return app.session


def agent(app: AppContext) -> str:
    """Return the id of the agent in the foreground; empty for the main agent."""
    return screen(app).shows_agent


def transcript(app: AppContext) -> Transcript:
    """Return the transcript in the foreground."""
    return screen(app).transcript


def prompt(app: AppContext) -> Prompt:
    """Return the prompt in the foreground."""
    return screen(app).prompt


def attach(app: AppContext, agent: str) -> None:
    """Open a screen that shows and follows the conversation of a subagent; does nothing if it is unknown."""
    from app.tui.conversation.agent_screen import AgentScreen

    if app.bridge.team.row(agent) is not None:
        app.push_screen(AgentScreen(agent, app.agents, app.bridge))

"""Which conversation and which prompt the person has before them: the session's, or an agent's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.screens.session import SessionScreen

if TYPE_CHECKING:
    from app.application import HermesApp
    from app.screens.agent import AgentScreen
    from widgets.prompt.widget import Prompt
    from widgets.transcript.view import Transcript


def screen(app: HermesApp) -> SessionScreen | AgentScreen:
    """The topmost screen with a conversation; dialogs over it do not count."""
    for each in reversed(app.screen_stack):
        if isinstance(each, SessionScreen) or getattr(each, "shows_agent", ""):
            return each  # type: ignore[return-value]
    return app.session


def agent(app: HermesApp) -> str:
    """The id of the agent whose conversation it is; empty for the session's own."""
    return getattr(screen(app), "shows_agent", "")


def transcript(app: HermesApp) -> Transcript:
    """The conversation."""
    return screen(app).transcript


def prompt(app: HermesApp) -> Prompt:
    """The prompt below it."""
    return screen(app).prompt


def attach(app: HermesApp, agent: str) -> None:
    """Show the conversation of an agent, and follow it."""
    from app.screens.agent import AgentScreen

    if app.bridge.team.row(agent) is not None:
        app.push_screen(AgentScreen(agent, app.agents, app.bridge))

"""The command that shows the page the agent has open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


def _browser(app: AppContext, _argument: str) -> None:
    import os

    from agent.core.home import Home
    from app.tui.screens.browser import BrowserScreen

    client = app.need_client()
    folder = Home.locate().scratch / client.id / "browser"
    shelf = app.session.transcript.pictures if app.session.panes_mounted else None
    app.push_screen(BrowserScreen(folder, colours=not os.environ.get("NO_COLOR"), shelf=shelf))


COMMAND = AppCommand(
    id="session.browser",
    group="Sessions",
    name="Browser",
    description="Show the page that the agent has open, as a picture and as text.",
    action=_browser,
    slash="browser",
)

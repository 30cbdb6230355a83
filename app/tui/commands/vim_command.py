"""The command that switches the vi keys of the prompt on or off."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext
    from app.tui.commands.actions import ActionContext


async def _switch(app: AppContext, _words: str) -> None:
    on = not app.session.prompt.vi
    await cast("ActionContext", app).preferences.change("display.vi", "true" if on else "false")
    app.say("The prompt takes vi keys." if on else "The prompt takes plain keys again.")


COMMAND = AppCommand(
    id="view.vim",
    group="View",
    name="Vi keys",
    description="Switch the vi keys of the prompt on or off (display.vi).",
    action=_switch,
    slash="vim",
)

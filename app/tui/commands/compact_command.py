"""The command that summarizes the conversation so far, to make room in the model's window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


async def _compact(app: AppContext, focus: str) -> None:
    client = app.need_client()
    if not client.busy:  # during a turn the engine refuses
        app.say("Compacting the conversation …")
    # The conversation shows the result.
    await client.compact(focus)


COMMAND = AppCommand(
    id="session.compact",
    group="Conversation",
    name="Compact the conversation",
    description="A summary takes the place of older messages; your own words stay, and all can be opened.",
    action=_compact,
    slash="compact",
    argument_hint="[what matters most]",
)

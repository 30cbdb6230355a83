"""The command that moves the session to a messenger and back. The service hosts it; this terminal stays
attached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.errors import HermesError
from app.tui.commands.registry import AppCommand
from app.tui.commands.serve_command import bring_service, hand_over

if TYPE_CHECKING:
    from app.tui.app_context import AppContext

USAGE = "Write where it continues: /move telegram, or /move here to take it out of every chat."


async def _move(app: AppContext, where: str) -> None:
    from agent.api.remote import check_move, move_session
    from agent.core.home import Home

    if not where:
        raise HermesError(USAGE)
    service = Home.locate().service_socket
    if not app.host.is_served:
        # If that is refused, the session does not move.
        await bring_service(app)
        await check_move(service, where)
    await hand_over(app)
    told = await move_session(service, app.need_client().id, where)
    app.say(told, timeout=15)


COMMAND = AppCommand(
    id="session.move",
    group="Conversation",
    name="Move to a messenger",
    description="Your chat there continues with the session, which the service has then; `/move here`: not.",
    action=_move,
    slash="move",
    argument_hint="telegram|here",
)

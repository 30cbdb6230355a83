"""The command that opens the tour in a session of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.errors import HermesError
from app.tui.commands.registry import AppCommand
from app.tui.conversation.session_host import SessionRequest

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


async def _tour(app: AppContext, _words: str) -> None:
    before = app.need_client()
    if before.busy:
        raise HermesError("A turn is running; stop it (esc) or wait for its end, then send /tour again.")
    id = before.id if any(node.kind == "user" for node in before.path) else ""
    app.tour = True
    try:
        await app.open_session(SessionRequest(fresh=True, tour=True))
    finally:
        app.tour = False
    back = f"/resume {id} goes back to your session" if id else "/new leaves it"
    app.session.transcript.add_notice("info", f"The tour works in {app.need_client().workspace}; {back}.")


COMMAND = AppCommand(
    id="program.tour",
    group="Program",
    name="Take the tour",
    description="Five minutes with a scripted model in a folder of its own; your session is kept.",
    action=_tour,
    slash="tour",
)

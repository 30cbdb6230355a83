"""The command that leaves a session of the service: the terminal ends, the session and its turn continue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.errors import HermesError
from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


def _detach(app: AppContext, _words: str) -> None:
    client = app.need_client()
    if not app.host.is_served:
        raise HermesError(
            "This session belongs to this terminal and ends with it; /serve hands it to the service first."
        )
    if app.host.is_lost:
        raise HermesError(f"The service has ended; /resume {client.id} continues with the session.")
    app.exit()


COMMAND = AppCommand(
    id="session.detach",
    group="Sessions",
    name="Detach",
    description="Leave; the session continues in the service, with its turn. `hermes --attach` comes back.",
    action=_detach,
    keys=("alt+q",),
    slash="detach",
)

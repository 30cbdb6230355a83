"""The command that shows what fills the model's window and can admit passages withheld from context files."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.knowledge.context.quarantine import KeptPassage
    from app.tui.app_context import AppContext


def _context(app: AppContext, _argument: str) -> None:
    from app.tui.screens.context import ContextScreen

    client = app.need_client()
    standing, let_in = partial(_standing, client), partial(let_in_passage, client)
    app.push_screen(ContextScreen(client.context, standing, let_in))


def _standing(client: SessionClient) -> object:
    """Return a value that changes whenever the context changes."""
    path = client.path
    return client.id, client.model, path[-1].id if path else 0


async def let_in_passage(client: SessionClient, passage: KeptPassage) -> str:
    """Admit a withheld passage; return a sentence saying when it takes effect. Raises `HermesError`."""
    from agent.core.home import Home
    from agent.knowledge.context.quarantine import let_in

    await asyncio.to_thread(lambda: let_in(Home.locate(), passage))
    if client.busy:
        return f"{passage.place} is let in, from the next session on."
    # The system prompt is unchanged, so the agent gets a separate note.
    await client.add_note(f"The user let in what was kept back of {passage.place}:\n\n{passage.text}")
    return f"{passage.place} is let in; the agent is told now."


COMMAND = AppCommand(
    id="session.context",
    group="Sessions",
    name="Context and cost",
    description="Show what fills the window, layer by layer, what is kept back, and what was used.",
    action=_context,
    slash="context",
)

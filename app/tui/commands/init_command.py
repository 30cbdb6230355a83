"""The command that asks the model in the session for a draft of AGENTS.md."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent.api.project_notes import drafting_instruction
from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


async def _draft(app: AppContext, _words: str) -> None:
    text = await asyncio.to_thread(drafting_instruction, app.need_client().workspace)
    app.message_sender.send(text)


COMMAND = AppCommand(
    id="session.init",
    group="Conversation",
    name="Draft AGENTS.md",
    description="The model looks at the project and writes AGENTS.md, or proposes improvements to it.",
    action=_draft,
    slash="init",
)

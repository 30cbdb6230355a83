"""The command that drafts a message asking the agent to write its approach down as a skill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand
from app.tui.conversation import active_conversation

if TYPE_CHECKING:
    from app.tui.app_context import AppContext

DRAFT = (
    "Write down how you did this as a skill, with skill_manage; read the skill writing-a-skill first. Say "
    "when it is of use, the steps that worked, what went wrong on the way and how to check the result. "
    "Leave out what belongs to this one case."
)


def _draft(app: AppContext, argument: str) -> None:
    prompt = active_conversation.prompt(app)
    about = f" It is about {argument}." if argument else ""
    prompt.set_text(f"{DRAFT}{about}")


COMMAND = AppCommand(
    id="turn.save_skill",
    group="Turn",
    name="Save the way as a skill",
    description="Draft the message that has the agent write down how it did this; it is not sent yet.",
    action=_draft,
    slash="save-skill",
    argument_hint="[about]",
)

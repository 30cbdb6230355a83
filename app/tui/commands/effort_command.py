"""The command that sets how much the model thinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


LEVELS = ("off", "low", "medium", "high", "default")
"""The levels, in the order the command steps through them."""


async def _effort(app: AppContext, wanted: str) -> None:
    """Change to the named level; without a name, to the next one. The conversation shows a notice."""
    client = app.need_client()
    await client.set_effort(wanted or next_level(client.effort))


def next_level(level: str) -> str:
    """Return the level after `level`; after a number of tokens or the provider's default, return `off`."""
    at = LEVELS.index(level) if level in LEVELS else -1
    return LEVELS[(at + 1) % len(LEVELS)]


COMMAND = AppCommand(
    id="session.effort",
    group="Conversation",
    name="Effort",
    description="How much the model thinks: off, low, medium, high, default or tokens; else the next.",
    action=_effort,
    slash="effort",
    argument_hint="[level|tokens]",
)

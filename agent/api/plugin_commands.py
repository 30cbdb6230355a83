"""The plugins of an open session: their slash commands, and what went wrong with their code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agent.integrations.plugins.commands import PluginCommand
    from agent.integrations.plugins.failure import PluginFailure


class PluginCommands(Protocol):
    """The commands that the plugins of the session registered, and how their code does."""

    async def commands(self) -> Sequence[PluginCommand]:
        """All of them, by plugin."""
        ...

    async def run(self, name: str, text: str, show: bool = True) -> str:
        """Carry one out with the text behind it; what it says. With `show` that becomes a notice."""
        ...

    async def failures(self) -> Sequence[PluginFailure]:
        """What went wrong last with the code of each, where something did."""
        ...


def called(text: str) -> tuple[str, str] | None:
    """The name and the rest of a message `/name rest`; None for any other one. Pure."""
    if not text.startswith("/"):
        return None
    name, _, rest = text[1:].strip().partition(" ")
    return (name, rest.strip()) if name else None


async def run_called(commands: PluginCommands, text: str, *, show: bool = True) -> str | None:
    """What the command that a message calls says; None where it calls none of a plugin."""
    call = called(text)
    if call is None or all(each.name != call[0] for each in await commands.commands()):
        return None
    return await commands.run(*call, show)

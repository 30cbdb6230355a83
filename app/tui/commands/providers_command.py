"""The command that shows the providers of models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


async def _providers(app: AppContext, argument: str) -> None:
    from app.tui.screens.models.model_menu import ModelMenu
    from app.tui.screens.models.providers import ProvidersScreen

    await app.push_screen_wait(ProvidersScreen(ModelMenu(app.message_sender.workspace), argument))


COMMAND = AppCommand(
    id="program.providers",
    group="Program",
    name="Providers",
    description="Providers of models: add one by its address, check it, enter its key, delete it.",
    action=_providers,
    slash="providers",
    argument_hint="[provider | add]",
)

"""Getting what a model misses before it can be used: a key, or its weights."""

from __future__ import annotations

from typing import Any, Protocol

from textual.app import App

from agent.model.model_choices import ModelChoice
from app.tui.screens.confirm import ConfirmDialog
from app.tui.screens.models.fetch import FetchDialog, Fetcher, gigabytes
from app.tui.screens.models.key_dialog import KeyDialog, KeyKeeper
from app.tui.screens.models.model_menu import Offers


class Setup(KeyKeeper, Fetcher, Protocol):
    """What it takes; `app.tui.screens.models.model_menu.ModelMenu` is the real one."""

    async def keep(self, name: str) -> str: ...


async def obtained(app: App[Any], choice: ModelChoice, offers: Offers, setup: Setup) -> str | None:
    """The name of a model once it can be used.

    Empty if the person thought better of it, or has to name one yet; None if nothing here helps.
    """
    if choice.missing_key:
        provider = next((each for each in offers.providers if each.variable == choice.missing_key), None)
        if provider is None:
            return None
        if await app.push_screen_wait(KeyDialog(provider, setup)) is None:
            return ""
        return "" if choice.name.endswith("/…") else choice.name
    if choice.name == "local" and offers.weights is not None and not offers.problem:
        size = gigabytes(offers.weights.size) if offers.weights.size else "its size is not known"
        question = ConfirmDialog(f"Fetch the local model ({size})?", "Fetch it and use it", "Not now")
        if not await app.push_screen_wait(question):
            return ""
        return "local" if await app.push_screen_wait(FetchDialog(offers.weights, setup)) else ""
    return None

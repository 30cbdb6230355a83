"""The first start: no model is chosen yet, and these are the ways on."""

from __future__ import annotations

import re
from collections.abc import Callable

from textual import work
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from agent.model.providers import NoModelError
from app.screens.choices import Choices
from app.screens.confirm import TextDialog
from app.screens.dialog import Dialog, Hints
from app.screens.wording import words

DEMO = "Take the tour with a scripted model; it runs right away"
NAME_ONE = "Name a model: provider/name …"
LOCAL = "The model on this machine (fetched with `hermes model pull`)"
MODELS_SHOWN = 4
"""Models offered of each server that runs here."""


class OnboardingScreen(Dialog[str | None]):
    """Ends with the name of a model, or None. What was typed meanwhile is kept by the application."""

    leaves = "quit"

    def __init__(self, problem: NoModelError, spill: Callable[[str], None] = lambda _text: None) -> None:
        super().__init__(spill)
        self._problem = problem
        found = [
            (f"{server.name}/{model} – runs on this machine", f"{server.name}/{model}")
            for server in problem.servers
            for model in server.models[:MODELS_SHOWN]
        ]
        self._ways: list[tuple[str, str]] = [*found, (NAME_ONE, ""), (LOCAL, "local"), (DEMO, "demo")]

    def body(self) -> ComposeResult:
        yield Static(Content("◆ Which model shall answer this time?"), classes="who")
        yield words(str(self._problem), "text", gutter=column)
        demo = 0 if self._problem.servers else len(self._ways) - 1
        yield Choices([title for title, _ in self._ways], chosen=demo)
        yield Hints()

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        model = self._ways[event.option_index][1]
        if model:
            self.dismiss(model)
        else:
            self._ask()

    @work
    async def _ask(self) -> None:
        model = await self.app.push_screen_wait(TextDialog("Model, as provider/name"))
        if model is not None and model.strip():
            self.dismiss(model.strip())

    def decline(self) -> None:
        self.dismiss(None)


def column(line: str) -> int:
    """Where the words of a way on begin, behind its name; 0 in other lines. Pure."""
    way = re.match(r" {1,4}\w[\w ]{0,11}: {1,8}", line)
    return way.end() if way else 0

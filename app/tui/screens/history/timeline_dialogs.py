"""The questions of the timeline: what to bring back, and which branch to go on with."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult

from app.tui.screens.choices import Choices
from app.tui.screens.dialog import Dialog, Hints
from app.tui.screens.history.timeline_services import What
from app.tui.screens.wording import words

WHATS: tuple[What, ...] = ("both", "conversation", "files", "some")
BRING_BACK = (
    "Conversation and files",
    "Only the conversation; files stay as they are",
    "Only the files; the conversation goes on from its end",
    "Only some files, or hunks of them; I choose on the next screen",
)
NOTHING = "Leave everything as it is"


class TimelinePick(Dialog[int | None]):
    """One of several choices, by its index; None for the last one, which changes nothing."""

    leaves = "leave everything as it is"

    def __init__(self, question: str, choices: Sequence[str]) -> None:
        super().__init__()
        self._question = question
        self._choices = choices

    def body(self) -> ComposeResult:
        yield words(self._question)
        yield Choices([*self._choices, NOTHING], chosen=len(self._choices))
        yield Hints()

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        self.dismiss(event.option_index if event.option_index < len(self._choices) else None)

    def decline(self) -> None:
        self.dismiss(None)

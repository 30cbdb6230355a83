"""The dialog for a question of the model."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from agent.events import QuestionAsked
from app.tui.screens.dialog import Choices, Dialog, Hints
from app.tui.screens.page import LINE_CHARS, Field, line, words
from themes.states import NEEDS_YOU
from tools.context import PersonAnswer

OWN_WORDS = "Something else …"


class ClarifyDialog(Dialog[PersonAnswer]):
    """Shows a question with its choices, and accepts a free answer if the question allows one."""

    enters = "answer"
    leaves = "no answer"
    opens = True

    def __init__(self, request: QuestionAsked, spill: Callable[[str], None] = lambda _text: None) -> None:
        super().__init__(spill)
        self.request = request
        self._free = request.allow_freetext or not request.choices
        self._choices = [*request.choices, *([OWN_WORDS] if self._free and request.choices else [])]

    def body(self) -> ComposeResult:
        yield Static(Content(f"{NEEDS_YOU} {line(self.request.agent, LINE_CHARS)} asks"), classes="who")
        yield words(self.request.question, "text")
        if self._choices:
            yield Choices(self._choices)
        if self._free:
            field = Field(placeholder="your answer", compact=True)
            field.display = not self._choices
            yield field
        yield Hints()

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        if event.option_index < len(self.request.choices):
            self.dismiss(PersonAnswer("answered", self.request.choices[event.option_index]))
            return
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            self.dismiss(PersonAnswer("answered", event.value.strip()))

    def whole(self) -> str:
        choices = (f"{number}  {choice}" for number, choice in enumerate(self.request.choices, 1))
        return "\n\n".join((f"{self.request.agent} asks", self.request.question, *choices))

    def entry(self) -> Widget:
        return self.query_one(Choices if self._choices else Input)

    def decline(self) -> None:
        self.dismiss(PersonAnswer("declined"))

"""The dialog where a ceiling stands in an agent's way."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, Static

from agent.events import CeilingAsked, CeilingReply
from app.tui.questions.budget_words import after, example, more, raised_once, reached
from app.tui.screens.choices import Choices
from app.tui.screens.dialog import Dialog, Hints
from app.tui.screens.field import Field
from app.tui.screens.wording import LINE_CHARS, line, words

BY = "Raise it by …"
STOP = "Stop here, with what there is"


class CeilingDialog(Dialog[CeilingReply]):
    """Says which ceiling is reached and by whom; it is raised, or the agent stops, which is the default."""

    enters = "raise it"
    leaves = "stop here"
    opens = True

    def __init__(self, request: CeilingAsked, spill: Callable[[str], None] = lambda _text: None) -> None:
        super().__init__(spill)
        self.request = request

    def body(self) -> ComposeResult:
        who = line(self.request.agent, LINE_CHARS)
        yield Static(Content(f"◆ {who} cannot go on"), classes="who")
        yield words(line(reached(self.request), 2 * LINE_CHARS), "text")
        yield words("\n".join(after(self.request)), "text notes", role="dim")
        yield Choices([raised_once(self.request), BY, STOP], chosen=2)
        field = Field(placeholder=f"how much more, such as {example(self.request.measure)}", compact=True)
        field.display = False
        yield field
        yield Hints()

    def whole(self) -> str:
        who = f"{self.request.agent} cannot go on"
        return "\n\n".join((who, reached(self.request), "\n".join(after(self.request))))

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        if event.option_index == 0:
            self.dismiss(CeilingReply("raised", self.request.again))
        elif event.option_index == 1:
            field = self.query_one(Input)
            field.display = True
            field.focus()
        else:
            self.decline()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        ceiling, wrong = more(event.value, self.request)
        if wrong:
            event.input.value = ""
            event.input.placeholder = wrong
        else:
            self.dismiss(CeilingReply("raised", ceiling))

    def decline(self) -> None:
        self.dismiss(CeilingReply("stopped"))

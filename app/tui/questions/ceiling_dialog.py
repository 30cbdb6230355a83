"""Dialogs about budgets: a ceiling that is reached, and a forecast beyond it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, Static

from agent.events import CeilingAsked, CeilingReply, Decision, ForecastAsked
from app.tui.questions.budget_words import (
    align_lines,
    answer_effects,
    ceiling_text,
    example,
    figures,
    heading,
    parse_increase,
    raise_label,
)
from app.tui.screens.dialog import Choices, Dialog, Hints
from app.tui.screens.page import LINE_CHARS, Field, line, words
from themes.states import NEEDS_YOU

BY = "Raise it by …"
STOP = "Stop here, with what there is"


class CeilingDialog(Dialog[CeilingReply]):
    """Shows the reached ceiling and the agent; the person raises it or lets the agent stop, which is the
    default.
    """

    enters = "raise it"
    leaves = "stop here"
    opens = True

    def __init__(self, request: CeilingAsked, spill: Callable[[str], None] = lambda _text: None) -> None:
        super().__init__(spill)
        self.request = request

    def body(self) -> ComposeResult:
        who = line(self.request.agent, LINE_CHARS)
        yield Static(Content(f"{NEEDS_YOU} {who} cannot continue"), classes="who")
        yield words(line(ceiling_text(self.request), 2 * LINE_CHARS), "text")
        yield words("\n".join(answer_effects(self.request)), "text notes", role="dim")
        yield Choices([raise_label(self.request), BY, STOP], chosen=2)
        field = Field(placeholder=f"how much more, such as {example(self.request.measure)}", compact=True)
        field.display = False
        yield field
        yield Hints()

    def whole(self) -> str:
        who = f"{self.request.agent} cannot continue"
        return "\n\n".join((who, ceiling_text(self.request), "\n".join(answer_effects(self.request))))

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
        ceiling, wrong = parse_increase(event.value, self.request)
        if wrong:
            event.input.value = ""
            event.input.placeholder = wrong
        else:
            self.dismiss(CeilingReply("raised", ceiling))

    def decline(self) -> None:
        self.dismiss(CeilingReply("stopped"))


SEND = "Send them"
ALWAYS = "Send them, and do not ask again in this session"
NO = "Do not send them"
WHY = "Do not send them, and tell why …"
CHOICES = (SEND, ALWAYS, NO, WHY)


class ForecastDialog(Dialog[Decision]):
    """Shows how many agents would be started, their possible cost and their goals. No is the default."""

    enters = "do not send, and tell"
    leaves = "do not send"
    opens = True

    def __init__(self, request: ForecastAsked, spill: Callable[[str], None] = lambda _text: None) -> None:
        super().__init__(spill)
        self.request = request

    def body(self) -> ComposeResult:
        told = [(name, line(text, LINE_CHARS)) for name, text in figures(self.request)]
        goals = [line(goal, LINE_CHARS) for goal in self.request.forecast.goals]
        yield Static(Content(f"{NEEDS_YOU} {line(heading(self.request), LINE_CHARS)}"), classes="who")
        yield words(align_lines(told), "text figures", gutter=2 + max(len(name) for name, _ in told))
        yield words(goal_lines(goals), "text goals", role="dim", gutter=2)
        yield Choices(list(CHOICES), chosen=CHOICES.index(NO))
        field = Field(placeholder="why not, for the agent to read", compact=True)
        field.display = False
        yield field
        yield Hints()

    def whole(self) -> str:
        goals = [f"{at}.\n{goal}" for at, goal in enumerate(self.request.forecast.goals, 1)]
        return "\n\n".join([heading(self.request), align_lines(list(figures(self.request))), *goals])

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        chosen = CHOICES[event.option_index]
        if chosen == WHY:
            field = self.query_one(Input)
            field.display = True
            field.focus()
        elif chosen == NO:
            self.decline()
        else:
            self.dismiss(Decision("once" if chosen == SEND else "session"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(Decision("deny", event.value.strip()))

    def decline(self) -> None:
        self.dismiss(Decision("deny"))


def goal_lines(goals: Sequence[str]) -> str:
    """Return the goals, a line each, without numbers because the choices are numbered. Pure."""
    return "\n".join(f"· {goal}" for goal in goals)

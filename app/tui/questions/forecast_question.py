"""The question for consent to start agents that may cost much."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING, Any

from agent.events import Decision, ForecastAsked
from app.tui.questions import budget_words as budget
from app.tui.questions.approval_words import one_line
from app.tui.questions.question_kind import PlainTerminal, QuestionKind, Spill
from app.tui.questions.typed_replies import decision, read_choice
from themes.states import NEEDS_YOU

if TYPE_CHECKING:
    from app.tui.screens.dialog import Dialog

GOAL = 300
"""Characters of a goal that are shown."""


async def _plain(request: ForecastAsked, terminal: PlainTerminal) -> Decision:
    terminal.say(f"\n{NEEDS_YOU} {budget.heading(request)}:\n")
    for goal in request.forecast.goals:
        terminal.say(f"  - {one_line(goal)[:GOAL]}")
    terminal.say("\n" + indent(budget.align_lines(list(budget.figures(request))), "  ") + "\n")
    choices = [("y", "send"), ("s", "send, and do not ask again"), ("n", "do not")]
    text = await read_choice(terminal, choices, ", or say why not", "sends none")
    return decision(text, lasting="s")


def _dialog(request: ForecastAsked, spill: Spill) -> Dialog[Any]:
    from app.tui.questions.ceiling_dialog import ForecastDialog

    return ForecastDialog(request, spill)


QUESTION = QuestionKind(ForecastAsked, _dialog, _plain, reads=("app.tui.questions.ceiling_dialog",))

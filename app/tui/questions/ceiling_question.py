"""The question about a ceiling that is reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.events import CeilingAsked, CeilingReply
from app.tui.questions import budget_words as budget
from app.tui.questions.question_kind import PlainTerminal, QuestionKind, Spill
from app.tui.questions.typed_replies import read_choice
from themes.states import NEEDS_YOU

if TYPE_CHECKING:
    from app.tui.screens.dialog import Dialog


async def _plain(request: CeilingAsked, terminal: PlainTerminal) -> CeilingReply:
    terminal.say(f"\n{NEEDS_YOU} {request.agent} cannot continue. {budget.ceiling_text(request)}")
    for note in budget.answer_effects(request):
        terminal.say(f"  · {note}")
    label = budget.raise_label(request)
    choices = [("y", label[:1].lower() + label[1:]), ("n", "stop here")]
    more = f", or by how much, such as +{budget.example(request.measure)}"
    while True:
        text = (await read_choice(terminal, choices, more, "stops") or "").lower().removeprefix("+")
        if text in ("y", "yes"):
            return CeilingReply("raised", request.again)
        if text in ("", "n", "no"):
            return CeilingReply("stopped")
        ceiling, wrong = budget.parse_increase(text, request)
        if not wrong:
            return CeilingReply("raised", ceiling)
        terminal.say(f"  {wrong}")


def _dialog(request: CeilingAsked, spill: Spill) -> Dialog[Any]:
    from app.tui.questions.ceiling_dialog import CeilingDialog

    return CeilingDialog(request, spill)


QUESTION = QuestionKind(CeilingAsked, _dialog, _plain, reads=("app.tui.questions.ceiling_dialog",))

"""The question about a ceiling that is reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.events import CeilingAsked, CeilingReply
from app.tui.questions import budget_words as budget
from app.tui.questions.question_kind import PlainTerminal, QuestionKind, Spill
from themes.states import NEEDS_YOU

if TYPE_CHECKING:
    from app.tui.screens.dialog import Dialog


async def _plain(request: CeilingAsked, terminal: PlainTerminal) -> CeilingReply:
    terminal.say(f"\n{NEEDS_YOU} {request.agent} cannot go on. {budget.ceiling_text(request)}")
    for note in budget.answer_effects(request):
        terminal.say(f"  · {note}")
    hint = f"  [y] {budget.raise_label(request)}  [a number] by that much  [N] stop here: "
    while True:
        text = (await terminal.read(hint) or "").lower()
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

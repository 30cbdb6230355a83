"""The question for approval of an action."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.events import ApprovalAsked, Decision
from app.tui.questions.approval_words import lasting_text, one_line, place_text, reach_text, reasons
from app.tui.questions.question_kind import PlainTerminal, QuestionKind, Spill
from app.tui.questions.typed_replies import decision, read_choice
from themes.states import NEEDS_YOU

if TYPE_CHECKING:
    from app.tui.screens.dialog import Dialog


async def _plain(request: ApprovalAsked, terminal: PlainTerminal) -> Decision:
    who = "" if request.agent == "main" else f"{request.agent}: "
    terminal.say(f"\n{NEEDS_YOU} {who}{request.tool} wants to:\n\n{request.headline}\n")
    for facts in filter(None, (request.sentence, place_text(request), reach_text(request))):
        terminal.say(f"  {one_line(facts)}")
    for reason in reasons(request):
        terminal.say(f"  {reason}")
    terminal.say(f"  {lasting_text(request)}")
    lasting = [("s", "for this session"), ("a", "always")] if request.rule else []
    choices = [("y", "allow once"), *lasting, ("n", "deny")]
    text = await read_choice(terminal, choices, ", or say why not", "denies")
    return decision(text, lasting="sa" if request.rule else "")


def _dialog(request: ApprovalAsked, spill: Spill) -> Dialog[Any]:
    from app.tui.questions.approval_dialog import ApprovalDialog

    return ApprovalDialog(request, spill)


QUESTION = QuestionKind(ApprovalAsked, _dialog, _plain, reads=("app.tui.questions.approval_dialog",))

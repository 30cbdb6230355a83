"""The question for approval of an action."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.events import ApprovalAsked, Decision
from app.tui.questions.approval_words import one_line, reach_text, reasons
from app.tui.questions.question_kind import PlainTerminal, QuestionKind, Spill
from app.tui.questions.typed_replies import decision
from themes.states import NEEDS_YOU

if TYPE_CHECKING:
    from app.tui.screens.dialog import Dialog


async def _plain(request: ApprovalAsked, terminal: PlainTerminal) -> Decision:
    who = "" if request.agent == "main" else f"{request.agent}: "
    terminal.say(f"\n{NEEDS_YOU} {who}{request.tool} wants to:\n\n{request.headline}\n")
    if facts := reach_text(request):
        terminal.say(f"  {facts}")
    for reason in reasons(request):
        terminal.say(f"  {reason}")
    lasting = ""
    if request.rule:
        terminal.say(f"  · a yes for the session or always covers: {one_line(request.rule)}")
        lasting = "  [s] for this session  [a] always"
    text = await terminal.read(f"  [y] once{lasting}  [N] deny, or say why not: ")
    return decision(text, lasting="sa" if request.rule else "")


def _dialog(request: ApprovalAsked, spill: Spill) -> Dialog[Any]:
    from app.tui.questions.approval_dialog import ApprovalDialog

    return ApprovalDialog(request, spill)


QUESTION = QuestionKind(ApprovalAsked, _dialog, _plain, reads=("app.tui.questions.approval_dialog",))

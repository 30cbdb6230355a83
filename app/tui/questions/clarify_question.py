"""The question of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.events import QuestionAsked
from app.tui.questions.question_kind import PlainTerminal, QuestionKind, Spill
from themes.states import NEEDS_YOU
from tools.context import PersonAnswer

if TYPE_CHECKING:
    from app.tui.screens.dialog import Dialog


async def _plain(request: QuestionAsked, terminal: PlainTerminal) -> PersonAnswer:
    who = "" if request.agent == "main" else f"{request.agent} asks: "
    terminal.say(f"\n{NEEDS_YOU} {who}{request.question}")
    for number, choice in enumerate(request.choices, 1):
        terminal.say(f"  {number}. {choice}")
    hint = (
        "number" + (" or your own answer" if request.allow_freetext else "") if request.choices else "answer"
    )
    text = await terminal.read(f"  {hint}, empty to decline: ")
    if not text:
        return PersonAnswer("declined")
    if text.isascii() and text.isdigit() and 1 <= int(text) <= len(request.choices):
        return PersonAnswer("answered", request.choices[int(text) - 1])
    if request.choices and not request.allow_freetext:
        return PersonAnswer("declined")
    return PersonAnswer("answered", text)


def _dialog(request: QuestionAsked, spill: Spill) -> Dialog[Any]:
    from app.tui.questions.clarify_dialog import ClarifyDialog

    return ClarifyDialog(request, spill)


QUESTION = QuestionKind(QuestionAsked, _dialog, _plain, reads=("app.tui.questions.clarify_dialog",))

"""Questions from the engine, the model and tool servers: asked on a plain terminal, or in a dialog."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent
from typing import TYPE_CHECKING, Any

from agent.core.event_data import FormReply
from agent.events import (
    ApprovalAsked,
    Asked,
    CeilingAsked,
    CeilingReply,
    Decision,
    ForecastAsked,
    QuestionAsked,
)
from agent.integrations.server_events import FormAsked
from app.tui.questions import budget_words as budget
from app.tui.questions.approval_words import lasting_text, one_line, place_text, reach_text, reasons
from app.tui.questions.question_kind import PasteIntoDraft, PlainTerminal, QuestionKind
from themes.states import NEEDS_YOU
from tools.context import PersonAnswer

if TYPE_CHECKING:
    from agent.integrations.mcp.server_requests import FormField
    from app.tui.screens.dialog import Dialog


async def read_choice(
    terminal: PlainTerminal, choices: Sequence[tuple[str, str]], more: str = "", empty: str = ""
) -> str | None:
    """Ask for one of the letters in `choices`; return the answer as typed, or None at the end of input.

    The last choice is the default. On a terminal with `numbers` the choices are a numbered list, and a number
    is returned as its letter. `more` says what else may be typed, `empty` what an empty answer does.
    """
    if not terminal.numbers:
        letters = [f"[{letter}] {label}" for letter, label in choices[:-1]]
        letters.append(f"[{choices[-1][0].upper()}] {choices[-1][1]}{more}")
        return await terminal.read(f"  {'  '.join(letters)}: ")
    for number, (_, label) in enumerate(choices, 1):
        terminal.say(f"  {number}. {label[:1].upper()}{label[1:]}")
    text = await terminal.read(f"Number{more}; empty {empty}: ")
    given = int(text) if text and text.isascii() and text.isdigit() else 0
    return choices[given - 1][0] if 0 < given <= len(choices) else text


def decision(text: str | None, lasting: str) -> Decision:
    """Parse a typed decision; other text denies and is the reason. `lasting` may hold the letters s and a."""
    match (text or "n").strip().lower():
        case "y" | "yes":
            return Decision("once")
        case "s" if "s" in lasting:
            return Decision("session")
        case "a" | "always" if "a" in lasting:
            return Decision("always")
        case "s" | "a" | "always" | "n" | "no" | "":
            return Decision("deny")
        case _:
            return Decision("deny", (text or "").strip())


async def _ask_approval(request: ApprovalAsked, terminal: PlainTerminal) -> Decision:
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


async def _ask_ceiling(request: CeilingAsked, terminal: PlainTerminal) -> CeilingReply:
    terminal.say(f"\n{NEEDS_YOU} {budget.asker(request)} cannot continue. {budget.ceiling_text(request)}")
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


async def _ask_clarify(request: QuestionAsked, terminal: PlainTerminal) -> PersonAnswer:
    who = "" if request.agent == "main" else f"{request.agent} asks: "
    terminal.say(f"\n{NEEDS_YOU} {who}{request.question}")
    for number, choice in enumerate(request.choices, 1):
        terminal.say(f"  {number}. {choice}")
    own = ", or your own answer" if request.allow_freetext else ""
    hint = f"Number{own}" if request.choices else "Answer"
    text = await terminal.read(f"  {hint}; empty declines: ")
    if not text:
        return PersonAnswer("declined")
    if text.isascii() and text.isdigit() and 1 <= int(text) <= len(request.choices):
        return PersonAnswer("answered", request.choices[int(text) - 1])
    if request.choices and not request.allow_freetext:
        return PersonAnswer("declined")
    return PersonAnswer("answered", text)


GOAL = 300
"""The number of characters of a goal that are shown."""


async def _ask_forecast(request: ForecastAsked, terminal: PlainTerminal) -> Decision:
    terminal.say(f"\n{NEEDS_YOU} {budget.heading(request)}:\n")
    for goal in request.forecast.goals:
        terminal.say(f"  - {one_line(goal)[:GOAL]}")
    terminal.say("\n" + indent(budget.align_lines(list(budget.figures(request))), "  ") + "\n")
    choices = [("y", "send"), ("s", "send, and do not ask again"), ("n", "do not")]
    text = await read_choice(terminal, choices, ", or say why not", "sends none")
    return decision(text, lasting="s")


NO = "!"
"""The answer that declines a form on a plain terminal."""


async def _ask_form(request: FormAsked, terminal: PlainTerminal) -> FormReply:
    from agent.integrations.mcp.server_requests import filled_form

    terminal.say(f"\n{NEEDS_YOU} The MCP server {request.server} asks you: {request.message}")
    texts: dict[str, str] = {}
    for field in request.fields:
        terminal.say(f"  {field.label}{_hint(field)}")
        while True:
            text = await terminal.read(f"  {field.title} (enter for {_otherwise(field)}, {NO} to decline): ")
            if text is None:
                return FormReply("cancelled")
            if text.strip() == NO:
                return FormReply("declined")
            texts[field.name] = text.strip() or field.default_text
            _, wrong = filled_form([field], texts)
            if not wrong:
                break
            terminal.say(f"  {wrong[field.name]}")
    agreed = await read_choice(terminal, [("y", "send it"), ("n", "decline")], empty="declines")
    if (agreed or "").strip().lower() not in ("y", "yes"):
        return FormReply("declined")
    return FormReply("answered", filled_form(request.fields, texts)[0])


def _otherwise(field: FormField) -> str:
    if field.default_text:
        return field.default_text
    return "nothing, though it is needed" if field.required else "nothing"


def _hint(field: FormField) -> str:
    choices = ", ".join(label for _, label in field.choices)
    warning = " ▲ It seems to ask for a secret, which the server will learn." if field.is_secret else ""
    return (f" [{choices}]" if choices else "") + warning


def _make_form(request: FormAsked, paste_into_draft: PasteIntoDraft) -> Dialog[Any]:
    from app.tui.questions.form_dialog import FormDialog

    return FormDialog(request, paste_into_draft)


def _make(request: Asked, paste_into_draft: PasteIntoDraft) -> Dialog[Any]:
    from app.tui.questions import dialogs

    match request:
        case ApprovalAsked():
            return dialogs.ApprovalDialog(request, paste_into_draft)
        case CeilingAsked():
            return dialogs.CeilingDialog(request, paste_into_draft)
        case ForecastAsked():
            return dialogs.ForecastDialog(request, paste_into_draft)
        case QuestionAsked():
            return dialogs.ClarifyDialog(request, paste_into_draft)
        case _:
            raise LookupError(request.type)


_DIALOGS = ("app.tui.questions.dialogs",)
APPROVAL = QuestionKind(ApprovalAsked, _make, _ask_approval, reads=_DIALOGS)
FORM = QuestionKind(FormAsked, _make_form, _ask_form, reads=("app.tui.questions.form_dialog",))
QUESTIONS = (
    APPROVAL,
    QuestionKind(CeilingAsked, _make, _ask_ceiling, reads=_DIALOGS),
    QuestionKind(QuestionAsked, _make, _ask_clarify, reads=_DIALOGS),
    QuestionKind(ForecastAsked, _make, _ask_forecast, reads=_DIALOGS),
    FORM,
)

"""The question with a tool server's form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.core.event_data import FormReply
from agent.integrations.server_events import FormAsked
from app.tui.questions.question_kind import PlainTerminal, QuestionKind, Spill
from app.tui.questions.typed_replies import read_choice
from themes.states import NEEDS_YOU

if TYPE_CHECKING:
    from agent.integrations.mcp.server_requests import FormField
    from app.tui.screens.dialog import Dialog

NO = "!"
"""The answers that decline on a plain terminal."""


async def _plain(request: FormAsked, terminal: PlainTerminal) -> FormReply:
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


def _dialog(request: FormAsked, spill: Spill) -> Dialog[Any]:
    from app.tui.questions.form_dialog import FormDialog

    return FormDialog(request, spill)


QUESTION = QuestionKind(FormAsked, _dialog, _plain, reads=("app.tui.questions.form_dialog",))

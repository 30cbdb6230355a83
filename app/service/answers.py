"""Answers of heads to requests, as the replies that the engine takes. Pure."""

from __future__ import annotations

from typing import Any

from agent.core.event_data import FormReply
from agent.events import (
    ApprovalAsked,
    Asked,
    CeilingAsked,
    CeilingReply,
    Decision,
    ForecastAsked,
    QuestionAsked,
    Reply,
)
from agent.integrations.mcp.server_requests import filled_form
from agent.integrations.server_events import FormAsked
from app.service.credentials import Scope
from app.service.doors import TurnedAwayError
from tools.context import PersonAnswer

LONGEST = 100_000


def scope_of(request: Asked) -> Scope:
    """What a head needs for an answer: a question of the model is a part of the conversation."""
    return "talk" if isinstance(request, QuestionAsked) else "approve"


def reply_of(request: Asked, answer: Any, feedback: str, by: str) -> Reply:
    """The reply. Raises `TurnedAwayError` for what is no answer to this request."""
    match request:
        case QuestionAsked():
            return _said(request, answer)
        case ApprovalAsked():
            allowed = ("once", "session", "always", "deny") if request.rule else ("once", "deny")
            return Decision(_one_of(answer, allowed), feedback, by)
        case ForecastAsked():
            return Decision(_one_of(answer, ("once", "session", "deny")), feedback, by)
        case CeilingAsked():
            if _one_of(answer, ("once", "deny")) == "once":
                return CeilingReply("raised", request.again, by)
            return CeilingReply("stopped", by=by)
        case FormAsked():
            return _filled(request, answer)
        case _:
            raise TurnedAwayError(400, "This kind of request can only be answered in the terminal.")


def _said(request: QuestionAsked, answer: Any) -> PersonAnswer:
    if answer is None:
        return PersonAnswer("declined")
    if not isinstance(answer, str) or not answer.strip() or len(answer) > LONGEST:
        raise TurnedAwayError(400, "The answer to a question is a text, or null for none.")
    text = answer.encode("utf-8", "replace").decode("utf-8")
    if text not in request.choices and request.choices and not request.allow_freetext:
        raise TurnedAwayError(400, "The answer is to be one of the choices.")
    return PersonAnswer("answered", text)


def _filled(request: FormAsked, answer: Any) -> FormReply:
    if answer is None:
        return FormReply("declined")
    if not isinstance(answer, dict):
        raise TurnedAwayError(400, "The answer to a form is an object of texts, or null to decline.")
    texts = {str(name): str(value)[:LONGEST] for name, value in answer.items()}
    values, wrong = filled_form(request.fields, texts)
    if wrong:
        raise TurnedAwayError(400, next(iter(wrong.values())))
    return FormReply("answered", values)


def _one_of(answer: Any, allowed: tuple[str, ...]) -> Any:
    if answer not in allowed:
        raise TurnedAwayError(400, f"The answer is to be one of {', '.join(allowed)}.")
    return answer

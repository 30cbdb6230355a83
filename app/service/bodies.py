"""Request bodies: JSON objects with limits on size and time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request

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

BODY = 1_000_000
"""Bytes of a body."""
ATTACHMENTS = 25_000_000
"""Bytes of a body that brings images."""
BODY_SECONDS = 30.0
DISCARDING = 1.0
"""Seconds in which a body that is too large is read all the same: a client that still sends when its
connection is closed never sees the refusal.
"""


async def json_body(request: Request, most: int = BODY) -> dict[str, Any]:
    """Return the JSON object in a request's body, of at most `most` bytes. Raises `TurnedAwayError`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise TurnedAwayError(415, "The body must be application/json.")
    return parse_object(await body_of(request, most))


async def body_of(request: Request, most: int) -> bytes:
    """Return a request's body, of at most `most` bytes. Raises `TurnedAwayError`."""
    length = request.headers.get("content-length", "")
    is_large = length.isdigit() and int(length) > most
    if is_large and "expect" in request.headers:  # nothing is sent yet
        raise _too_large(most)
    data = bytearray()
    try:
        async with asyncio.timeout(DISCARDING if is_large else BODY_SECONDS) as limit:
            async for piece in request.stream():
                if not is_large and len(data) + len(piece) > most:
                    is_large = True
                    limit.reschedule(asyncio.get_running_loop().time() + DISCARDING)
                if not is_large:
                    data += piece
    except TimeoutError:
        if is_large:
            raise _too_large(most) from None
        raise TurnedAwayError(408, "The body took too long.") from None
    except ClientDisconnect:
        raise TurnedAwayError(400, "The body broke off.") from None
    if is_large:
        raise _too_large(most)
    return bytes(data)


def _too_large(most: int) -> TurnedAwayError:
    return TurnedAwayError(413, f"The body is larger than {most:,} bytes.")


def parse_object(data: bytes | str) -> dict[str, Any]:
    """Parse a JSON object. Raises `TurnedAwayError` for anything else."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise TurnedAwayError(400, "The body is not JSON.") from None
    if not isinstance(found, dict):
        raise TurnedAwayError(400, "The body must be a JSON object.")
    return found


def text_of(data: Mapping[str, Any], name: str, default: str | None = None, most: int = 400_000) -> str:
    """Return the text in a field of an object, with lone surrogates replaced.

    Returns `default` if the field is missing. Raises `TurnedAwayError` for another type, or above `most`
    characters.
    """
    value = data.get(name, default)
    if not isinstance(value, str):
        raise TurnedAwayError(400, f"`{name}` must be a text.")
    if len(value) > most:
        raise TurnedAwayError(413, f"`{name}` is longer than {most:,} characters.")
    return value.encode("utf-8", "replace").decode("utf-8")


def only(data: Mapping[str, Any], *names: str) -> None:
    """Raise `TurnedAwayError` for fields other than `names`, so that a misspelt name is noticed."""
    for name in data:
        if name not in names:
            raise TurnedAwayError(400, f"`{str(name)[:40]}` is not known here; there is {', '.join(names)}.")


LONGEST = 100_000


def scope_of(request: Asked) -> Scope:
    """Return the scope that a device needs to answer a request. A question of the model needs only
    conversation.
    """
    return "talk" if isinstance(request, QuestionAsked) else "approve"


def reply_of(request: Asked, answer: Any, feedback: str, by: str) -> Reply:
    """Convert the answer to a pending request into a reply.

    Raises `TurnedAwayError` for an invalid answer.
    """
    match request:
        case QuestionAsked():
            return _person_answer(request, answer)
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
            return _form_reply(request, answer)
        case _:
            raise TurnedAwayError(400, "This kind of request can only be answered in the terminal.")


def _person_answer(request: QuestionAsked, answer: Any) -> PersonAnswer:
    if answer is None:
        return PersonAnswer("declined")
    if not isinstance(answer, str) or not answer.strip() or len(answer) > LONGEST:
        raise TurnedAwayError(400, "The answer to a question is a text, or null for none.")
    text = answer.encode("utf-8", "replace").decode("utf-8")
    if text not in request.choices and request.choices and not request.allow_freetext:
        raise TurnedAwayError(400, "The answer must be one of the choices.")
    return PersonAnswer("answered", text)


def _form_reply(request: FormAsked, answer: Any) -> FormReply:
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
        raise TurnedAwayError(400, f"The answer must be one of {', '.join(allowed)}.")
    return answer

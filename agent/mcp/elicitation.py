"""Forms and addresses that a server asks a person for, put as questions of Hermes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from agent.errors import ConfigError
from agent.mcp.forms import FormField, form_defaults, form_fields
from tools.context import Asker
from tools.safe_text import clean, reveal

LONGEST = 2_000
"""Characters of a server's message that are shown."""
_SEND, _DECLINE, _SKIP, _OPENED = "Fill it in", "Decline", "Leave it out", "Done, go on"
_TRIES = 3


async def asked_of_person(asker: Asker, server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a person answers: `action` (accept, decline, cancel) and `content`."""
    message = clean(str(params.get("message") or ""))[:LONGEST]
    if params.get("mode") == "url":
        return await _address(asker, server, message, str(params.get("url") or ""))
    schema = params.get("requestedSchema")
    return await _form(asker, server, message, form_fields(schema if isinstance(schema, Mapping) else {}))


def with_defaults(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer of somebody who agrees and changes nothing; an address is declined."""
    if params.get("mode") == "url":
        return {"action": "decline"}
    schema = params.get("requestedSchema")
    return {"action": "accept", "content": form_defaults(schema if isinstance(schema, Mapping) else {})}


async def _address(asker: Asker, server: str, message: str, url: str) -> Mapping[str, Any]:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return {"action": "decline"}
    question = (
        f"The MCP server {server} asks you to open a page of {parts.hostname} in your browser.\n{message}\n\n"
        f"{reveal(url)}"
    )
    answer = await asker.ask(question, (_OPENED, _DECLINE), False)
    return {"action": _action(answer.outcome, answer.text)}


async def _form(asker: Asker, server: str, message: str, fields: tuple[FormField, ...]) -> Mapping[str, Any]:
    wanted = ", ".join(field.label.partition(":")[0] for field in fields) or "nothing but a yes"
    first = await asker.ask(
        f"The MCP server {server} asks you: {message}\nIt wants to know: {wanted}.", (_SEND, _DECLINE), False
    )
    if (action := _action(first.outcome, first.text)) != "accept":
        return {"action": action}
    content: dict[str, Any] = {}
    for field in fields:
        outcome, value = await _value(asker, server, field)
        if outcome != "accept":
            return {"action": outcome}
        if value is not None:
            content[field.name] = value
    return {"action": "accept", "content": content}


async def _value(asker: Asker, server: str, field: FormField) -> tuple[str, Any]:
    """How the question for one field ended, and its value; None where it is left out."""
    choices, free = _choices(field)
    problem = "It seems to ask for a secret, which the server will learn.\n" if field.is_secret else ""
    for _ in range(_TRIES):
        answer = await asker.ask(f"{problem}{field.label} (for {server})", choices, free)
        action = _action(answer.outcome, answer.text)
        if action != "accept":
            return action, None
        if answer.text == _SKIP:
            return "accept", None
        if field.default is not None and answer.text == _default(field):
            return "accept", field.default
        try:
            return "accept", field.value(answer.text)
        except ConfigError as error:
            problem = f"{error}\n"
    return "cancel", None


def _choices(field: FormField) -> tuple[tuple[str, ...], bool]:
    """What is offered to choose from, and whether something else may be typed."""
    own: tuple[str, ...] = ()
    if field.kind == "choice":
        own = tuple(label for _, label in field.choices)
    elif field.kind == "yes-no":
        own = ("yes", "no")
    default = _default(field)
    first = (default,) if default and default not in own else ()
    skip = () if field.required else (_SKIP,)
    return (*first, *own, *skip, _DECLINE), not own


def _default(field: FormField) -> str:
    if field.default is None:
        return ""
    if field.kind == "yes-no":
        return "yes" if field.default is True else "no"
    if field.kind == "choice":
        return next((label for value, label in field.choices if value == field.default), "")
    if isinstance(field.default, list):
        return ", ".join(clean(str(each)) for each in field.default)
    return clean(str(field.default))[:200]


def _action(outcome: str, text: str) -> str:
    if outcome == "answered":
        return "decline" if text == _DECLINE else "accept"
    return "decline" if outcome == "declined" else "cancel"

"""Forms and addresses that a server asks a person for, put as questions of Hermes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

from agent.core.event_data import FormReply
from agent.integrations.mcp.forms import FormField, form_defaults, form_fields
from tools.context import Asker
from tools.text.safe_text import clean, reveal

LONGEST = 2_000
"""Characters of a server's message that are shown."""
_DECLINE, _OPENED = "Decline", "Done, go on"


class FormAsker(Asker, Protocol):
    """The way to a person who may fill in a form."""

    async def fill_in(self, server: str, message: str, fields: Sequence[FormField]) -> FormReply: ...


async def asked_of_person(asker: FormAsker, server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
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


async def _address(asker: FormAsker, server: str, message: str, url: str) -> Mapping[str, Any]:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return {"action": "decline"}
    question = (
        f"The MCP server {server} asks you to open a page of {parts.hostname} in your browser.\n{message}\n\n"
        f"{reveal(url)}"
    )
    answer = await asker.ask(question, (_OPENED, _DECLINE), False)
    return {"action": _action(answer.outcome, answer.text)}


async def _form(
    asker: FormAsker, server: str, message: str, fields: tuple[FormField, ...]
) -> Mapping[str, Any]:
    reply = await asker.fill_in(server, message, fields)
    match reply.outcome:
        case "answered":
            return {"action": "accept", "content": dict(reply.values)}
        case "declined":
            return {"action": "decline"}
    return {"action": "cancel"}


def _action(outcome: str, text: str) -> str:
    if outcome == "answered":
        return "decline" if text == _DECLINE else "accept"
    return "decline" if outcome == "declined" else "cancel"

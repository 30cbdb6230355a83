"""The tool `send_message`: a text to a target of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.context import ToolContext
from tools.registry import Arguments, registry
from tools.results import Display, TextDetail
from tools.safe_text import clean
from tools.senses.services import until_ready


async def send_message(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Handler of the tool."""
    target, text = str(arguments["target"]), str(arguments["text"])
    return dict(await context.senses.send(target, text, str(arguments.get("title") or ""), context.permit))


def describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    """`send to phone · delivered`."""
    subject = clean(f"to {arguments.get('target', '')}")
    detail = TextDetail(clean(str(arguments.get("text", ""))))
    if result is None:
        return Display("send", subject, "", detail)
    return Display("send", subject, clean(str(result.get("error") or "delivered")), detail)


registry.register(
    name="send_message",
    toolset="messaging",
    emoji="✉",
    schema={
        "description": "Send a message to a person or service by the name of a target of the settings.",
        "parameters": {
            "type": "object",
            "properties": {
                "target": {"type": "string"},
                "text": {"type": "string"},
                "title": {"type": "string"},
            },
            "required": ["target", "text"],
        },
    },
    handler=send_message,
    check_fn=until_ready,
    describe=describe,
    place=85,
    bundles=("default",),
)

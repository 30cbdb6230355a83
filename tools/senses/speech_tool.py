"""The tools `text_to_speech` and `transcribe`: text to sound, and sound to text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.context import ToolContext
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, TextDetail, ToolError, error_text
from tools.senses.keeping import keep, read_file
from tools.senses.services import Senses, until_ready
from tools.senses.spoken import LONGEST, spoken
from tools.text.safe_text import clean
from tools.text.words import plural

SPEAK, HEAR = "text_to_speech", "transcribe"
LARGEST_SOUND = 25_000_000
"""The size limit in bytes of a recording, as in the services."""


async def text_to_speech(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Handle a call of the tool `text_to_speech`."""
    text = spoken(str(arguments["text"]))
    if not text:
        raise ToolError("There is nothing in this text that can be read aloud.")
    if len(text) > LONGEST:
        raise ToolError(f"The text has {len(text):,} characters; {LONGEST:,} can be read in one piece.")
    made = await context.service(Senses).speak(text, str(arguments.get("voice") or ""), context.permit)
    name = await keep(context, SPEAK, made, str(arguments.get("path") or ""), "audio", text)
    result: dict[str, Any] = {"audio": name, "by": made.by, "bytes": len(made.data)}
    if made.note:
        result["note"] = made.note
    if made.cost is not None:
        result["cost_usd"] = made.cost
    return result


async def transcribe(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Handle a call of the tool `transcribe`."""
    data, name = await read_file(context, HEAR, str(arguments["path"]), LARGEST_SOUND)
    return dict(
        await context.service(Senses).transcribe(
            data, name, str(arguments.get("language") or ""), context.permit
        )
    )


def _describe_speak(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    subject = clean(" ".join(str(arguments.get("text", "")).split()))[:80]
    if result is None or result.get("error"):
        return Display("speak", subject, error_text(result))
    return Display("speak", subject, clean(f"{result.get('audio', '')}, {result.get('by', '')}"))


def _describe_hear(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    subject = clean(str(arguments.get("path", "")))
    if result is None or result.get("error"):
        return Display("hear", subject, error_text(result))
    text = clean(str(result.get("text", "")))
    return Display("hear", subject, f"{plural(len(text.split()), 'word')}", TextDetail(text))


registry.register(
    name=SPEAK,
    toolset="tts",
    schema=tool_schema(
        "Read a text aloud into a sound file.",
        "text",
        text={"type": "string"},
        voice={"type": "string"},
        path={
            "type": "string",
            "description": "Where to keep it; else in audio/.",
        },
    ),
    handler=text_to_speech,
    check_fn=until_ready,
    describe=_describe_speak,
    place=82,
    bundles=("default",),
)

registry.register(
    name=HEAR,
    toolset="tts",
    schema=tool_schema(
        "Write down what is said in a sound file.",
        "path",
        path={"type": "string"},
        language={
            "type": "string",
            "description": "Two letters, such as en; found out otherwise.",
        },
    ),
    handler=transcribe,
    check_fn=until_ready,
    describe=_describe_hear,
    read_only=True,
    place=83,
    bundles=("default",),
)

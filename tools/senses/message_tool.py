"""The tool `send_message`: sends a text to a configured target, and files to chats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.context import ToolContext
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, TextDetail, ToolError
from tools.senses.keeping import read_file
from tools.senses.services import MessageFile, Senses, until_ready
from tools.text.safe_text import clean
from tools.text.words import one_line

NAME = "send_message"
LARGEST = 25_000_000
"""The size limit in bytes of all files of one message."""
_LONGEST_NAME = 120


async def send_message(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Handle a call of the tool `send_message`."""
    target, text, title = (str(arguments.get(name) or "") for name in ("target", "text", "title"))
    files = await _read(arguments.get("files") or (), context)
    return dict(await context.service(Senses).send(target, text, title, context.permit, files))


async def _read(paths: Sequence[str], context: ToolContext) -> list[MessageFile]:
    """Read the files of the workspace that are to be sent. Raises `ToolError`."""
    files: list[MessageFile] = []
    room = LARGEST
    for path in dict.fromkeys(paths):
        data, name = await read_file(context, NAME, path, LARGEST, inside=True)
        room -= len(data)
        if room < 0:
            raise ToolError(f"The files have more than {LARGEST // 1_000_000} MB in all; send fewer at once.")
        shown = path if Path(path).name == name else f"{path} → {name}"
        files.append(MessageFile(one_line(shown), one_line(name)[-_LONGEST_NAME:], data))
    return files


def describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    """Return a display such as `send to phone · delivered`."""
    subject = clean(f"to {arguments.get('target', '')}")
    files = arguments.get("files")
    lines = [str(arguments.get("text") or ""), *(files if isinstance(files, list) else ())]
    detail = TextDetail(clean("\n".join(str(each) for each in lines if each)))
    if result is None:
        return Display("send", subject, "", detail)
    return Display("send", subject, clean(str(result.get("error") or "delivered")), detail)


registry.register(
    name=NAME,
    toolset="messaging",
    schema=tool_schema(
        (
            "Send a message, with files where it is a chat, to a target of the settings; `here` is the chat "
            "that you are in."
        ),
        "target",
        "text",
        target={"type": "string"},
        text={"type": "string"},
        title={"type": "string"},
        files={
            "type": "array",
            "items": {"type": "string"},
            "maxItems": 10,
            "description": "Paths in the workspace.",
        },
    ),
    handler=send_message,
    check_fn=until_ready,
    describe=describe,
    place=85,
    bundles=("default",),
)

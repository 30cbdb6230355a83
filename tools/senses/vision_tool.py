"""The tool `vision_analyze`: examines a picture."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from tools.context import ToolContext
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, TextDetail, ToolError, error_text
from tools.senses.keeping import read_file
from tools.senses.pictures import LARGEST_FILE
from tools.senses.services import Senses, until_ready
from tools.text.safe_text import clean

NAME = "vision_analyze"
USUAL = "Describe what this picture shows, with all text in it."


async def vision_analyze(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Handle a call of the tool `vision_analyze`."""
    source = str(arguments["image"]).strip()
    question = str(arguments.get("question") or "").strip() or USUAL
    data, name = await load_picture(source, context)
    return dict(await context.service(Senses).analyze(data, name, question, context.permit))


async def load_picture(source: str, context: ToolContext) -> tuple[bytes, str]:
    """Return bytes and a name of a picture given by path, address or `data:`. Raises `ToolError`."""
    kind = source[:8].lower()
    if kind.startswith("data:"):
        return await asyncio.to_thread(_inline, source), "inline picture"
    if kind.startswith(("http://", "https://")):
        data = await context.service(Senses).fetch(source, NAME, context.permit)
        return data, source.partition("?")[0].rpartition("/")[2] or "picture"
    path = unquote_to_bytes(source[7:]).decode("utf-8", "replace") if kind.startswith("file://") else source
    return await read_file(context, NAME, path, LARGEST_FILE)


def _inline(source: str) -> bytes:
    head, comma, body = source[5:].partition(",")
    if not comma:
        raise ToolError("This data: address holds nothing; write data:image/png;base64,….")
    if len(body) > LARGEST_FILE * 4 // 3 + 4:
        raise ToolError(f"The picture has more than {LARGEST_FILE // 1_000_000} MB; scale it down.")
    if not head.lower().endswith(";base64"):
        return unquote_to_bytes(body)
    try:
        return base64.b64decode(unquote_to_bytes(body), validate=True)
    except (binascii.Error, ValueError):
        raise ToolError("What stands in this data: address is not base64.") from None


def describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    """Return a display such as `look chart.png · text by OCR`."""
    source = clean(" ".join(str(arguments.get("image", "")).split()))
    subject = "inline picture" if source.startswith("data:") else source[-80:]
    if result is None or result.get("error"):
        return Display("look", subject, error_text(result))
    detail = str(result.get("analysis") or result.get("text") or "")
    seen = source if source.partition(":")[0].lower() not in ("http", "https", "data", "file") else ""
    found = TextDetail(clean(detail)) if detail else None
    return Display("look", subject, clean(str(result.get("by", ""))), found, seen)


registry.register(
    name=NAME,
    toolset="vision",
    schema=tool_schema(
        "Look at a picture: a path, an http(s) address or a data: address.",
        "image",
        image={"type": "string", "description": "Path, address or data: of the picture."},
        question={"type": "string", "description": "What you want to know of it."},
    ),
    handler=vision_analyze,
    check_fn=until_ready,
    describe=describe,
    read_only=True,
    place=80,
    bundles=("default",),
)

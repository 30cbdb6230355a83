"""`canvas`: shows a drawing, a plot or a small page next to the conversation."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any
from xml.parsers import expat

from tools.context import ToolContext
from tools.kit.lazy_pattern import lazy_pattern
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, TextDetail, ToolError, error_text
from tools.senses.keeping import read_file
from tools.services.canvases import Canvas, CanvasBoard, CanvasKind, result_of
from tools.text.safe_text import clean
from tools.text.words import one_line

LARGEST = 2_000_000
"""The size limit in bytes of a canvas."""
NAME = lazy_pattern(r"[\w.-]{1,60}")
BY_ENDING: Mapping[str, CanvasKind] = {
    ".html": "html",
    ".htm": "html",
    ".svg": "svg",
    ".png": "image",
    ".jpg": "image",
    ".jpeg": "image",
    ".gif": "image",
    ".webp": "image",
}
_IMAGES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF")


async def canvas(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Show, change, revert or close a canvas."""
    name, action = arguments["name"].strip(), arguments["action"]
    if not NAME.fullmatch(name):
        raise ToolError("The name of a canvas is 1 to 60 letters, digits, dots, hyphens or underscores.")
    board = context.service(CanvasBoard)
    match action:
        case "undo":
            return result_of(board.undo(name))
        case "close":
            board.close(name)
            return result_of(Canvas(name, ()))
        case "edit":
            known, kind, content = await _edit_canvas(name, arguments, context)
            title = _line(arguments.get("title") or known.versions[-1].title)
            words = arguments.get("alt") or known.versions[-1].words
        case _:
            kind, content = await _read_content(arguments, context)
            title, words = _line(arguments.get("title") or name), arguments.get("alt") or ""
    if len(content) > LARGEST:
        raise ToolError(f"A canvas shows at most {LARGEST // 1_000_000} MB; this is {len(content):,} bytes.")
    if kind == "svg":
        await asyncio.to_thread(_check_drawing, content)
    return result_of(await board.show(name, title, kind, content, clean(words)[:2_000]))


async def _read_content(arguments: Arguments, context: ToolContext) -> tuple[CanvasKind, bytes]:
    content, path = arguments.get("content") or "", arguments.get("path") or ""
    if bool(content) == bool(path):
        raise ToolError("Give `content` (HTML or SVG) or the `path` of a file that holds it, one of them.")
    if path:
        kind = BY_ENDING.get(PurePath(path).suffix.lower())
        if kind is None:
            raise ToolError(f"A canvas shows files that end with {', '.join(BY_ENDING)}.")
        data, _ = await read_file(context, "canvas", path, LARGEST)
        if kind == "image" and not data.startswith(_IMAGES):
            raise ToolError("This file is not a png, jpeg, gif or webp image.")
        return kind, data
    return _kind_of(content), content.encode("utf-8", "replace")


def _kind_of(content: str) -> CanvasKind:
    """Return `svg` if a text begins with that tag, and `html` otherwise."""
    head = re.sub(r"\A\s*(<\?xml.*?\?>\s*|<!--.*?-->\s*|<!DOCTYPE svg[^>]*>\s*)*", "", content, flags=re.S)
    return "svg" if re.match(r"<svg[\s>]", head, re.I) else "html"


def _check_drawing(content: bytes) -> None:
    """Raise `ToolError` if an SVG is not XML, because browsers do not draw it. Blocking."""
    try:
        expat.ParserCreate().Parse(content, True)
    except expat.ExpatError as error:
        said, _, place = str(error).partition(": ")
        raise ToolError(
            f"This SVG is not well-formed XML, so no browser draws it: {said} at {place}."
        ) from None


async def _edit_canvas(
    name: str, arguments: Arguments, context: ToolContext
) -> tuple[Canvas, CanvasKind, bytes]:
    board = context.service(CanvasBoard)
    known = next((each for each in board.canvases() if each.name == name), None)
    if known is None:
        raise ToolError(f"There is no canvas {name}; show it first.")
    last, old = known.versions[-1], arguments.get("old") or ""
    if last.kind == "image":
        raise ToolError("An image is not edited as text; show another one.")
    text = (await board.read(last)).decode("utf-8", "replace")
    count = text.count(old) if old else 0
    if count != 1:
        found = "is not in it" if not count else f"is in it {count} times"
        raise ToolError(f"`old` {found}; give a piece of canvas {name} that is there exactly once.")
    return known, last.kind, text.replace(old, arguments.get("new") or "").encode("utf-8", "replace")


def _line(text: str) -> str:
    return one_line(text)[:100]


def _describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    name = _line(str(arguments.get("title") or arguments.get("name") or ""))
    if result is None or result.get("error"):
        return Display("canvas", name, error_text(result))
    content = arguments.get("content") or arguments.get("new")
    detail = TextDetail(clean(str(content)), "html") if content else None
    if not result.get("version"):
        return Display("canvas", name, "closed", detail)
    told = f"/canvas opens it · version {result['version']} · {result['size']:,} bytes"
    return Display("canvas", _line(str(result["title"])), told, detail)


registry.register(
    name="canvas",
    toolset="canvas",
    schema=tool_schema(
        (
            "Show a drawing, plot or small page: self-contained HTML or SVG as content, or an image file. "
            "The same name updates it; edit puts new in place of old."
        ),
        "name",
        name={"type": "string"},
        action={"type": "string", "enum": ["show", "edit", "undo", "close"], "default": "show"},
        content={"type": "string"},
        path={"type": "string"},
        title={"type": "string"},
        alt={"type": "string"},
        old={"type": "string"},
        new={"type": "string"},
    ),
    handler=canvas,
    describe=_describe,
    bundles=("default",),
    traits=("whole_session",),
    place=46,
)

"""The tool `read_file`: a window of numbered lines of a text file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.context import FileMemory, SeenFile, ToolContext
from tools.files.access import Access, explain, missing
from tools.files.editor_text import readable_copy
from tools.files.scanning import CUT_LINE, MAX_LINE_CHARS, BinaryFile, Window, scan
from tools.kit.files import NotAFileError
from tools.kit.threads import in_thread
from tools.registry import registry, tool_schema
from tools.results import Display, TextDetail, ToolError
from tools.services.editor import EditorSide
from tools.text.words import plural

NAME = "read_file"
DEFAULT_LIMIT, MAX_LIMIT = 500, 2000
MAX_CHARS = 100_000
"""The content limit of one result in characters."""
_LISTED = 50

SCHEMA: dict[str, Any] = tool_schema(
    (
        "Read a text file, rather than with cat, head or sed, as lines `N|line`; the number is not part "
        "of the file."
    ),
    "path",
    path={"type": "string"},
    offset={"type": "integer", "minimum": 0, "default": 1},
    limit={
        "type": "integer",
        "minimum": 1,
        "default": DEFAULT_LIMIT,
        "description": f"Lines, at most {MAX_LIMIT}.",
    },
)


async def read_file(args: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
    """Handle a call of the tool `read_file`. See `SCHEMA`."""
    access = await asyncio.to_thread(Access, ctx, NAME)
    path = await asyncio.to_thread(access.target, args["path"])
    name = access.name(path)
    # Many models count from 0: the first line is meant.
    offset, limit = max(args.get("offset", 1), 1), min(args.get("limit", DEFAULT_LIMIT), MAX_LIMIT)
    await access.permit_read(path)
    note = ""
    try:
        source, note = await readable_copy(ctx.service(EditorSide), path, ctx.scratch)
        window = await in_thread(lambda stop: scan(source, offset, limit, stop))
    except FileNotFoundError:
        if note:
            raise ToolError(note) from None
        raise await asyncio.to_thread(missing, path, name, ctx.workspace) from None
    except NotAFileError as error:
        if error.kind == "folder":
            raise await asyncio.to_thread(_is_folder, path, name) from None
        raise explain(error, f"read {name}") from None
    except OSError as error:
        raise explain(error, f"read {name}") from error
    if isinstance(window, BinaryFile):
        raise ToolError(f"{name} is a {window.kind}; its bytes cannot be shown as text.")
    shown = _format_window(window, name, offset, limit)
    result = _unchanged(ctx, path, name, window.digest, offset, limit) or shown
    return {**result, "note": note} if note else result


def _unchanged(
    ctx: ToolContext, path: Path, name: str, digest: str, offset: int, limit: int
) -> dict[str, Any] | None:
    """Return a short result if the model was already shown these lines and the file is the same.

    Returns None otherwise. Records the read.
    """
    files = ctx.service(FileMemory)
    seen = files.seen_file(path)
    if seen is None or (seen.digest, seen.offset, seen.limit) != (digest, offset, limit):
        files.show(path, SeenFile(digest, offset, limit))
        return None
    seen = replace(seen, repeats=seen.repeats + 1)
    files.show(path, seen)
    message = f"{name} has not changed since you read these lines; they are in the conversation above."
    if seen.repeats > 1:
        message = (
            f"You asked for these lines of {name} {seen.repeats + 1} times and they have not changed. "
            "Do not read them again: use what is in the conversation above, or read other lines."
        )
    return {"status": "unchanged", "path": name, "message": message}


def _format_window(window: Window, name: str, offset: int, limit: int) -> dict[str, Any]:
    total = window.total_lines
    if not window.lines and offset > 1:
        size = "fewer lines" if total is None else plural(total, "line")
        raise ToolError(f"Line {offset} is past the end: {name} has {size}.", total_lines=total)
    shown = _numbered(window.lines, offset)
    last = offset + len(shown) - 1
    truncated = total is None or last < total
    result: dict[str, Any] = {
        "path": name,
        "content": "\n".join(shown),
        "total_lines": total,
        "file_size": window.size,
        "truncated": truncated,
    }
    if window.encoding != "utf-8":
        result["encoding"] = window.encoding
    if window.crlf:
        result["line_ends"] = "crlf"
    if truncated:
        result["truncated_by"] = "characters" if len(shown) < len(window.lines) else "lines"
        result["next_offset"] = last + 1
        of = f"of {total} " if total is not None else ""
        result["hint"] = f"Lines {offset}–{last} {of}are shown; continue with offset={last + 1}."
    elif not total:
        result["hint"] = "The file is empty."
    if CUT_LINE.search(result["content"]):
        result["cut_lines"] = (
            f"Lines are shown up to {MAX_LINE_CHARS:,} characters. Find what is behind with search, read it "
            "in the terminal (`cut -c`), and change it with patch: write_file would lose it."
        )
    return result


def _numbered(lines: list[str], offset: int) -> list[str]:
    """Return numbered lines, as many as `MAX_CHARS` allows."""
    shown: list[str] = []
    used = 0
    for number, line in enumerate(lines, offset):
        text = f"{number}|{line}"
        used += len(text) + 1
        if used > MAX_CHARS:
            break
        shown.append(text)
    return shown


def _is_folder(path: Path, name: str) -> ToolError:
    try:
        entries = sorted(entry.name + "/" * entry.is_dir() for entry in os.scandir(path))
    except OSError as error:
        return explain(error, f"list {name}")
    more = f" and {len(entries) - _LISTED} more" if len(entries) > _LISTED else ""
    return ToolError(
        f"{name} is a folder{more and f' with {len(entries)} entries'}; name a file in it.",
        entries=entries[:_LISTED],
    )


def describe(args: dict[str, Any], result: Mapping[str, Any] | None) -> Display:
    """Return a display such as `read src/money.py 1–80 · 80 lines`."""
    offset, limit = args.get("offset", 1), args.get("limit")
    subject = str(args.get("path", ""))
    offset = max(offset, 1) if isinstance(offset, int) else 1
    if result is None:
        last = f" {offset}–{offset + limit - 1}" if isinstance(limit, int) else ""
        return Display("read", subject + last)
    if "error" in result:
        return Display("read", subject, str(result["error"]))
    if result.get("status") == "unchanged":
        return Display("read", subject, "unchanged")
    content = str(result.get("content", ""))
    count = content.count("\n") + 1 if content else 0
    if not count:
        return Display("read", subject, "empty")
    summary = plural(count, "line")
    return Display("read", f"{subject} {offset}–{offset + count - 1}", summary, TextDetail(content))


registry.register(
    NAME,
    "file",
    SCHEMA,
    read_file,
    describe=describe,
    read_only=True,
    place=20,
    bundles=("default", "safe", "debugging"),
    traits=("for_scripts",),
)

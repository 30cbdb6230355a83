"""The tool `write_file`: creates a file or replaces all of its content."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.context import FileMemory, ToolContext
from tools.files.access import Access, explain
from tools.files.committing import ChangedMeanwhile, commit
from tools.files.diffs import MAX_DIFF_CHARS, TextDiff, diff_texts, shorten_diff
from tools.files.editor_text import send_to_editor
from tools.files.matching import is_read_display
from tools.files.planning import OnDisk, Write, new_text
from tools.files.scanning import (
    CUT_LINE,
    MAX_LINE_CHARS,
    digest_of,
    remember_written,
    stat_digest,
    warning_before_change,
)
from tools.files.syntax import check_syntax
from tools.files.text_files import TextFile, decode, to_newlines
from tools.kit.files import MAX_WHOLE_BYTES, entry_status, read_bytes, require_file
from tools.registry import registry, tool_schema
from tools.results import DiffDetail, Display, ToolError, error_text
from tools.services.diagnostics import Diagnostics, edit_of
from tools.services.editor import EditorSide

NAME = "write_file"
TRIES = 3
_DIFFED_BYTES = 5_000_000
_NEW_DIFF_CHARS = 2_000
# Tables in which lines may well begin with a number and a bar.
_TABLES = (".csv", ".psv", ".tsv", ".tbl", ".dat")

SCHEMA: dict[str, Any] = tool_schema(
    (
        "Create a file and its folders, or replace its whole content. For changes to parts of a file use "
        "patch."
    ),
    "path",
    "content",
    path={"type": "string"},
    content={"type": "string"},
)


def without_patch(schema: dict[str, Any], on_offer: frozenset[str]) -> dict[str, Any]:
    """Return the schema without the sentence about `patch` if that tool is not offered."""
    if "patch" in on_offer:
        return schema
    return {**schema, "description": schema["description"].partition(" For changes")[0]}


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A prepared write, and notes about it."""

    write: Write
    diff: TextDiff | None
    notes: tuple[str, ...]
    warning: str | None


async def write_file(args: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
    """Handle a call of the tool `write_file`. See `SCHEMA`."""
    access = await asyncio.to_thread(Access, ctx, NAME)
    text, content = args["path"], args["content"]
    path = await asyncio.to_thread(access.target, text)
    if text.endswith("/"):
        raise ToolError(f"{text} names a folder; add the name of the file.")
    if is_read_display(content) and path.suffix.lower() not in _TABLES:
        raise ToolError("The content holds the line numbers read_file shows; send it without `N|`.")
    try:
        existed = await asyncio.to_thread(_exists, path)
    except OSError as error:
        raise explain(error, f"write {access.name(path)}") from error
    await access.permit_write(path, creates=not existed)
    for _ in range(TRIES):
        prepared = await asyncio.to_thread(_prepare, path, content, ctx, access)
        try:
            folders = await asyncio.to_thread(commit, (prepared.write,), access.name)
        except ChangedMeanwhile:
            continue
        return await _finished(prepared, folders, ctx, access)
    raise ToolError(f"{access.name(path)} keeps changing on disk; nothing was written. Try again later.")


def _exists(path: Path) -> bool:
    status = entry_status(path)
    if status is not None:
        require_file(status)
    return status is not None


def _prepare(path: Path, content: str, ctx: ToolContext, access: Access) -> _Prepared:
    """Prepare the bytes with the byte-order mark and line endings of the old file. Raises `ToolError`."""
    name = access.name(path)
    new = new_text(content)
    try:
        before = _before(path)
    except OSError as error:
        raise explain(error, f"write {name}") from error
    if before is None:
        diff = diff_texts("", new.text, "/dev/null", f"b/{name}")
        return _Prepared(Write(path, new.encode()), diff, (), None)
    warning = _warning(ctx, path, before, name)
    if before.data is None:
        return _Prepared(Write(path, new.encode(), before), None, (), warning)
    old = decode(before.data)
    if (cut := CUT_LINE.search(new.text)) and max(map(len, old.text.split("\n"))) > MAX_LINE_CHARS:
        raise ToolError(
            f"The content holds `{cut.group().strip()}`, which read_file shows for the rest of a long "
            f"line of {name}; nothing was written. Change that file with patch."
        )
    fitted, notes = _fit(old, new)
    diff = None
    if len(before.data) <= _DIFFED_BYTES:
        diff = diff_texts(old.text, fitted.text, f"a/{name}", f"b/{name}")
    return _Prepared(Write(path, fitted.encode(), before), diff, notes, warning)


def _before(path: Path) -> OnDisk | None:
    status = entry_status(path)
    if status is None:
        return None
    require_file(status)
    if status.st_size > MAX_WHOLE_BYTES:
        return OnDisk(status)
    data, status = read_bytes(path)
    return OnDisk(status, data)


def _warning(ctx: ToolContext, path: Path, before: OnDisk, name: str) -> str | None:
    files = ctx.service(FileMemory)
    if files.seen_file(path) is None:
        return f"{name} existed and you had not read it; its former content is replaced."
    digest = stat_digest(before.status) if before.data is None else digest_of(before.data, before.status)
    return warning_before_change(files, path, digest, name)


def _fit(old: TextFile, new: TextFile) -> tuple[TextFile, tuple[str, ...]]:
    """Return `new` with properties of `old` that the model plainly meant to keep, and notes about these."""
    notes: list[str] = []
    text, ends = new.text, new.ends
    if old.line_ends == "crlf" and new.line_ends == "lf" and new.ends:
        ends = b"\1" * len(new.ends)
        notes.append("The file's CRLF line ends were kept.")
    if old.mark and not new.mark:
        notes.append(f"The file's encoding {old.encoding} with its byte-order mark was kept.")
        return TextFile(text, ends, old.encoding, old.mark), tuple(notes)
    if old.encoding != "utf-8" and not old.mark and not new.mark:
        kept = TextFile(text, ends, old.encoding)
        try:
            kept.encode()
        except ToolError:
            notes.append(f"The file was encoded in {old.encoding} and is UTF-8 now.")
        else:
            notes.append(f"The file's encoding {old.encoding} was kept.")
            return kept, tuple(notes)
    return TextFile(text, ends, new.encoding, new.mark), tuple(notes)


async def _finished(
    prepared: _Prepared, folders: list[Path], ctx: ToolContext, access: Access
) -> dict[str, Any]:
    write = prepared.write
    notes = [*prepared.notes]
    await asyncio.to_thread(_remember, ctx, write)
    notes += await send_to_editor(ctx.service(EditorSide), (write,), access.name)
    result: dict[str, Any] = {
        "path": access.name(write.path),
        "bytes_written": len(write.data),
        "created": write.before is None,
    }
    if folders:
        result["dirs_created"] = [access.name(folder) for folder in folders]
    if prepared.warning:
        result["warning"] = prepared.warning
    if notes:
        result["note"] = " ".join(notes)
    if prepared.diff is not None:
        result["added"], result["removed"] = prepared.diff.added, prepared.diff.removed
        # The model knows the content of a file it has just made.
        limit = _NEW_DIFF_CHARS if write.before is None else MAX_DIFF_CHARS
        result["diff"] = shorten_diff(prepared.diff.text, limit)
    lint = await check_syntax(write.path, write.data)
    if lint is not None:
        result["lint"] = lint
    edit = edit_of(write.path, None if write.before is None else write.before.data, write.data)
    if edit is not None and (found := await ctx.service(Diagnostics).after([edit])):
        result["diagnostics"] = found
    return result


def _remember(ctx: ToolContext, write: Write) -> None:
    status = entry_status(write.path)
    if status is not None:
        remember_written(ctx.service(FileMemory), write.path, write.data, status)


def describe(args: dict[str, Any], result: Mapping[str, Any] | None) -> Display:
    """Return a display such as `write src/money.py · +6 −3`, with the diff as detail."""
    subject = str(args.get("path", ""))
    if result is None or result.get("error"):
        return Display("write", subject, error_text(result))
    subject = str(result.get("path", subject))
    if "diff" not in result:
        return Display("write", subject, f"{result.get('bytes_written', 0)} bytes")
    summary = f"+{result.get('added', 0)} −{result.get('removed', 0)}"
    diff = str(result["diff"])
    if result.get("created"):
        summary = f"new, {summary}"
        whole = diff_texts("", to_newlines(str(args.get("content", ""))), "/dev/null", f"b/{subject}")
        diff = shorten_diff(whole.text)
    return Display("write", subject, summary, DiffDetail(diff))


registry.register(
    NAME,
    "file",
    SCHEMA,
    write_file,
    describe=describe,
    patch=without_patch,
    place=21,
    bundles=("default", "debugging"),
    traits=("for_scripts",),
)

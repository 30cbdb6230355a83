"""The tool `search`: finds lines or files below a folder."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tools.context import ToolContext
from tools.files.access import Access, explain, missing, printable
from tools.files.searching import (
    MAX_HITS,
    Engine,
    FileHits,
    SearchEnding,
    SearchRequest,
    ignore_rules,
    is_glob,
    matcher,
    records,
    split_root,
)
from tools.kit.files import entry_status, require_file
from tools.kit.threads import in_thread
from tools.registry import registry, tool_schema
from tools.results import Display, TextDetail, ToolError, error_text
from tools.text.words import plural

NAME = "search"
DEFAULT_LIMIT, MAX_LIMIT = 50, 500
MAX_CONTEXT = 20
MAX_PATTERN = 20_000
"""The character limit of a pattern; more than four times as many bytes cannot be passed to a program."""
MAX_FILES = 200_000
"""Files after which a list of files ends."""
_NOTHING = "Nothing found. Binary, .git and gitignored files were left out."

SCHEMA: dict[str, Any] = tool_schema(
    (
        "Find text or files, rather than with grep, find or ls. target=content: a regular expression in the "
        "lines of files. target=files: a glob (`src/**/test_*`) or part of a path, newest first. "
        "Leaves out binary and gitignored files."
    ),
    "pattern",
    pattern={"type": "string"},
    target={"type": "string", "enum": ["content", "files"], "default": "content"},
    path={"type": "string", "default": "."},
    file_glob={"type": "string", "description": "Such as `*.{ts,tsx}` or `!*.min.js`."},
    limit={"type": "integer", "minimum": 1, "default": DEFAULT_LIMIT},
    offset={"type": "integer", "minimum": 0, "default": 0},
    output_mode={
        "type": "string",
        "enum": ["content", "files_only", "count"],
        "default": "content",
    },
    context={"type": "integer", "minimum": 0, "default": 0, "description": "Lines around a hit."},
)


@dataclass(frozen=True, slots=True)
class _Search:
    """One search, ready to run."""

    request: SearchRequest
    file_glob: str
    offset: int
    limit: int
    output_mode: str
    engine: Engine | None = None


async def search(args: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
    """Handle a call of the tool `search`. See `SCHEMA`."""
    access = await asyncio.to_thread(Access, ctx, NAME)
    pattern = args["pattern"]
    file_glob = args.get("file_glob") or ""
    if not pattern or not _is_plain(pattern + file_glob):
        raise ToolError("The pattern is empty or holds what is not text; give the text or glob to look for.")
    if len(pattern) > MAX_PATTERN or len(file_glob) > MAX_PATTERN:
        raise ToolError(f"The pattern has more than {MAX_PATTERN:,} characters; look for a part of it.")
    root = await asyncio.to_thread(access.target, args.get("path") or ".")
    name = access.name(root)
    await access.permit_read(root)
    if not await asyncio.to_thread(_exists, root, name):
        raise await asyncio.to_thread(missing, root, name, ctx.workspace)
    wants_files = args.get("target") == "files"
    if not await asyncio.to_thread(root.is_dir):
        file_glob = ""
    prepared = _Search(
        SearchRequest(
            root,
            None if wants_files else pattern,
            tuple(ignore_rules(file_glob)) if file_glob else (),
            min(args.get("context", 0), MAX_CONTEXT),
        ),
        file_glob=file_glob,
        offset=args.get("offset", 0),
        limit=min(args.get("limit", DEFAULT_LIMIT), MAX_LIMIT),
        output_mode=args.get("output_mode", "content"),
        engine=ctx.options.get("files.search_engine"),
    )

    def find(search: _Search, stop: threading.Event) -> dict[str, Any]:
        return (
            _find_files(search, pattern, access, stop) if wants_files else _find_lines(search, access, stop)
        )

    try:
        result = await in_thread(lambda stop: find(prepared, stop))
        if result.get("hint") == _NOTHING and (wants_files or root != ctx.workspace):
            # "Nothing" about a place or a name that was asked for would be taken for "there is no such file".
            wider = replace(prepared, request=replace(prepared.request, ignored=True))
            ignored = await in_thread(lambda stop: find(wider, stop))
            if ignored["total_count"]:
                hint = "Only gitignored files match."
                result = {**ignored, "hint": f"{hint} {ignored.get('hint', '')}".strip()}
    except OSError as error:
        raise explain(error, f"search {name}") from error
    if await asyncio.to_thread(os.path.realpath, root) != str(root):
        raise ToolError(f"{name} was swapped for a link during the search; nothing is shown.")
    return result


def _exists(root: Path, name: str) -> bool:
    """Return whether a path exists. Raises `ToolError` if reading it could block forever, as with a FIFO."""
    try:
        status = entry_status(root)
        if status is not None and not stat.S_ISDIR(status.st_mode):
            require_file(status)
        return status is not None
    except OSError as error:
        raise explain(error, f"search {name}") from error


def _is_plain(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _prefix(access: Access, base: Path) -> str:
    """Return the prefix for paths relative to the folder `base`."""
    folder = access.name(base)
    return "" if folder == "." else folder.rstrip("/") + "/"


def _find_lines(search: _Search, access: Access, stop: threading.Event) -> dict[str, Any]:
    base = split_root(search.request.root)[0]
    by_file = search.output_mode != "content"
    hits = FileHits(
        0 if by_file else search.offset,
        0 if by_file else search.limit,
        search.request.context,
        prefix=_prefix(access, base),
        accepts=lambda path: not access.guard.hides(base / path),
    )
    if search.file_glob:
        hits.fits = matcher(search.file_glob)
    ending = SearchEnding()
    try:
        with closing(records(search.request, ending, stop, search.engine)) as stream:
            if not hits.take_all(stream):
                ending.incomplete = f"it was stopped after {MAX_HITS} hits"
    except ToolError as error:
        raise _invalid(error, search.request.pattern or "") from None
    result: dict[str, Any] = {"total_count": hits.total, "files_with_matches": len(hits.counts)}
    if by_file:
        names = list(hits.counts)[search.offset : search.offset + search.limit]
        if search.output_mode == "count":
            result["counts"] = {name: hits.counts[name] for name in names}
        else:
            result["files"] = names
        shown, available = len(names), len(hits.counts)
    else:
        result["matches"] = [hit.to_json() for hit in hits.shown]
        shown, available = len(hits.shown), hits.total
    return _with_notes(result, search.offset, shown, available, hits.omitted, ending)


def _find_files(search: _Search, pattern: str, access: Access, stop: threading.Event) -> dict[str, Any]:
    base = split_root(search.request.root)[0]
    fits = matcher(pattern) if is_glob(pattern) else _containing(pattern)
    also = matcher(search.file_glob) if search.file_glob else lambda path: True
    found: list[tuple[int, str]] = []
    ending = SearchEnding()
    with closing(records(search.request, ending, stop, search.engine)) as stream:
        for record in stream:
            path = os.fsdecode(record).removeprefix("./")
            if path and fits(path) and also(path):
                found.append((-_changed_at(base / path), path))
                if len(found) >= MAX_FILES:
                    ending.incomplete = f"it was stopped after {MAX_FILES} files"
                    break
    found.sort()
    page = found[search.offset : search.offset + search.limit]
    result: dict[str, Any] = {
        "total_count": len(found),
        "files": [_prefix(access, base) + printable(path) for _, path in page],
    }
    return _with_notes(result, search.offset, len(page), len(found), 0, ending)


def _containing(part: str) -> Any:
    folded = part.removeprefix("./").lower()
    return lambda path: folded in path.lower()


def _changed_at(path: Path) -> int:
    try:
        return path.lstat().st_mtime_ns
    except OSError:
        return 0


def _with_notes(
    result: dict[str, Any], offset: int, shown: int, available: int, omitted: int, ending: SearchEnding
) -> dict[str, Any]:
    hints: list[str] = []
    more = offset + shown < available
    result["truncated"] = more or bool(ending.incomplete)
    if more and shown:
        result["next_offset"] = offset + shown
        hints.append(f"{shown} of {available} shown; continue with offset={offset + shown}.")
    elif available and (more or (offset and not shown)):
        hints.append(f"There are only {available} results; use a smaller offset.")
    if ending.incomplete:
        result["incomplete"] = True
        hints.append(f"The search is incomplete: {ending.incomplete}. {ending.advice}")
    if ending.left_out:
        hints.append(f"Not counted: {plural(ending.left_out, 'hit')} in extremely long lines.")
    if omitted:
        result["omitted"] = omitted
        hints.append(f"{plural(omitted, 'hit')} in files with credentials not shown.")
    if not available and not hints:
        hints.append(_NOTHING)
    if hints:
        result["hint"] = " ".join(hints)
    return result


def _invalid(error: ToolError, pattern: str) -> ToolError:
    reason = " ".join(str(error).split())
    return ToolError(
        f"The pattern is not a valid regular expression ({reason}). To find this very text, escape it.",
        literal=re.escape(pattern),
    )


def describe(args: dict[str, Any], result: Mapping[str, Any] | None) -> Display:
    """Return a display such as `search "round(" in src · 14 hits in 6 files`."""
    where = args.get("path") or "."
    subject = f'"{args.get("pattern", "")}"' + (f" in {where}" if where != "." else "")
    if result is None or result.get("error"):
        return Display("search", subject, error_text(result))
    total = int(result.get("total_count", 0))
    if "files_with_matches" in result:
        files = int(result["files_with_matches"])
        summary = f"{plural(total, 'hit')} in {plural(files, 'file')}" if total else "no hits"
    else:
        summary = plural(total, "file") if total else "no files"
    if result.get("incomplete"):
        summary += ", incomplete"
    return Display("search", subject, summary, TextDetail(_listing(result)))


def _listing(result: Mapping[str, Any]) -> str:
    if "matches" in result:
        return "\n".join(f"{hit['path']}:{hit['line']}: {hit['content']}" for hit in result["matches"])
    if "counts" in result:
        return "\n".join(f"{path}: {count}" for path, count in result["counts"].items())
    return "\n".join(result.get("files", ()))


registry.register(
    NAME,
    "file",
    SCHEMA,
    search,
    describe=describe,
    read_only=True,
    aliases=("search_files",),
    place=23,
    bundles=("default", "safe", "debugging"),
    traits=("for_scripts",),
)

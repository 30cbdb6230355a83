"""Ledger of read files: path, content, lines and why, so that they need not be read again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent.core.store.nodes import Node
from agent.knowledge.context.persons_words import is_persons
from tools.context import SeenFile
from tools.text.safe_text import clean
from tools.text.words import shorten

SHOWN = "shown"
"""Where the node of a result names the lines of files that are in it."""

WHY = 80
"""Characters of a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLines:
    """Lines of a file in one result."""

    path: str
    digest: str
    """SHA-256 of the whole file, in hex."""
    first: int
    last: int
    limit: int
    """Lines that were asked for, which may be more than there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """One file as it was read last."""

    path: str
    digest: str
    ranges: tuple[tuple[int, int], ...]
    """First and last line of each part, in order."""
    why: str
    node: int
    """The result that shows it."""
    reads: int = 1
    """How often its unchanged content was read."""


def lines_shown(seen: Mapping[Path, SeenFile], count: int) -> list[dict[str, Any]]:
    """What a node keeps of the lines in its result, of which there are `count`."""
    return [
        {
            "path": str(path),
            "sha256": each.digest,
            "first": each.offset,
            "last": each.offset + max(count, 1) - 1,
            "limit": each.limit,
        }
        for path, each in seen.items()
        if each.offset and not each.repeats
    ]


def shown_in(node: Node) -> tuple[FileLines, ...]:
    """The lines of files in a result."""
    kept = node.data.get(SHOWN)
    if node.kind != "tool" or not isinstance(kept, list):
        return ()
    try:
        return tuple(
            FileLines(
                path=str(each["path"]),
                digest=str(each["sha256"]),
                first=int(each["first"]),
                last=int(each["last"]),
                limit=int(each["limit"]),
            )
            for each in kept
        )
    except (KeyError, TypeError, ValueError):
        return ()


def read_files(path: Sequence[Node], known: Iterable[ReadFile] = ()) -> list[ReadFile]:
    """The files that were read, the one read last at the end. Pure.

    `known` are those of an earlier compaction: it knows why, where the nodes do not say it any more.
    """
    reasons = {each.path: each.why for each in known}
    found: dict[str, ReadFile] = {}
    why = asked = ""
    for node in path:
        if is_persons(node):
            asked = _line(node.content)
        elif node.kind == "assistant" and node.data.get("calls"):
            why = _line(node.content) or asked or why
        for lines in shown_in(node):
            before = found.pop(lines.path, None)
            reason = why or reasons.get(lines.path, "")
            found[lines.path] = _with(before, lines, reason, node.id)
    return list(found.values())


def _with(before: ReadFile | None, lines: FileLines, why: str, node: int) -> ReadFile:
    here = (lines.first, lines.last)
    if before is None or before.digest != lines.digest:
        return ReadFile(path=lines.path, digest=lines.digest, ranges=(here,), why=why, node=node)
    again = here in before.ranges
    ranges = before.ranges if again else tuple(sorted((*before.ranges, here)))
    return replace(
        before, ranges=ranges, node=node, reads=before.reads + again, why=before.why if again else why
    )


def recorded_files(files: Iterable[ReadFile]) -> list[dict[str, Any]]:
    """Files as JSON; `files_of` reads it."""
    return [
        {
            "path": each.path,
            "sha256": each.digest,
            "ranges": [list(lines) for lines in each.ranges],
            "why": each.why,
            "node": each.node,
            "reads": each.reads,
        }
        for each in files
    ]


def files_of(data: Mapping[str, Any]) -> tuple[ReadFile, ...]:
    """The files a compaction carries; none where they cannot be read."""
    try:
        return tuple(
            ReadFile(
                path=str(each["path"]),
                digest=str(each["sha256"]),
                ranges=tuple((int(first), int(last)) for first, last in each["ranges"]),
                why=str(each["why"]),
                node=int(each["node"]),
                reads=int(each["reads"]),
            )
            for each in data.get("files", ())
        )
    except (KeyError, TypeError, ValueError):
        return ()


def ledger_line(file: ReadFile) -> str:
    """One file as the model reads it."""
    parts = ", ".join(f"{first}–{last}" for first, last in file.ranges)
    why = f": {file.why}" if file.why else ""
    return f"- {file.path} (lines {parts}; sha256 {file.digest[:12]}; id {file.node}){why}"


def _line(text: str) -> str:
    line = next((line for line in clean(text).splitlines() if line.strip()), "")
    line = " ".join(line.split())
    return shorten(line, WHY)

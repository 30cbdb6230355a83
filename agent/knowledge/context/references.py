"""References with `@` in a message: files, folders, changes, commits, pages. Only parses text.

Forms: `@PATH`, `@PATH:10-20`, `@"a b.txt"`, `@file:PATH`, `@folder:PATH/`, `@diff`, `@staged`, `@git:3`,
`@url:https://…`, `@server:URI` (a resource of an MCP server). After `@` and `@file:` a path may be quoted and
followed by lines. A plain `@PATH` counts only if the file exists, which the caller checks. Nothing inside a
block of code is a reference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tools.kit.lazy_pattern import lazy_pattern

Kind = Literal["file", "folder", "diff", "staged", "git", "url", "resource"]

MOST_COMMITS = 10
"""The largest number of commits that `@git:N` shows."""
MOST = 50
"""The maximum number of references read in one message."""
MOST_PLAIN = 500
"""The maximum number of plain mentions checked in one message; most may be handles or decorators."""

_KINDS: tuple[Kind, ...] = ("file", "folder", "git", "url")
_QUOTED = r'"[^"\n]*"|\'[^\'\n]*\'|`[^`\n]*`'
_PATTERN = lazy_pattern(
    rf"(?<![\w/@.])@(?:(?P<bare>diff|staged)\b(?![:/\w-]|\.\w)|"
    rf"(?P<kind>file|folder|git|url):(?P<target>(?:{_QUOTED})(?::\d+(?:-\d+)?)?|\S+)|"
    r"(?P<server>[A-Za-z0-9][\w.-]{0,63}):(?P<uri>[A-Za-z][A-Za-z0-9+.-]*:\S+)|"
    rf"(?P<plain>(?:{_QUOTED})(?::\d+(?:-\d+)?)?|[^\s@\"'`]\S*))"
)
_FENCE = lazy_pattern(
    r"^[ \t]*(?P<quote>(?:>[ \t]*)*)(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?P<mark>`{3,}|~{3,})(?P<rest>[^\n]*)$",
    re.MULTILINE,
)
_NOT_QUOTED = lazy_pattern(r"^(?![ \t]*>)", re.MULTILINE)
_LINES = lazy_pattern(r"^(?P<path>.+?):(?P<first>\d+)(?:-(?P<last>\d+))?$", re.DOTALL)
_CLOSING = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference. `start` and `end` are its offsets in the message."""

    kind: Kind
    target: str
    """A path, an address, or the number of commits; empty for changes."""
    start: int
    end: int
    first: int | None = None
    """The first line, from 1; None for the whole file."""
    last: int | None = None
    server: str = ""
    """The MCP server of a resource; empty for other kinds."""
    plain: bool = False
    """Whether it is written as `@PATH`, which is only a word if there is no such file."""


def references(text: str, plain: bool = False) -> tuple[Reference, ...]:
    """Return up to `MOST` references in a message, in order; with `plain` also mentions like `@PATH`."""
    found: list[Reference] = []
    room = {False: MOST, True: MOST_PLAIN if plain else 0}
    blocks = code_blocks(text)
    block = 0
    for match in _PATTERN.finditer(text):
        while block < len(blocks) and blocks[block][1] <= match.start():
            block += 1
        if block < len(blocks) and blocks[block][0] <= match.start():
            continue
        reference = _read(match)
        if reference is not None and room[reference.plain]:
            room[reference.plain] -= 1
            found.append(reference)
            if not any(room.values()):
                break
    return tuple(found)


def code_blocks(text: str) -> tuple[tuple[int, int], ...]:
    """Return the offsets of fenced code, fences included. An unclosed block extends to the end. Pure."""
    blocks: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    end = len(text)
    for fence in _FENCE.finditer(text):
        if opened is not None and fence.start() >= end:
            blocks.append((opened.start(), end))
            opened = None
        if opened is None:
            # A block in a quotation ends with it.
            after = _NOT_QUOTED.search(text, fence.end() + 1) if fence["quote"] else None
            end = after.start() if after is not None else len(text)
            if fence["mark"][0] != "`" or "`" not in fence["rest"]:
                opened = fence
        elif fence["mark"].startswith(opened["mark"]) and not fence["rest"].strip():
            blocks.append((opened.start(), fence.end()))
            opened = None
    return (*blocks, (opened.start(), end)) if opened is not None else tuple(blocks)


def without_references(text: str, found: tuple[Reference, ...]) -> str:
    """Return the message without its references, for models that receive the referenced contents
    separately.
    """
    pieces: list[str] = []
    at = 0
    for reference in found:
        pieces.append(text[at : reference.start])
        at = reference.end
    pieces.append(text[at:])
    return re.sub(r"[ \t]{2,}", " ", "".join(pieces)).strip()


def _read(match: re.Match[str]) -> Reference | None:
    start = match.start()
    if match["bare"]:
        return Reference("diff" if match["bare"] == "diff" else "staged", "", start, match.end())
    if match["server"]:
        uri = _trimmed(match["uri"])
        return Reference("resource", uri, start, match.start("uri") + len(uri), server=match["server"])
    plain = match["plain"] is not None
    kind, raw = ("file", match["plain"]) if plain else (match["kind"], match["target"])
    if raw[0] in "\"'`" and (quoted := re.match(_QUOTED, raw)) is not None:
        path, rest = quoted.group()[1:-1], raw[quoted.end() :]
        lines = re.match(r":(\d+)(?:-(\d+))?$", rest) if kind == "file" else None
        end = start + match.group().index(raw) + (len(raw) if lines or not rest else quoted.end())
        first, last = _range(lines[1], lines[2]) if lines else (None, None)
        found = Reference(_kind(kind), path, start, end, first, last, plain=plain)
        return found if path.strip() else None
    target = _trimmed(raw)
    end = start + match.group().index(raw) + len(target)
    if not target:
        return None
    if kind == "git":
        if not target.isascii() or not target.isdigit():
            return None
        return Reference("git", str(max(1, min(int(target[:9]), MOST_COMMITS))), start, end)
    if kind == "url":
        return Reference("url", target, start, end)
    if kind == "folder":
        return Reference("folder", target, start, end)
    lines = _LINES.match(target)
    if lines is None:
        return Reference("file", target, start, end, plain=plain)
    first, last = _range(lines["first"], lines["last"])
    return Reference("file", lines["path"], start, end, first, last, plain=plain)


def _kind(name: str) -> Kind:
    return next(kind for kind in _KINDS if kind == name)


def _range(first: str, last: str | None) -> tuple[int, int]:
    """Return the lower and the higher of two line numbers; 0 counts as the first line."""
    low = max(1, int(first[:9]))
    high = low if last is None else max(1, int(last[:9]))
    return min(low, high), max(low, high)


def _trimmed(target: str) -> str:
    """Return the target without trailing punctuation; a closing bracket stays if the target also opens it."""
    while target:
        end = target[-1]
        if end in ",.;:!?…'\"`>" or (end in _CLOSING and target.count(_CLOSING[end]) < target.count(end)):
            target = target[:-1]
        else:
            break
    return target

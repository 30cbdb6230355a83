"""Cutting long markdown into messages that a platform takes: at paragraphs, code fences kept whole. Pure.

A fence that fits one message is never torn; one that does not is closed at the cut and opened again with its
language behind it. Nothing but the added fences, and blanks at a cut, is lost or added.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.integrations.gateways.adapter import Unit

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")


def length(text: str, unit: Unit) -> int:
    """The length as a platform counts it."""
    if unit == "bytes":
        return len(text.encode("utf-8", "replace"))
    if unit == "utf16":
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return len(text)


def chunks(text: str, limit: int, unit: Unit = "characters") -> list[str]:
    """The messages, in order; none for a text without anything to see."""
    found: list[str] = []
    current = ""
    for block in _blocks(text.strip("\n")):
        if length(current + block, unit) <= limit:
            current += block
            continue
        if current.strip():
            found.append(current)
        current = ""
        for piece in _pieces(block, limit, unit):
            if current:
                found.append(current)
            current = piece
    found.append(current)
    return [each.strip("\n").rstrip() for each in found if each.strip()]


def _blocks(text: str) -> Iterator[str]:
    """Whole fences, and the paragraphs between them with the blank lines behind them."""
    block: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line.rstrip("\n"))
        if fence:
            block.append(line)
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                yield "".join(block)
                block, fence = [], ""
            continue
        if mark and not (mark[1][0] == "`" and "`" in mark[2]):
            if block:
                yield "".join(block)
            block, fence = [line], mark[1]
            continue
        if block and not block[-1].strip() and line.strip():
            yield "".join(block)
            block = []
        block.append(line)
    if block:
        yield "".join(block)


def _pieces(block: str, limit: int, unit: Unit) -> Iterator[str]:
    """One block in pieces that fit."""
    if length(block, unit) <= limit:
        yield block
        return
    lines = block.splitlines(keepends=True)
    mark = _FENCE.match(lines[0].rstrip("\n"))
    if mark is None:
        yield from _filled(lines, limit, unit)
        return
    opening, closing = lines[0], mark[1]
    is_closed = len(lines) > 1 and lines[-1].strip() == closing
    room = limit - length(opening, unit) - length(closing, unit) - 2
    if room < limit // 4:
        # A line behind the fence that is itself long: it is no language.
        yield from _filled(lines, limit, unit)
        return
    for piece in _filled(lines[1 : -1 if is_closed else None], room, unit):
        yield opening + piece.rstrip("\n") + "\n" + closing + "\n"


def _filled(lines: list[str], limit: int, unit: Unit) -> Iterator[str]:
    current = ""
    for line in lines:
        for part in _cut(line, limit, unit):
            if current and length(current + part, unit) > limit:
                yield current
                current = ""
            current += part
    if current:
        yield current


def _cut(line: str, limit: int, unit: Unit) -> Iterator[str]:
    """A line that is too long, cut at blanks where there are any."""
    while length(line, unit) > limit:
        end = _fitting(line, limit, unit)
        blank = line.rfind(" ", end // 2, end)
        end = blank + 1 if blank > 0 else end
        yield line[:end]
        line = line[end:]
    yield line


def _fitting(text: str, limit: int, unit: Unit) -> int:
    """How many characters of a text fit; one at least."""
    low, high = 1, min(len(text), limit)
    while low < high:
        middle = (low + high + 1) // 2
        if length(text[:middle], unit) <= limit:
            low = middle
        else:
            high = middle - 1
    return low

"""Grapheme clusters of a text and their width in terminal cells.

A cluster is what users perceive as a character: a letter with its accents, an emoji with its joiners, a
pair of flag letters. Offsets are code points, widths are cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rich.cells import split_graphemes

TAB_CELLS = 4
"""The cells of a tab, in any column."""

_WINDOW = 64
_FLAG_LETTERS = range(0x1F1E6, 0x1F200)
_NO_LABELS: Mapping[str, str] = {}


class Cluster(NamedTuple):
    """One character of a line: its start, end, width in cells, and displayed text."""

    start: int
    end: int
    cells: int
    shown: str


def clusters(line: str, labels: Mapping[str, str] = _NO_LABELS) -> list[Cluster]:
    """Return the characters of a line without line feeds. `labels` maps code points to displayed text."""
    if line.isascii() and "\t" not in line:
        return [Cluster(at, at + 1, 1, character) for at, character in enumerate(line)]
    found: list[Cluster] = []
    # Rich gives a tab no width and would join it to the character before.
    for start, end, cells in split_graphemes(line.replace("\t", " "))[0]:
        first = line[start]
        if first == "\t":
            found.append(Cluster(start, end, TAB_CELLS, " " * TAB_CELLS))
        elif first in labels:
            found.append(Cluster(start, end, split_graphemes(labels[first])[1], labels[first]))
        elif found and _is_flag(first) and _is_half_flag(line, found[-1]):
            half = found.pop()
            found.append(Cluster(half.start, end, half.cells + cells, line[half.start : end]))
        else:
            found.append(Cluster(start, end, cells, line[start:end]))
    return found


def width(line: str, labels: Mapping[str, str] = _NO_LABELS) -> int:
    """Return the cells of a line."""
    return sum(cluster.cells for cluster in clusters(line, labels))


def offset_after(text: str, at: int) -> int:
    """Return the offset after the character at `at`; at most the end of the text."""
    if at >= len(text):
        return len(text)
    piece = text[at : at + _WINDOW]
    if piece[0] == "\n" or (piece[:2].isascii()):
        return at + 1
    return at + clusters(piece.split("\n", 1)[0])[0].end


def offset_before(text: str, at: int) -> int:
    """Return the offset of the character that ends at `at`; at least 0."""
    if at <= 0:
        return 0
    if text[max(at - 1, 0) : at + 1].isascii():
        return at - 1
    start = text.rfind("\n", max(at - _WINDOW, 0), at) + 1 or max(at - _WINDOW, 0)
    if start == at:
        return at - 1
    return start + clusters(text[start:at])[-1].start


def clamp(text: str, at: int) -> int:
    """Clamp `at` to the text and to the start of its character."""
    at = min(max(at, 0), len(text))
    if at in (0, len(text)) or text[at - 1 : at + 1].isascii() or "\n" in text[at - 1 : at + 1]:
        return at
    start = text.rfind("\n", max(at - _WINDOW, 0), at) + 1 or max(at - _WINDOW, 0)
    for cluster in clusters(text[start : at + _WINDOW].split("\n", 1)[0]):
        if start + cluster.end > at:
            return start + cluster.start
    return at


def _is_flag(character: str) -> bool:
    return ord(character) in _FLAG_LETTERS


def _is_half_flag(line: str, cluster: Cluster) -> bool:
    return cluster.end - cluster.start == 1 and _is_flag(line[cluster.start])

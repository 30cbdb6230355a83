"""Emoji of several characters in terminal output: the text after them is positioned by its column.

Terminals disagree about the width of a joined family, a skin tone or a flag: 2 cells in some, up to 8 in
others. So a cluster is drawn over blanks of the assumed width, and the cursor is then placed after them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, split_graphemes

from tools.kit.lazy_pattern import lazy_pattern

_LETTERS = [chr(code) for code in range(0x1F1E6, 0x1F200)]
_MARKS = ("\u200d", "\ufe0f", *map(chr, range(0x1F3FB, 0x1F400)), *_LETTERS)
"""The characters that occur in such emoji: joiner, emoji form, skin tones, and letters of flags."""
_MARK = lazy_pattern(f"[{''.join(_MARKS)}]")
_PART = lazy_pattern(
    r"\x1b\[(?P<row>\d*);?(?P<column>\d*)H|\x1b\[(?P<values>[0-?]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b[\]P_^X][^\x1b\x07]*(?:\x1b\\|\x07)|\x1b.|[\x00-\x1f]|(?P<text>[^\x00-\x1f]+)",
    re.DOTALL,
)
_ROW = lazy_pattern(r"(?=\x1b\[\d*;?\d*H)")
_PIECE = lazy_pattern(r"[#*0-9]?[^\x00-\x7f]+|[\x00-\x7f]+?(?=[#*0-9]?[^\x00-\x7f]|$)", re.DOTALL)
_FLAG = lazy_pattern(f"[{_LETTERS[0]}-{_LETTERS[-1]}]")
_STANDS = "mhlJKXu"
"""Final characters of sequences that leave the cursor where it is."""


def has_clusters(text: str) -> bool:
    """Return whether text may contain emoji of several characters. Fast for text without them."""
    return not text.isascii() and any(mark in text for mark in _MARKS)


def place_clusters(drawn: str) -> str:
    """Return terminal output in which the text after an emoji of several characters is positioned explicitly.

    Only text whose column is known is changed: text after a cursor address in the same row.
    """
    if not has_clusters(drawn):
        return drawn
    return "".join(_place_in_row(row) if _MARK.search(row) else row for row in _ROW.split(drawn))


def _place_in_row(drawn: str) -> str:
    done: list[str] = []
    column: int | None = None
    parts = list(_PART.finditer(drawn))
    for at, part in enumerate(parts):
        text = part["text"]
        if text is None:
            done.append(part[0])
            if part["column"] is not None:
                column = int(part["column"] or 1)
            elif part["final"] == "G":
                column = int(part["values"] or 1)
            elif len(part[0]) == 1 or (part["final"] or "m") not in _STANDS:
                column = None
        elif column is None or not _MARK.search(text):
            done.append(text)
            column = None if column is None else column + cell_len(text)
        else:
            done.append(_place(text, column, _cells_after(parts, at)))
            column += cell_len(text)
    return "".join(done)


def _cells_after(parts: list[re.Match[str]], at: int) -> int:
    """Return how many cells of the same row are written after a part."""
    cells = 0
    for part in parts[at + 1 :]:
        if part["text"] is not None:
            cells += cell_len(part["text"])
        elif part["column"] is not None or len(part[0]) == 1:
            break
    return cells


def _place(text: str, column: int, after: int) -> str:
    done: list[str] = []
    left = cell_len(text) + after
    for piece in _PIECE.findall(text):
        spans = [(0, len(piece), len(piece))] if piece.isascii() else split_graphemes(piece)[0]
        for cluster, width in _clusters(piece, spans):
            left -= width
            if width and len(cluster) > 1 and _MARK.search(cluster):
                widest = sum(2 if ord(each) > 0xFFFF else cell_len(each) for each in cluster)
                if widest - width > left:
                    cluster = cluster[0]  # nothing that follows would cover what a terminal draws beyond it
                done.append(f"{' ' * width}\x1b[{column}G{cluster}\x1b[{column + width}G")
            else:
                done.append(cluster)
            column += width
    return "".join(done)


def _clusters(text: str, spans: list[tuple[int, int, int]]) -> Iterator[tuple[str, int]]:
    """Yield each unit that is drawn as one, with its width: a grapheme, or the two letters of a flag."""
    flag, cells = "", 0
    for start, end, width in spans:
        each = text[start:end]
        if _FLAG.fullmatch(each):
            flag, cells = flag + each, cells + width
            if len(flag) < 2:
                continue
            each, width = flag, cells
        elif flag:
            yield flag, cells
        flag, cells = "", 0
        yield each, width
    if flag:
        yield flag, cells

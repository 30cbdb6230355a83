"""A splitter of streamed markdown into top-level blocks.

A closed block never changes, so it is parsed and drawn once. Splitting is by lines and conservative: a block
may contain several elements, but never part of one. A block too long to redraw repeatedly while it grows is
cut at a suitable line: see `BLOCK_CHARS`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tools.kit.lazy_pattern import lazy_pattern

BLANK = " \t\r\v\f\n"
FENCE = lazy_pattern(r"(`{3,})([^`]*)$|(~{3,})(.*)$")
HTML_BLOCK = lazy_pattern(
    r"</?(?:address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir"
    r"|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li"
    r"|link|main|menu|menuitem|nav|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot"
    r"|th|thead|title|tr|track|ul)(?=\s|/?>|$)",
    re.I,
)
HTML_TAG = lazy_pattern(
    r"(?:<[A-Za-z][A-Za-z0-9-]*(?:\s+[A-Za-z_:][\w.:-]*(?:\s*=\s*(?:[^\s\"'=<>`]+|'[^']*'|\"[^\"]*\"))?)*\s*/?>"
    r"|</[A-Za-z][A-Za-z0-9-]*\s*>)\s*$"
)

_HTML_UNTIL = (
    (
        lazy_pattern(r"<(?:script|pre|style|textarea)(?=\s|>|$)", re.I),
        lazy_pattern(r"</(?:script|pre|style|textarea)>", re.I),
    ),
    (lazy_pattern(r"<!--"), lazy_pattern(r"-->")),
    (lazy_pattern(r"<\?"), lazy_pattern(r"\?>")),
    (lazy_pattern(r"<!\[CDATA\["), lazy_pattern(r"\]\]>")),
    (lazy_pattern(r"<![A-Za-z]"), lazy_pattern(r">")),
)
_HEADING = lazy_pattern(r"#{1,6}(?:[ \t]|$)")
_RULE = lazy_pattern(r"(?:\*[ \t]*){3,}$|(?:-[ \t]*){3,}$|(?:_[ \t]*){3,}$")
_UNDERLINE = lazy_pattern(r" {0,3}(?:=+|-+)[ \t]*$")
_MARKER = lazy_pattern(r"([-*+]|\d{1,9}[.)])([ \t]+|$)")
_BAR = lazy_pattern(r"(?<!\\)\|")
_DELIMITERS = lazy_pattern(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")

Within = Literal["", "paragraph", "other"]
"""The text before a line: a blank line, a paragraph that could continue, or another open block."""


def is_blank(line: str) -> bool:
    """Return whether the line is empty. Blanks of other scripts count as text."""
    return not line.strip(BLANK)


def shape(line: str) -> tuple[int, str]:
    """Return the columns of a line's indentation, with tab stops of four, and the rest of the line."""
    rest = line.lstrip(" \t")
    lead = line[: len(line) - len(rest)]
    return len(lead.expandtabs(4)) if "\t" in lead else len(lead), rest


def outdent(line: str, columns: int) -> str:
    """Return `line` without its first `columns` columns, as far as they are blank."""
    if len(line) >= columns and not line[:columns].strip(" "):
        return line[columns:]
    indent, rest = shape(line)
    return " " * (indent - min(columns, indent)) + rest


def opening(line: str, within: Within = "") -> str:
    """Return the kind of block a line opens; `paragraph` for text or a continuation."""
    indent, rest = shape(line)
    if indent >= 4:
        return "paragraph" if within == "paragraph" else "fence"
    first = rest[:1]
    if first == ">":
        return "quote"
    if first == "#":
        return "heading" if _HEADING.match(rest) else "paragraph"
    if first in ("`", "~") and first:
        return "fence" if FENCE.match(rest) else "paragraph"
    if first in ("-", "*", "_") and first and _RULE.match(rest):
        return "rule"
    if first == "<":
        return "html" if _opens_html(rest, within) else "paragraph"
    if marker := _MARKER.match(rest):
        interrupts = bool(rest[marker.end() :]) and (not first.isdigit() or int(marker[1][:-1]) == 1)
        return "list" if within != "paragraph" or interrupts else "paragraph"
    return "paragraph"


def _opens_html(rest: str, within: Within) -> bool:
    if HTML_BLOCK.match(rest) or any(start.match(rest) for start, _ in _HTML_UNTIL):
        return True
    return not within and HTML_TAG.match(rest) is not None


def html_end(rest: str) -> re.Pattern[str] | None:
    """Return the pattern that ends the html block opened by `rest`; None if a blank line ends it."""
    return next((end for start, end in _HTML_UNTIL if start.match(rest)), None)


def underlines(line: str) -> bool:
    """Return whether the line turns the paragraph above it into a heading."""
    return _UNDERLINE.match(line) is not None


def delimits(line: str, header: str) -> bool:
    """Return whether the line is the row below a table header."""
    is_row = "|" in header and _DELIMITERS.match(line) is not None
    return is_row and _columns(line) == _columns(header)


def _columns(row: str) -> int:
    row = row.strip()
    return len(_BAR.findall(row.removeprefix("|").removesuffix("|"))) + 1


def closes(line: str, mark: str) -> bool:
    """Return whether the line closes the fence that `mark` opened."""
    indent, rest = shape(line)
    rest = rest.rstrip()
    return indent < 4 and len(rest) >= len(mark) and not rest.strip(mark[0])


def item(line: str) -> tuple[str, int, int] | None:
    """Return a line's list marker: its type, its number, and its text's column; None without one."""
    indent, rest = shape(line)
    marker = _MARKER.match(rest) if indent < 4 else None
    if marker is None or _RULE.match(rest):
        return None
    sign, gap = marker.groups()
    lead = indent + len(sign)
    room = len((" " * lead + gap).expandtabs(4)) - lead
    if room > 4 or marker.end() == len(rest):
        room = 1
    number = int(sign[:-1]) if len(sign) > 1 else 0
    return sign[-1], number, lead + room


def ends_in_text(line: str) -> bool:
    """Return whether text that may continue follows the list and quote markers."""
    indent, rest = shape(line)
    while rest.startswith(">") or (_MARKER.match(rest) and not _RULE.match(rest)):
        marker = _MARKER.match(rest)
        indent, rest = shape(rest[1:] if marker is None else rest[len(marker[1]) :])
        if indent > 4:
            return False
    return bool(rest) and opening(rest, "other") == "paragraph"


BLOCK_CHARS = 16_384
"""Characters after which an open block is closed at its next seam, and an endless line is cut."""

_Step = Literal["keep", "keep and close", "close"]


@dataclass(frozen=True, slots=True)
class MarkdownBlock:
    """One top-level block: its markdown, without the blank lines around it.

    `kind` is `paragraph`, `heading`, `list`, `quote`, `fence`, `table`, `rule` or `html`; indented code is a
    `fence` too. `info` is the text after a fence's opening, or the start number of a continued list.
    """

    kind: str
    source: str
    info: str = ""


def split(text: str) -> list[MarkdownBlock]:
    """Return the blocks of a whole document, in order."""
    splitter = BlockSplitter()
    return splitter.feed(text) + splitter.finish()


def code_of(block: MarkdownBlock) -> str:
    """Return a `fence` block's code without fences and shared indentation, with a final line feed."""
    lines = block.source.split("\n")
    indent, rest = shape(lines[0])
    fence = FENCE.match(rest) if indent < 4 else None
    if fence is None:
        return "\n".join(outdent(line, 4) for line in lines)
    if len(lines) > 1 and closes(lines[-1], fence[1] or fence[3]):
        lines.pop()
    return "\n".join(outdent(line, indent) for line in lines[1:])


class BlockSplitter:
    """A splitter of a markdown stream into blocks, which do not depend on how the stream is chunked."""

    def __init__(self) -> None:
        self._closed: list[MarkdownBlock] = []
        self._pieces: list[str] = []
        self._pending = 0
        self._begin("")

    def feed(self, text: str) -> list[MarkdownBlock]:
        """Return the blocks that `text` closes, in order."""
        first, *rest = text.split("\n")
        self._grow(first)
        for piece in rest:
            self._end_line()
            self._grow(piece)
        return self._take()

    def finish(self) -> list[MarkdownBlock]:
        """Return the blocks that the end of the text closes. The splitter can then be reused."""
        if self._pieces:
            self._end_line()
        self._close()
        return self._take()

    def tail(self) -> MarkdownBlock | None:
        """Return the open block in its current state, in time linear in its length."""
        partial = "".join(self._pieces)
        if self._kind == "":
            return None if is_blank(partial) else MarkdownBlock(opening(partial), partial.rstrip())
        if self._mark and partial and not partial.strip().strip(self._mark[0]):
            partial = ""  # it may become the closing fence, so it is not code yet
        lines = [*self._lines, partial] if partial else self._lines
        return MarkdownBlock(self._kind, "\n".join(lines).rstrip("\n"), self._info)

    def open_code(self, start: int = 0) -> list[str]:
        """Return the complete lines of the open fence from line `start` on; none outside a fence."""
        if not self._mark:
            return []
        return [outdent(line, self._offset) for line in self._lines[start + 1 :]]

    def _grow(self, piece: str) -> None:
        if not piece:
            return
        self._pieces.append(piece)
        self._pending += len(piece)
        if self._pending > BLOCK_CHARS:
            line = "".join(self._pieces)
            last = (len(line) - 1) // BLOCK_CHARS * BLOCK_CHARS
            for at in range(0, last, BLOCK_CHARS):
                self._add(line[at : at + BLOCK_CHARS])
            self._pieces, self._pending = [line[last:]], len(line) - last

    def _end_line(self) -> None:
        line = "".join(self._pieces)
        self._pieces.clear()
        self._pending = 0
        self._add(line.removesuffix("\r"))

    def _take(self) -> list[MarkdownBlock]:
        closed, self._closed = self._closed, []
        return closed

    def _begin(self, kind: str, info: str = "") -> None:
        self._kind = kind
        self._info = info
        self._lines: list[str] = []
        self._size = 0
        self._mark = ""  # the fence that is open
        self._offset = 0  # indentation in columns of its lines, or of the open list item
        self._sign = ""  # type of the list's markers
        self._number = 0  # of the open item
        self._end: re.Pattern[str] | None = None  # of the open html, where it is not a blank line
        self._header: list[str] = []  # the first two lines of the open table

    def _close(self) -> None:
        if self._kind:
            source = "\n".join(self._lines)
            self._closed.append(
                MarkdownBlock(self._kind, source if self._mark else source.rstrip(BLANK), self._info)
            )
        self._begin("")

    def _keep(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1

    def _add(self, line: str) -> None:
        """Process one whole line."""
        step = self._step(line) if self._kind else "close"
        if step == "close":
            self._close()
            self._open(line)
        else:
            self._keep(line)
        if step == "keep and close" or self._is_full():
            self._close()

    def _is_full(self) -> bool:
        limit = BLOCK_CHARS * (4 if self._kind == "list" else 1)
        return self._size >= limit and self._kind in ("paragraph", "quote", "html", "list")

    def _open(self, line: str) -> None:
        if is_blank(line):
            return
        self._begin(opening(line))
        self._keep(line)
        indent, rest = shape(line)
        if self._kind in ("heading", "rule"):
            self._close()
        elif self._kind == "fence" and indent < 4 and (fence := FENCE.match(rest)):
            self._mark = fence[1] or fence[3]
            self._info = (fence[2] or fence[4] or "").strip()
            self._offset = indent
        elif self._kind == "html":
            self._end = html_end(rest)
            if self._end and self._end.search(rest):
                self._close()
        elif found := item(line):
            self._sign, self._number, self._offset = found

    def _step(self, line: str) -> _Step:
        """Return what to do with a line, given the open block."""
        if self._mark:
            return "keep and close" if closes(line, self._mark) else "keep"
        blank = is_blank(line)
        match self._kind:
            case "paragraph":
                return "close" if blank else self._paragraph(line)
            case "list":
                return "keep" if blank else self._list(line)
            case "html" if self._end:
                return "keep and close" if self._end.search(line) else "keep"
            case "html":
                return "close" if blank else "keep"
            case "quote":
                return "close" if blank else self._quote(line)
            case "table":
                return "close" if blank else self._table(line)
            case _:
                return "keep" if blank or shape(line)[0] >= 4 else "close"

    def _paragraph(self, line: str) -> _Step:
        if delimits(line, self._lines[-1]):
            self._kind = "table"
            self._header = [self._lines[-1], line]
            return "keep"
        if underlines(line):
            self._kind = "heading"
            return "keep and close"
        return "keep" if opening(line, "paragraph") == "paragraph" else "close"

    def _quote(self, line: str) -> _Step:
        return "keep" if opening(line) == "quote" or self._is_lazy(line) else "close"

    def _is_lazy(self, line: str) -> bool:
        """Return whether the line continues text in a list or quote without its marker."""
        if shape(line)[0] < 4 and opening(line, "other") != "paragraph":
            return False
        return ends_in_text(self._lines[-1])

    def _table(self, line: str) -> _Step:
        if opening(line, "other") != "paragraph":
            return "close"
        if self._size >= BLOCK_CHARS > sum(map(len, self._header)):
            header = self._header
            self._close()
            self._begin("table")
            self._header = header
            for repeated in header:
                self._keep(repeated)
        return "keep"

    def _list(self, line: str) -> _Step:
        indent, _ = shape(line)
        if indent >= self._offset:
            return "keep"
        found = item(line)
        if found and found[0] == self._sign:
            if self._size >= BLOCK_CHARS:
                self._go_on_with_list(line, found[2])
                return "keep"
            self._number += 1
            self._offset = found[2]
            return "keep"
        return "keep" if self._is_lazy(line) else "close"

    def _go_on_with_list(self, line: str, offset: int) -> None:
        """Close the list at an item and open its continuation with `line`."""
        sign, number = self._sign, self._number + 1
        self._close()
        self._begin("list", str(number) if sign in ".)" else "")
        self._sign, self._number, self._offset = sign, number, offset

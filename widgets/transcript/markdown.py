"""A block of markdown as strips: CommonMark with tables, task lists, strikethrough and bare links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tools.text.safe_text import clean
from widgets.palette import Palette
from widgets.transcript.blocks import BLOCK_CHARS, MarkdownBlock, code_of
from widgets.transcript.code import language_of, lexer_for, render_code
from widgets.transcript.inline import inline
from widgets.transcript.parsing import NESTING, parse, prepare_links
from widgets.transcript.tables import Align, Table, render_table
from widgets.transcript.wide_rows import CUT_AT_EDGE, Row, WideRows
from widgets.transcript.wrap import flat, plain, strips, wrap

if TYPE_CHECKING:
    from markdown_it.token import Token

PARSED_CHARS = 5 * BLOCK_CHARS
"""A block of more characters is shown as it is."""
LEAST_WIDTH = 10
"""Cells that nested text keeps: what is nested deeper is no longer indented."""
PREPARED = ("python", "bash", "json", "diff")
"""Languages whose lexers are compiled ahead."""
IMAGES = 200
LINKS = 2_000
"""A block that seems to open more of them is shown as it is: looking for their ends takes quadratic time."""

_BULLETS = "•◦▪"
_TASK = re.compile(r"\[([ xX])\][ \t]+(?=\S)")


def render(block: MarkdownBlock, width: int, palette: Palette, wide: WideRows = CUT_AT_EDGE) -> list[Strip]:
    """The block in rows of at most `width` cells, without blank rows around it; `wide` is for its code."""
    source = clean(block.source)
    if block.kind == "fence":
        code = code_of(MarkdownBlock("fence", source)).rstrip("\n")
        return render_code(code, language_of(block.info), width, palette, wide)
    if len(source) > PARSED_CHARS or source.count("![") > IMAGES or source.count("[") > LINKS:
        return plain(source, width, palette)
    tokens = parse(source)
    if any(token.level >= NESTING for token in tokens):
        return plain(source, width, palette)
    first = int(block.info) if block.kind == "list" and block.info.isdecimal() else None
    return strips(_Renderer(source, width, palette, first, wide).blocks(tokens, width, gaps=True), width)


def prepare() -> None:
    """Compile what the first bare link and the first code need, 0.1 s of work. For a thread of its own."""
    prepare_links()
    for language in PREPARED:
        lexer_for(language)


@dataclass(frozen=True, slots=True)
class _Element:
    """A block-level element: its opening token and the tokens inside of it."""

    token: Token
    inner: Sequence[Token]

    @property
    def kind(self) -> str:
        return self.token.type.removesuffix("_open")

    @property
    def lines(self) -> tuple[int, int]:
        """The first line of the source, and the one after the last."""
        first, end = self.token.map or (0, 0)
        return first, end


def _elements(tokens: Sequence[Token]) -> Iterator[_Element]:
    """The outermost elements of a run of tokens."""
    depth = start = 0
    for at, token in enumerate(tokens):
        if depth == 0:
            start = at
        depth += token.nesting
        if depth == 0:
            yield _Element(tokens[start], tokens[start + 1 : at])


class _Renderer:
    """Draws the elements of one block."""

    def __init__(self, source: str, width: int, palette: Palette, first: int | None, wide: WideRows) -> None:
        self._lines = source.split("\n")
        self._least = min(width, LEAST_WIDTH)
        self._palette = palette
        self._first = first
        self._wide = wide
        self._base = palette.style("text")
        self._dim = palette.style("dim")

    def blocks(self, tokens: Sequence[Token], width: int, *, gaps: bool, depth: int = 0) -> list[Row]:
        """Elements one below the other; without `gaps`, blank rows are those of the source."""
        rows: list[Row] = []
        for element in _elements(tokens):
            drawn = self._element(element, width, depth)
            if rows and drawn and (gaps or self._after_blank(element)):
                rows.append([])
            rows += drawn
        return rows

    def _after_blank(self, element: _Element) -> bool:
        first, _ = element.lines
        return first > 0 and not self._lines[first - 1].strip(" \t>")

    def _element(self, element: _Element, width: int, depth: int) -> list[Row]:
        match element.kind:
            case "paragraph":
                return wrap(self._inline(element, self._base), width)
            case "heading":
                return wrap(self._inline(element, self._heading_style(element.token.tag)), width)
            case "bullet_list" | "ordered_list":
                return self._list(element, width, depth)
            case "blockquote":
                return self._quote(element, width, depth)
            case "fence" | "code_block":
                code = element.token.content.rstrip("\n")
                language = language_of(element.token.info)
                drawn = render_code(code, language, width, self._palette, self._wide)
                return [list(strip) for strip in drawn]
            case "table":
                return self._table(element, width)
            case "hr":
                return [[Segment("─" * width, self._palette.style("rule"))]]
            case _:
                lines = element.token.content.rstrip("\n").split("\n")
                return [row for line in lines for row in wrap([Segment(flat(line), self._dim)], width)]

    def _heading_style(self, tag: str) -> Style:
        style = self._palette.style("accent", bold=True)
        return style + Style(underline=True) if tag == "h1" else style

    def _inline(self, element: _Element, base: Style) -> Row:
        children = [child for token in element.inner for child in token.children or ()]
        return inline(children, self._palette, base)

    def _quote(self, element: _Element, width: int, depth: int) -> list[Row]:
        bar = [Segment("▎ ", self._palette.style("rule"))] if width - 2 >= self._least else []
        rows = self.blocks(element.inner, width - 2 * len(bar), gaps=True, depth=depth)
        return [[*bar, *row] for row in rows]

    def _list(self, element: _Element, width: int, depth: int) -> list[Row]:
        items = list(_elements(element.inner))
        rows: list[Row] = []
        for marker, item in zip(self._markers(element, len(items), depth), items, strict=True):
            lead = self._lead(marker, _task(item))
            indent = [Segment(" " * sum(run.cell_length for run in lead), self._base)]
            room = width - indent[0].cell_length
            drawn = self.blocks(item.inner, max(room, self._least), gaps=False, depth=depth + 1)
            if room < self._least:
                lead, indent, drawn = [], [], [lead, *drawn]
            if rows and self._after_blank(item):
                rows.append([])
            rows += [[*(indent if at else lead), *row] for at, row in enumerate(drawn or [[]])]
        return rows

    def _lead(self, marker: str, done: bool | None) -> Row:
        """What stands before an item. The state of a task takes the place of a bullet."""
        if done is None:
            return [Segment(marker, self._dim)]
        state = Segment("✓ ", self._palette.style("success")) if done else Segment("○ ", self._dim)
        return [state] if marker[0] in _BULLETS else [Segment(marker, self._dim), state]

    def _markers(self, element: _Element, count: int, depth: int) -> list[str]:
        if element.kind == "bullet_list":
            return [_BULLETS[depth % len(_BULLETS)] + " "] * count
        start = element.token.attrGet("start")
        first = 1 if start is None else int(start)
        if self._first is not None and depth == 0:
            first = self._first
        size = len(str(first + count - 1))
        return [f"{number:>{size}}. " for number in range(first, first + count)]

    def _table(self, element: _Element, width: int) -> list[Row]:
        lines = [row for part in _elements(element.inner) for row in _elements(part.inner)]
        header = self._palette.style("text", bold=True)
        cells = [
            [self._inline(cell, header if number == 0 else self._base) for cell in _elements(line.inner)]
            for number, line in enumerate(lines)
        ]
        aligns: list[Align] = [_align(cell.token) for cell in _elements(lines[0].inner)]
        return render_table(Table(cells, aligns), width, self._palette.style("rule"), self._base)


def _task(item: _Element) -> bool | None:
    """Whether the task of an item is done, its mark taken out of the text; None if it is no task."""
    first = next(_elements(item.inner), None)
    children = first.inner[0].children if first and first.kind == "paragraph" else None
    if not children or children[0].type != "text" or not (found := _TASK.match(children[0].content)):
        return None
    children[0].content = children[0].content[found.end() :]
    return found[1] != " "


def _align(token: Token) -> Align:
    style = str(token.attrGet("style") or "")
    if style.endswith("center"):
        return "center"
    return "right" if style.endswith("right") else "left"

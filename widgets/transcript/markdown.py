"""Markdown of answers as rows: text, code, tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from themes.states import glyph
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean
from widgets.painting.filtered_rows import PLACE
from widgets.palette import Palette
from widgets.transcript.blocks import BLOCK_CHARS, MarkdownBlock, code_of
from widgets.transcript.wrap import (
    CUT_AT_EDGE,
    Row,
    WideRows,
    cells_of,
    expand_tabs,
    flat,
    pad,
    plain,
    rows_for,
    strips,
    wrap,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token
    from pygments.lexer import Lexer

NESTING = 90
"""Levels of containers after which a block is shown as source text."""

_Rules = tuple[str, ...]

_ENDS = (" ", "\t", "\n")

_BLOCK = {
    "table": ("|",),
    "code": ("    ", "\t"),
    "fence": ("```", "~~~"),
    "blockquote": (">",),
    "hr": ("-", "*", "_"),
    "list": tuple(mark + end for mark in "-+*.)" for end in _ENDS),
    "html_block": ("<",),
    "heading": ("#",),
    "lheading": tuple(mark + end for mark in "-=" for end in _ENDS),
    "paragraph": ("",),
}
"""Texts of which a block must contain one to match the rule. All blocks end with a line feed."""

_INLINE = {
    "text": (("",), ""),
    "linkify": (("//", ":"), ":"),
    "newline": (("",), "\n"),
    "escape": (("\\",), "\\"),
    "backticks": (("`",), "`"),
    "strikethrough": (("~~",), "~"),
    "emphasis": (("*", "_"), "*_"),
    "link": (("[",), "[]"),
    "image": (("![",), "!]"),
    "autolink": (("<",), "<"),
    "html_inline": (("<",), "<"),
    "entity": (("&",), "&"),
}
"""The same for rules within a line, and the characters at which the rule is tried or that it seeks."""


def parse(source: str) -> list[Token]:
    """Return the tokens of a block of markdown."""
    source += "\n"
    has = source.__contains__
    block = [name for name, marks in _BLOCK.items() if any(map(has, marks))]
    inline = [name for name, (marks, _) in _INLINE.items() if any(map(has, marks))]
    return _parser(tuple(block), tuple(inline)).parse(source)


def prepare_links() -> None:
    """Compile the pattern for bare links. It may run in a thread: it shares no state."""
    _new_parser().parse("http://example.org")


@lru_cache(maxsize=1)
def _whole_parser() -> MarkdownIt:
    return _new_parser()


def _new_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    from widgets.transcript.links import BareLinks

    parser = MarkdownIt("commonmark", {"maxNesting": NESTING + 10, "linkify": True})
    parser.linkify = BareLinks()
    parser.enable("linkify").core.ruler.at("inline", _inline)
    return parser


@lru_cache(maxsize=128)
def _parser(block: _Rules, inline: _Rules) -> MarkdownIt:
    """Return a parser with these rules."""
    parser = copy(_whole_parser())
    # After the package: its modules, imported while another thread is amid the package, are found half done.
    from markdown_it.parser_block import ParserBlock
    from markdown_it.parser_inline import ParserInline

    parser.block, parser.inline = ParserBlock(), ParserInline()
    parser.block.ruler.enableOnly(block)
    parser.inline.ruler.enableOnly(inline)
    after = [name for name in ("strikethrough", "emphasis") if name in inline]
    parser.inline.ruler2.enableOnly([*(["balance_pairs"] if after else []), *after, "fragments_join"])
    marks = "".join(_INLINE[name][1] for name in inline)
    parser.inline.terminator_re = re.compile(f"[{re.escape(marks)}]")
    return parser


def _inline(state: StateCore) -> None:
    """Parse inline content. Text without marks, as in most table cells, becomes one token."""
    from markdown_it.token import Token

    parser = state.md.inline
    for token in state.tokens:
        if token.type != "inline":
            continue
        content, children = token.content, token.children = token.content, []
        if content and parser.terminator_re.search(content) is None:
            children.append(Token("text", "", 0, content=content))
        else:
            parser.parse(content, state.md, state.env, children)


COLORED_CHARS = 32_768
"""The number of characters of code that get colours; the rest is plain."""
COLORED_LINE = 400
"""A line of more characters ends the colours: lexers may need quadratic time for it."""
TAB = 4
LANGUAGE_CHARS = 20
"""The maximum characters of the language's name next to a block of code."""

CodeLine = list[tuple[str, str]]
"""A line of code as pieces of text and their roles."""

_ROLES = {
    "Comment": "comment",
    "Generic.Deleted": "removed",
    "Generic.Error": "error",
    "Generic.Heading": "function",
    "Generic.Inserted": "added",
    "Generic.Prompt": "comment",
    "Generic.Subheading": "function",
    "Keyword": "keyword",
    "Keyword.Constant": "number",
    "Literal": "number",
    "Literal.String": "string",
    "Name.Attribute": "function",
    "Name.Builtin": "function",
    "Name.Class": "function",
    "Name.Constant": "number",
    "Name.Decorator": "function",
    "Name.Exception": "function",
    "Name.Function": "function",
    "Name.Tag": "keyword",
    "Operator.Word": "keyword",
}


@lru_cache(maxsize=16)
def highlight(code: str, language: str) -> list[CodeLine]:
    """Return the lines of `code` as pieces with roles, read-only. An unknown `language` is plain text.

    Recent results are cached, as code that is shifted sideways is painted repeatedly.
    """
    lines = code.split("\n")
    colored = _colored_lines(lines)
    done = _lex("\n".join(lines[:colored]), language) if colored else []
    return done + [[(line, "text")] for line in lines[len(done) :]]


def _colored_lines(lines: list[str]) -> int:
    size = 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if len(line) > COLORED_LINE or size > COLORED_CHARS:
            return number
    return len(lines)


def _lex(code: str, language: str) -> list[CodeLine]:
    lexer = lexer_for(language)
    if lexer is None:
        return []
    try:
        pieces = [(text, role_of(kind)) for kind, text in lexer.get_tokens(code)]
    except Exception:  # a lexer is a bag of regular expressions; its faults must not cost the text
        return []
    lines = _lines(pieces)
    wanted = code.split("\n")
    del lines[len(wanted) :]
    if ["".join(text for text, _ in line) for line in lines] != wanted:
        return []
    return lines


def _lines(pieces: Iterable[tuple[str, str]]) -> list[CodeLine]:
    """Split pieces of code into lines; adjacent pieces of one role are merged."""
    line: CodeLine = []
    lines = [line]
    for text, role in pieces:
        first, *rest = text.split("\n") if "\n" in text else (text,)
        if line and line[-1][1] == role:
            line[-1] = (line[-1][0] + first, role)
        elif first:
            line.append((first, role))
        for part in rest:
            line = [(part, role)] if part else []
            lines.append(line)
    return lines


@lru_cache(maxsize=64)
def lexer_for(language: str) -> Lexer | None:
    """Return the lexer for a language or file name; None if there is none."""
    from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        if "." in language or "/" in language:
            found = find_lexer_class_for_filename(language.replace("\\", "/").rsplit("/", 1)[-1])
            return found(stripnl=False) if found else None
        name = language.lower()
        return get_lexer_by_name(name, stripnl=False) if name in _languages() else None
    except ClassNotFound:
        return None


@cache
def _languages() -> frozenset[str]:
    """Return all known language names. For others Pygments would search every installed package."""
    from pygments.lexers import get_all_lexers

    return frozenset(alias for _, aliases, _, _ in get_all_lexers(plugins=False) for alias in aliases)


@lru_cache(maxsize=512)
def role_of(token_type: Any) -> str:
    """Return the role of a Pygments token type; `text` if it has no special colour."""
    name = str(token_type).removeprefix("Token.")
    while name:
        if role := _ROLES.get(name):
            return role
        name = name.rpartition(".")[0]
    return "text"


def language_of(info: str) -> str:
    """Return the language in a fence's info text, such as `python title="x"`."""
    words = info.replace("{", " ").replace(",", " ").split()
    return words[0].lstrip(".").split(":")[0].rstrip("}") if words else ""


def paint(line: CodeLine, palette: Palette, background: str) -> Row:
    """Return a line of clean code as runs on a role's background, with tabs expanded."""
    if any("\t" in text for text, _ in line):
        line = _expand(line)
    return [Segment(text, ink(palette, role, background)) for text, role in line if text]


def ink(palette: Palette, role: str, background: str) -> Style:
    """Return the style of a role in code."""
    return palette.style(role, background, italic=role == "comment")


def _expand(line: CodeLine) -> CodeLine:
    expanded: CodeLine = []
    before = ""
    for text, role in line:
        whole = expand_tabs(before + text, TAB)
        expanded.append((whole[len(before) :], role))
        before = whole
    return expanded


def render_code(
    code: str, language: str, width: int, palette: Palette, wide: WideRows = CUT_AT_EDGE
) -> list[Strip]:
    """Return code as a block of full rows; `wide` decides how long lines are shown."""
    return _rows(highlight(clean(code), language), width, palette, wide)


def _rows(lines: list[CodeLine], width: int, palette: Palette, wide: WideRows) -> list[Strip]:
    blank = palette.style("text", "code_background")
    mark = palette.style("dim", "code_background")
    done: list[Strip] = []
    for line in lines:
        row = paint(line, palette, "code_background")
        room = width - cells_of(row)
        if room >= 0 and not wide.shift:
            done.append(Strip([*row, Segment(" " * room, blank)] if room else row, width))
        else:
            done += strips((pad(part, width, blank) for part in rows_for(row, width, wide, mark)), width)
    return done


class FenceRenderer:
    """A renderer of a streamed fence: each line is lexed once, with the lines it depends on.

    Lexing restarts after a line that leaves no string or comment open. Other lexer state is lost, so the
    whole fence is rendered again when it closes.
    """

    WINDOW = 40
    """Lines of an open string or comment that are lexed again with each new line: the first, and the last."""

    def __init__(self, info: str, palette: Palette, width: int, wide: WideRows = CUT_AT_EDGE) -> None:
        self._info: str | None = info
        self._language = language_of(info)
        self._palette = palette
        self._width = width
        self._wide = wide
        self._open: list[str] = []
        self._size = 0

    def feed_lines(self, lines: list[str]) -> list[Strip]:
        """Return the strips of further whole lines."""
        if not lines:
            return []
        lines = [clean(line).replace("\n", " ") for line in lines]
        self._size += sum(len(line) + 1 for line in lines)
        if self._size > COLORED_CHARS:
            self._language = ""
        known = len(self._open)
        done = highlight("\n".join([*self._open, *lines]), self._language)
        unsettled = [*self._open, *lines][_settled_count(done) :]
        self._open = unsettled[:1] + unsettled[1:][1 - self.WINDOW :]
        rows = _rows(done[known:], self._width, self._palette, self._wide)
        info, self._info = self._info, None
        return rows if info is None else [*_add_label(rows[:1], info, self._palette), *rows[1:]]


def label_of(info: str) -> str:
    """Return the label at the right end of a code block: its language, and the action of a click on it."""
    name = flat(clean(info.split(maxsplit=1)[0] if info.strip() else ""))[:LANGUAGE_CHARS]
    return f"{name} · copy" if name else "copy"


def _add_label(rows: list[Strip], info: str, palette: Palette) -> list[Strip]:
    """Return the first row of a block with its label at the right end, where there is room."""
    name = label_of(info)
    if not rows or not (last := list(rows[0])) or len(last[-1].text) - len(name) < 4:
        return rows
    *run, blank = last
    if blank.text.strip():
        return rows
    label = Segment(f"{name} ", palette.style("dim", "code_background"))
    shorter = Segment(" " * (len(blank.text) - label.cell_length), blank.style)
    return [Strip([*run, shorter, label], rows[0].cell_length)]


def _settled_count(lines: list[CodeLine]) -> int:
    """Return the number of leading lines that cannot affect lines after the last."""
    open_lines = 0
    for line in reversed(lines):
        role = line[-1][1] if line else "text"
        if line and role not in ("string", "comment"):
            break
        open_lines += 1
    return len(lines) - open_lines


_BREAK = lazy_pattern(r"<br\s*/?>", re.I)
_EMPHASIS = {"strong": Style(bold=True), "em": Style(italic=True), "s": Style(strike=True)}


def inline(tokens: Iterable[Token], palette: Palette, base: Style) -> Row:
    """Return the runs of an inline token's children, styled on top of `base`.

    A line feed is a hard break. A link's address is in its style's meta data, under `link`.
    """
    runs: Row = []
    open_styles = [base]
    for token in tokens:
        style = open_styles[-1]
        if token.nesting > 0:
            open_styles.append(style + _style_of(token, palette))
        elif token.nesting < 0:
            if len(open_styles) > 1:
                open_styles.pop()
        elif text := _text_of(token):
            if runs and runs[-1].text == "\n":
                text = text.lstrip()
            runs.append(Segment(text, style + _style_of(token, palette)))
    return runs


def _text_of(token: Token) -> str:
    match token.type:
        case "softbreak":
            return " "
        case "hardbreak":
            return "\n"
        case "image":
            return f"[image {flat(token.content).strip()}]" if token.content.strip() else "[image]"
        case "html_inline" if _BREAK.fullmatch(token.content):
            return "\n"
        case _:
            return flat(token.content)


def _style_of(token: Token, palette: Palette) -> Style:
    """Return the style a token adds to its context."""
    match token.type:
        case "code_inline":
            style = palette.style("function", "code_background")
            is_place = PLACE.fullmatch(token.content)
            return style + Style.from_meta({"link": token.content}) if is_place else style
        case "link_open":
            return Style(color=palette.style("accent").color, underline=True) + _link(token, "href")
        case "image":
            return Style(color=palette.style("dim").color) + _link(token, "src")
        case _:
            return _EMPHASIS.get(token.tag, Style.null())


def _link(token: Token, name: str) -> Style:
    return Style.from_meta({"link": flat(str(token.attrGet(name) or ""))})


Align = Literal["left", "center", "right"]

WORD = 12
"""A column is at least as wide as its longest word, but need not be wider than this many cells."""
_BAR = " │ "


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as runs; the first row is the header. Every row has as many cells as `aligns`."""

    rows: Sequence[Sequence[Row]]
    aligns: Sequence[Align]


def render_table(table: Table, width: int, rule: Style, blank: Style) -> list[Row]:
    """Return rows of at most `width` cells. `rule` styles the lines, `blank` the space around cells."""
    widths = _column_widths(table, width - len(_BAR) * (len(table.aligns) - 1))
    if widths is None:
        return _records(table, width, rule, blank)
    drawn: list[Row] = []
    for number, cells in enumerate(table.rows):
        drawn += _across(cells, widths, table.aligns, rule, blank)
        if number == 0:
            drawn.append([Segment("─┼─".join("─" * column for column in widths), rule)])
    return drawn


def _column_widths(table: Table, room: int) -> list[int] | None:
    """Return the cells of each column within `room`; None if that is impossible."""
    columns = range(len(table.aligns))
    texts = [["".join(run.text for run in cells[column]) for cells in table.rows] for column in columns]
    natural = [max(1, *(_widest(text.split("\n")) for text in column)) for column in texts]
    if sum(natural) <= room:
        return natural
    least = [
        min(wide, max(3, min(WORD, _widest(re.split(r"\s+", " ".join(column))))))
        for wide, column in zip(natural, texts, strict=True)
    ]
    if sum(least) > room:
        return None
    return _share(natural, least, room)


def _widest(texts: list[str]) -> int:
    return max(map(cell_len, texts))


def _share(natural: list[int], least: list[int], room: int) -> list[int]:
    """Distribute `room`: narrow columns get all they need, the others equal parts of the rest."""
    widths = list(least)
    left = room - sum(least)
    while left > 0:
        hungry = [column for column, wide in enumerate(widths) if wide < natural[column]]
        lowest = min(hungry, key=lambda column: widths[column])
        widths[lowest] += 1
        left -= 1
    return widths


def _across(
    cells: Sequence[Row], widths: list[int], aligns: Sequence[Align], rule: Style, blank: Style
) -> list[Row]:
    columns = [wrap(cell, wide) for cell, wide in zip(cells, widths, strict=True)]
    drawn: list[Row] = []
    for line in range(max(map(len, columns))):
        row: Row = []
        for column, (rows, wide) in enumerate(zip(columns, widths, strict=True)):
            content = rows[line] if line < len(rows) else []
            if column:
                row.append(Segment(_BAR, rule))
            row += _align_row(content, wide, aligns[column], blank)
        drawn.append(row)
    return drawn


def _align_row(row: Row, width: int, align: Align, blank: Style) -> Row:
    room = max(width - sum(run.cell_length for run in row), 0)
    before = {"left": 0, "center": room // 2, "right": room}[align]
    padded = [Segment(" " * before, blank), *row, Segment(" " * (room - before), blank)]
    return [run for run in padded if run.text]


def _records(table: Table, width: int, rule: Style, blank: Style) -> list[Row]:
    """Return each table row as separate lines: column name, then cell text."""
    header, *rest = table.rows
    if not rest:
        return [row for cell in header for row in wrap(cell, width)]
    drawn: list[Row] = []
    for number, cells in enumerate(rest):
        if number:
            drawn.append([Segment("─" * min(width, WORD), rule)])
        for name, cell in zip(header, cells, strict=True):
            drawn += wrap([*name, Segment(": ", blank), *cell], width)
    return drawn


PARSED_CHARS = 5 * BLOCK_CHARS
"""A block of more characters is shown as source text."""
LEAST_WIDTH = 10
"""The minimum cells of nested text: text nested deeper is not indented further."""
PREPARED = ("python", "bash", "json", "diff")
"""Languages whose lexers are compiled in advance."""
IMAGES = 200
LINKS = 2_000
"""A block that seems to open more links is shown as source: searching their ends takes quadratic time."""

_BULLETS = "•◦▪"
_TASK = lazy_pattern(r"\[([ xX])\][ \t]+(?=\S)")


def render(block: MarkdownBlock, width: int, palette: Palette, wide: WideRows = CUT_AT_EDGE) -> list[Strip]:
    """Return the block in rows of at most `width` cells, without outer blank rows; `wide` is for code."""
    source = clean(block.source)
    if block.kind == "fence":
        code = code_of(MarkdownBlock("fence", source)).rstrip("\n")
        drawn = render_code(code, language_of(block.info), width, palette, wide)
        return [*_add_label(drawn[:1], block.info, palette), *drawn[1:]] if code else drawn
    if len(source) > PARSED_CHARS or source.count("![") > IMAGES or source.count("[") > LINKS:
        return plain(source, width, palette)
    tokens = parse(source)
    if any(token.level >= NESTING for token in tokens):
        return plain(source, width, palette)
    first = int(block.info) if block.kind == "list" and block.info.isdecimal() else None
    return strips(_Renderer(source, width, palette, first, wide).blocks(tokens, width, gaps=True), width)


def prepare(*, code: bool = True) -> None:
    """Compile the patterns for links, and with `code` for code, which takes 0.1 s. Run this in a thread."""
    prepare_links()
    for language in PREPARED if code else ():
        lexer_for(language)


@dataclass(frozen=True, slots=True)
class _Element:
    """A block-level element: its opening token and inner tokens."""

    token: Token
    inner: Sequence[Token]

    @property
    def kind(self) -> str:
        return self.token.type.removesuffix("_open")

    @property
    def lines(self) -> tuple[int, int]:
        """The first source line, and the one after the last."""
        first, end = self.token.map or (0, 0)
        return first, end


def _elements(tokens: Sequence[Token]) -> Iterator[_Element]:
    """Yield the outermost elements of a token sequence."""
    depth = start = 0
    for at, token in enumerate(tokens):
        if depth == 0:
            start = at
        depth += token.nesting
        if depth == 0:
            yield _Element(tokens[start], tokens[start + 1 : at])


class _Renderer:
    """A renderer of the elements of one block."""

    def __init__(self, source: str, width: int, palette: Palette, first: int | None, wide: WideRows) -> None:
        self._lines = source.split("\n")
        self._least = min(width, LEAST_WIDTH)
        self._palette = palette
        self._first = first
        self._wide = wide
        self._base = palette.style("text")
        self._dim = palette.style("dim")

    def blocks(self, tokens: Sequence[Token], width: int, *, gaps: bool, depth: int = 0) -> list[Row]:
        """Return the rows of elements below each other; without `gaps`, blank rows are as in the source."""
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
        """Return the marker before an item. A task's state replaces the bullet."""
        if done is None:
            return [Segment(marker, self._dim)]
        state = (
            Segment(f"{glyph('done')} ", self._palette.style("success"))
            if done
            else Segment(f"{glyph('pending')} ", self._dim)
        )
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
    """Return whether an item's task is done and remove its mark from the text; None if it is not a task."""
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

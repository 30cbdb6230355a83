"""Code in colours: the roles of its words, and rows that never wrap."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tools.text.safe_text import clean
from widgets.palette import Palette
from widgets.transcript.wide_rows import CUT_AT_EDGE, Row, WideRows, cells_of, rows_for
from widgets.transcript.wrap import expand_tabs, pad, strips

if TYPE_CHECKING:
    from pygments.lexer import Lexer

COLORED_CHARS = 32_768
"""Characters of code that get colours; what comes after them is plain."""
COLORED_LINE = 400
"""A line of more characters ends the colours: lexers may need quadratic time for it."""
TAB = 4

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
    """The lines of `code`, each as pieces with roles, to be read only. An unknown `language` is plain text.

    The last ones are kept: code that is scrolled sideways is painted again and again.
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
    """Pieces of code cut into lines; neighbours of one role become one piece."""
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
    """The lexer of a language name or a file name; None where there is none."""
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
    """All names of languages. Asked for another, Pygments would look through every installed package."""
    from pygments.lexers import get_all_lexers

    return frozenset(alias for _, aliases, _, _ in get_all_lexers(plugins=False) for alias in aliases)


@lru_cache(maxsize=512)
def role_of(token_type: Any) -> str:
    """The role of a Pygments token type; `text` where it has no colour of its own."""
    name = str(token_type).removeprefix("Token.")
    while name:
        if role := _ROLES.get(name):
            return role
        name = name.rpartition(".")[0]
    return "text"


def language_of(info: str) -> str:
    """The language in what stands behind the opening of a fence, such as `python title="x"`."""
    words = info.replace("{", " ").replace(",", " ").split()
    return words[0].lstrip(".").split(":")[0].rstrip("}") if words else ""


def paint(line: CodeLine, palette: Palette, background: str) -> Row:
    """A line of clean code as runs on the background of a role, tabs expanded."""
    if any("\t" in text for text, _ in line):
        line = _expand(line)
    return [Segment(text, ink(palette, role, background)) for text, role in line if text]


def ink(palette: Palette, role: str, background: str) -> Style:
    """How a role is written in code."""
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
    """Code as a block of full rows; `wide` tells what becomes of a line that is too long."""
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
    """Renders a fence while it streams in: each line is lexed once, with the lines it depends on.

    Lexing starts anew after a line that leaves no text or comment open. What a
    lexer knows beyond that is lost, so the whole is rendered once more when the
    fence closes.
    """

    WINDOW = 40
    """Lines of an open text or comment that are lexed again with each new line: its first and its last."""

    def __init__(self, info: str, palette: Palette, width: int, wide: WideRows = CUT_AT_EDGE) -> None:
        self._language = language_of(info)
        self._palette = palette
        self._width = width
        self._wide = wide
        self._open: list[str] = []
        self._size = 0

    def feed_lines(self, lines: list[str]) -> list[Strip]:
        """The strips of further whole lines."""
        if not lines:
            return []
        lines = [clean(line).replace("\n", " ") for line in lines]
        self._size += sum(len(line) + 1 for line in lines)
        if self._size > COLORED_CHARS:
            self._language = ""
        known = len(self._open)
        done = highlight("\n".join([*self._open, *lines]), self._language)
        unsettled = [*self._open, *lines][_settled(done) :]
        self._open = unsettled[:1] + unsettled[1:][1 - self.WINDOW :]
        return _rows(done[known:], self._width, self._palette, self._wide)


def _settled(lines: list[CodeLine]) -> int:
    """How many lines from the first on no longer matter to those that come after the last."""
    open_lines = 0
    for line in reversed(lines):
        role = line[-1][1] if line else "text"
        if line and role not in ("string", "comment"):
            break
        open_lines += 1
    return len(lines) - open_lines

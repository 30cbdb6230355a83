"""A markdown parser that uses only the rules a text can need.

markdown-it tries every rule on every line, and at every mark within a line. A rule whose marks do not occur
in the text never matches, so leaving it out saves time without changing the result.

The parser is CommonMark with tables, strikethrough and bare links. Reference definitions are plain text,
because each block is drawn alone.
"""

from __future__ import annotations

import re
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

NESTING = 90
"""Levels of containers after which a block is shown as it is."""

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
"""What a rule for blocks matches has one of these in it. All texts end with a line feed."""

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
"""The same within a line, and the characters at which the rule is tried or that it looks for."""


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

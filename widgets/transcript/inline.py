"""Inline markdown as styled runs: emphasis, code, links, images, breaks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style

from widgets.palette import Palette
from widgets.transcript.wrap import Row, flat

if TYPE_CHECKING:
    from markdown_it.token import Token

_BREAK = re.compile(r"<br\s*/?>", re.I)
_EMPHASIS = {"strong": Style(bold=True), "em": Style(italic=True), "s": Style(strike=True)}


def inline(tokens: Iterable[Token], palette: Palette, base: Style) -> Row:
    """The runs of the children of an inline token, in `base` and what they add to it.

    A line feed stands for a hard break. The address of a link is in the meta data
    of its style, under `link`; nothing of it reaches the terminal.
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
    """What a token adds to the style around it."""
    match token.type:
        case "code_inline":
            return palette.style("function", "code_background")
        case "link_open":
            return Style(color=palette.style("accent").color, underline=True) + _link(token, "href")
        case "image":
            return Style(color=palette.style("dim").color) + _link(token, "src")
        case _:
            return _EMPHASIS.get(token.tag, Style.null())


def _link(token: Token, name: str) -> Style:
    return Style.from_meta({"link": flat(str(token.attrGet(name) or ""))})

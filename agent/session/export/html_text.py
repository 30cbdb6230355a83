"""Outside text as HTML: markdown, code in colours, diffs. Nothing of it becomes markup. Pure.

Raw HTML in markdown stays text, pictures become their description, and links lead
to web and mail addresses only, so a page made of this loads nothing from anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from html import escape
from typing import TYPE_CHECKING, Any

from tools.text.safe_text import clean

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from pygments.formatters.html import HtmlFormatter
    from pygments.lexer import Lexer

NESTING = 20
"""Levels of quotes and lists that are told apart."""
COLORED_CHARS = 32_768
"""Characters of code above which it stays without colours."""
COLORED_LINE = 400
"""The same for its longest line: lexers may need quadratic time for one."""

_SCHEMES = ("http://", "https://", "mailto:")


def plain(text: str) -> str:
    """A text that stands in HTML or in an attribute as it is."""
    return escape(clean(text), quote=True)


def markdown(text: str) -> str:
    """Markdown as HTML."""
    # Cleaned again, because entities such as `&#x202e;` have become characters.
    return clean(_parser().render(clean(text)))


def code(text: str, language: str = "") -> str:
    """Code in a block of its own; `language` names a lexer, or a file whose ending tells."""
    return f'<pre class="code"><code>{_colored(clean(text), language)}</code></pre>\n'


def diff(text: str) -> str:
    """A unified diff, line by line in the colour of what happens to the line."""
    lines = clean(text).split("\n")
    if lines and not lines[-1]:
        lines.pop()
    shown = "\n".join(_diff_line(line) for line in lines)
    return f'<pre class="code diff"><code>{shown}</code></pre>\n'


def _diff_line(line: str) -> str:
    text = escape(line)
    if line.startswith(("+++", "---", "diff ", "index ", "***")):
        return f'<span class="dm">{text}</span>'
    if line.startswith("@@"):
        return f'<span class="dh">{text}</span>'
    kind = {"+": "da", "-": "dr"}.get(line[:1])
    return f'<span class="{kind}">{text}</span>' if kind else text


def _colored(text: str, language: str) -> str:
    """Escaped text with Pygments' classes around its words; the end of the text is no line of its own."""
    text = text.removesuffix("\n")
    lexer = _lexer(language)
    if lexer is None or len(text) > COLORED_CHARS or max(map(len, text.split("\n"))) > COLORED_LINE:
        return escape(text)
    try:
        from pygments import highlight

        return highlight(text, lexer, _formatter()).removesuffix("\n")
    except Exception:  # a lexer is a bag of regular expressions; its faults must not cost the text
        return escape(text)


@cache
def _formatter() -> HtmlFormatter[str]:
    """Kept, as it makes a style sheet for itself each time."""
    from pygments.formatters.html import HtmlFormatter

    return HtmlFormatter(nowrap=True)


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        if "." in language or "/" in language:
            found = find_lexer_class_for_filename(language.replace("\\", "/").rsplit("/", 1)[-1])
            return found(stripnl=False, ensurenl=False) if found else None
        return get_lexer_by_name(language.lower(), stripnl=False, ensurenl=False) if language else None
    except ClassNotFound:
        return None


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "linkify": True, "maxNesting": NESTING})
    parser.enable(["table", "strikethrough", "linkify"])
    if parser.linkify is not None:
        # `main.py` and `me@host` are names more often than addresses.
        parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False})
    parser.validateLink = _is_address  # type: ignore[method-assign]
    parser.add_render_rule("link_open", _link)
    parser.add_render_rule("image", _picture)
    for name in ("th_open", "td_open"):
        parser.add_render_rule(name, _cell)
    for name in ("fence", "code_block"):
        parser.add_render_rule(name, _code_block)
    return parser


def _is_address(url: str) -> bool:
    return url.strip().casefold().startswith(_SCHEMES)


def _link(renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    address = escape(str(tokens[index].attrGet("href") or ""), quote=True)
    return f'<a href="{address}" rel="noopener noreferrer nofollow">'


def _picture(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """A picture is not fetched: its description stands for it, and leads to it."""
    token = tokens[index]
    address = escape(str(token.attrGet("src") or ""), quote=True)
    said = escape(renderer.renderInlineAsText(token.children or [], options, env)) or "without description"
    return f'<a href="{address}" rel="noopener noreferrer nofollow">[image: {said}]</a>'


def _cell(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    """A cell; its alignment as a class, because the page allows no styles of its parts."""
    side = str(tokens[index].attrGet("style") or "").rpartition(":")[2]
    tag = tokens[index].tag
    return f'<{tag} class="{side}">' if side in ("left", "center", "right") else f"<{tag}>"


def _code_block(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    words = tokens[index].info.replace("{", " ").replace(",", " ").split()
    language = words[0].lstrip(".").split(":")[0].rstrip("}") if words else ""
    content = tokens[index].content
    return diff(content) if language in ("diff", "patch") else code(content, language)

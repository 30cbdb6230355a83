"""Conversion of Markdown to the format of each platform. Pure; the model's text never becomes raw markup.

HTML is built from parsed tokens with all text escaped, so HTML in a message is shown literally.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from agent.integrations.gateways.adapter import MarkdownForm, Unit
from tools.kit.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


_SAFE_LINK = lazy_pattern(r"(https?|mailto|tg):", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Form:
    """The markup of one platform: for each style, the marks before and after the text."""

    escape: Callable[[str], str]
    bold: tuple[str, str]
    italic: tuple[str, str]
    struck: tuple[str, str]
    code: tuple[str, str]
    link: Callable[[str, str], str]
    """A function of the text, already in this form, and the address."""
    fence: Callable[[str, str], str]
    """A function of the escaped code and its language."""
    quote: Callable[[str], str]


def translate_markdown(text: str, form: MarkdownForm) -> str:
    """Return a Markdown message in the format of a platform."""
    if form == "markdown":
        return text
    if form in ("plain", "signal"):
        return _render(text, _PLAIN)
    return _render(text, _FORMS[form])


def escape_slack(text: str) -> str:
    """Return text escaped so that Slack shows it literally."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _html(text: str) -> str:
    return html.escape(text, quote=False)


def _html_link(text: str, url: str) -> str:
    return f'<a href="{html.escape(url)}">{text}</a>'


def _html_fence(code: str, language: str) -> str:
    known = re.sub(r"[^A-Za-z0-9_+#-]", "", language)
    if known:
        return f'<pre><code class="language-{known}">{code}</code></pre>'
    return f"<pre>{code}</pre>"


def _lines(mark: str) -> Callable[[str], str]:
    return lambda text: "\n".join(f"{mark}{line}" for line in text.split("\n"))


def _plain_link(text: str, url: str) -> str:
    return url if text == url else f"{text} ({url})"


_PLAIN = _Form(
    escape=str,
    bold=("", ""),
    italic=("", ""),
    struck=("", ""),
    code=("`", "`"),
    link=_plain_link,
    fence=lambda code, _language: code,
    quote=_lines("> "),
)
_HTML = _Form(
    escape=_html,
    bold=("<b>", "</b>"),
    italic=("<i>", "</i>"),
    struck=("<s>", "</s>"),
    code=("<code>", "</code>"),
    link=_html_link,
    fence=_html_fence,
    quote=lambda text: f"<blockquote>{text}</blockquote>",
)
_FORMS: dict[MarkdownForm, _Form] = {
    "telegram": _HTML,
    "html": _HTML,
    "slack": _Form(
        escape=escape_slack,
        bold=("*", "*"),
        italic=("_", "_"),
        struck=("~", "~"),
        code=("`", "`"),
        link=lambda text, url: f"<{escape_slack(url).replace('|', '%7C')}|{text}>",
        fence=lambda code, _language: f"```\n{code}\n```",
        quote=_lines("> "),
    ),
    "whatsapp": _Form(
        escape=str,
        bold=("*", "*"),
        italic=("_", "_"),
        struck=("~", "~"),
        code=("`", "`"),
        link=_plain_link,
        fence=lambda code, _language: f"```\n{code}\n```",
        quote=_lines("> "),
    ),
}


@lru_cache(1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


def _render(text: str, form: _Form) -> str:
    tokens = _parser().parse(_with_products(text))
    written, _ = _blocks(tokens, 0, form, "")
    return written.strip("\n")


def _with_products(text: str) -> str:
    """Return text with stars inside words escaped, as in `2*3*4`; code is left unchanged."""
    pieces = re.split(r"(^ {0,3}```.*?(?:^ {0,3}```|\Z)|`[^`\n]*`)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        each if number % 2 else re.sub(r"(?<=\w)\*(?=\w)", r"\\*", each) for number, each in enumerate(pieces)
    )


def _blocks(tokens: Sequence[Token], at: int, form: _Form, until: str) -> tuple[str, int]:
    """Convert blocks up to the token of type `until`; return the text and the index of that token."""
    found: list[str] = []
    while at < len(tokens) and tokens[at].type != until:
        written, at = _block(tokens, at, form)
        if written:
            found.append(written)
    return "\n\n".join(found), at


def _block(tokens: Sequence[Token], at: int, form: _Form) -> tuple[str, int]:
    token = tokens[at]
    match token.type:
        case "paragraph_open":
            return _inline(tokens[at + 1], form), at + 3
        case "heading_open":
            return form.bold[0] + _inline(tokens[at + 1], form) + form.bold[1], at + 3
        case "fence" | "code_block":
            return form.fence(form.escape(token.content.rstrip("\n")), token.info.strip()), at + 1
        case "hr":
            return "———", at + 1
        case "blockquote_open":
            inner, end = _blocks(tokens, at + 1, form, "blockquote_close")
            return form.quote(inner), end + 1
        case "bullet_list_open" | "ordered_list_open":
            return _list(tokens, at, form)
        case "table_open":
            return _table(tokens, at, form)
        case "inline":
            return _inline(token, form), at + 1
        case _:
            return form.escape(token.content), at + 1


def _list(tokens: Sequence[Token], at: int, form: _Form) -> tuple[str, int]:
    opening = tokens[at]
    closing = opening.type.replace("open", "close")
    number = int(opening.attrGet("start") or 1) if opening.type.startswith("ordered") else 0
    items: list[str] = []
    at += 1
    while tokens[at].type != closing:
        inner, at = _blocks(tokens, at + 1, form, "list_item_close")
        mark = f"{number}. " if number else "• "
        number += bool(number)
        first, *rest = inner.replace("\n\n", "\n").split("\n") if "<pre>" not in inner else [inner]
        items.append("\n".join([mark + first, *(f"  {line}" for line in rest)]))
        at += 1
    return "\n".join(items), at + 1


def _table(tokens: Sequence[Token], at: int, form: _Form) -> tuple[str, int]:
    """Convert a table to monospaced columns; return the text and the index of the token after it."""
    rows: list[list[str]] = []
    while tokens[at].type != "table_close":
        if tokens[at].type == "tr_open":
            rows.append([])
        elif tokens[at].type == "inline":
            rows[-1].append(tokens[at].content.replace("\n", " "))
        at += 1
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(max(map(len, rows)))]
    lines = ["  ".join(cell.ljust(widths[i]) for i, cell in enumerate(row)).rstrip() for row in rows]
    return form.fence(form.escape("\n".join(lines)), ""), at + 1


def _inline(token: Token, form: _Form) -> str:
    marks = {"strong": form.bold, "em": form.italic, "s": form.struck}
    stack: list[tuple[str, list[str]]] = [("", [])]
    for each in token.children or ():
        kind, _, side = each.type.rpartition("_")
        match each.type:
            case "text":
                stack[-1][1].append(form.escape(each.content))
            case "softbreak" | "hardbreak":
                stack[-1][1].append("\n")
            case "code_inline":
                stack[-1][1].append(form.code[0] + form.escape(each.content) + form.code[1])
            case "link_open":
                stack.append((str(each.attrGet("href") or ""), []))
            case "link_close":
                url, inner = stack.pop()
                text = "".join(inner)
                stack[-1][1].append(form.link(text, url) if _SAFE_LINK.match(url) else text)
            case "image":
                url, text = str(each.attrGet("src") or ""), form.escape(each.content or "image")
                stack[-1][1].append(form.link(text, url) if _SAFE_LINK.match(url) else text)
            case _ if kind in marks:
                stack[-1][1].append(marks[kind][0 if side == "open" else 1])
            case _:
                stack[-1][1].append(form.escape(each.content))
    return "".join(stack[0][1])


_FENCE = lazy_pattern(r"^ {0,3}(`{3,}|~{3,})(.*)$")


def length(text: str, unit: Unit) -> int:
    """Return the length of a text as the platform counts it."""
    if unit == "bytes":
        return len(text.encode("utf-8", "replace"))
    if unit == "utf16":
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return len(text)


def chunks(text: str, limit: int, unit: Unit = "characters") -> list[str]:
    """Split a text into messages of at most `limit` units. The list is empty if the text shows nothing."""
    found: list[str] = []
    current = ""
    for block in _text_blocks(text.strip("\n")):
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


def _text_blocks(text: str) -> Iterator[str]:
    """Yield whole code fences, and the paragraphs between them with the blank lines that follow."""
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
    """Yield pieces of one block, each within the limit."""
    if length(block, unit) <= limit:
        yield block
        return
    lines = block.splitlines(keepends=True)
    mark = _FENCE.match(lines[0].rstrip("\n"))
    if mark is None:
        yield from _fill_chunks(lines, limit, unit)
        return
    opening, closing = lines[0], mark[1]
    is_closed = len(lines) > 1 and lines[-1].strip() == closing
    room = limit - length(opening, unit) - length(closing, unit) - 2
    if room < limit // 4:
        # The line that opens the fence is itself long, so it does not name a language.
        yield from _fill_chunks(lines, limit, unit)
        return
    for piece in _fill_chunks(lines[1 : -1 if is_closed else None], room, unit):
        yield opening + piece.rstrip("\n") + "\n" + closing + "\n"


def _fill_chunks(lines: list[str], limit: int, unit: Unit) -> Iterator[str]:
    current = ""
    for line in lines:
        for part in _cut_line(line, limit, unit):
            if current and length(current + part, unit) > limit:
                yield current
                current = ""
            current += part
    if current:
        yield current


def _cut_line(line: str, limit: int, unit: Unit) -> Iterator[str]:
    """Yield parts of a line, each within the limit, cut at spaces where possible."""
    while length(line, unit) > limit:
        end = _fitting(line, limit, unit)
        blank = line.rfind(" ", end // 2, end)
        end = blank + 1 if blank > 0 else end
        yield line[:end]
        line = line[end:]
    yield line


def _fitting(text: str, limit: int, unit: Unit) -> int:
    """Return how many characters of a text fit into `limit` units, at least 1."""
    low, high = 1, min(len(text), limit)
    while low < high:
        middle = (low + high + 1) // 2
        if length(text[:middle], unit) <= limit:
            low = middle
        else:
            high = middle - 1
    return low

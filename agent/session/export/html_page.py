"""An HTML page of a branch, to read and to share: one file without scripts or external resources."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.attachments import attachments_of
from agent.core.attachments import display_text as shown_with
from agent.core.messages import ToolCall
from agent.core.store.export import mask_node
from agent.core.store.nodes import MAIN, Node, Session
from agent.session.turns.shown_call import describe
from themes.states import glyph
from tools.inner_call import inner_call
from tools.registry import Registry
from tools.results import DiffDetail, TextDetail
from tools.text.redact import redact
from tools.text.safe_text import clean, truncate

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from pygments.formatters.html import HtmlFormatter
    from pygments.lexer import Lexer


CSS = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")


NESTING = 20
"""The maximum depth to which quotes and lists are nested."""
COLORED_CHARS = 32_768
"""The maximum length of code, in characters, that is coloured."""
COLORED_LINE = 400
"""The maximum length of its longest line: lexers may need quadratic time for a long one."""

_SCHEMES = ("http://", "https://", "mailto:")


def plain(text: str) -> str:
    """Return the text escaped for HTML content and attributes."""
    return escape(clean(text), quote=True)


def markdown(text: str) -> str:
    """Return Markdown rendered as HTML."""
    # Cleaned again, because entities such as `&#x202e;` have become characters.
    return clean(_parser().render(clean(text)))


def code(text: str, language: str = "") -> str:
    """Return code as an HTML block; `language` names a lexer, or a file whose suffix selects one."""
    return f'<pre class="code"><code>{_color(clean(text), language)}</code></pre>\n'


def diff(text: str) -> str:
    """Return a unified diff as HTML, each line coloured by its kind of change."""
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


def _color(text: str, language: str) -> str:
    """Return escaped text, with Pygments' classes if the language is known and the text is short."""
    text = text.removesuffix("\n")
    lexer = _lexer(language)
    if lexer is None or len(text) > COLORED_CHARS or max(map(len, text.split("\n"))) > COLORED_LINE:
        return escape(text)
    try:
        from pygments import highlight

        return highlight(text, lexer, _formatter()).removesuffix("\n")
    except Exception:  # lexers are sets of regular expressions; their faults must not lose the text
        return escape(text)


@cache
def _formatter() -> HtmlFormatter[str]:
    """Return the formatter, cached because each instance builds a style sheet."""
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
    """Return an image as a link with its description; the image itself is not loaded."""
    token = tokens[index]
    address = escape(str(token.attrGet("src") or ""), quote=True)
    said = escape(renderer.renderInlineAsText(token.children or [], options, env)) or "without description"
    return f'<a href="{address}" rel="noopener noreferrer nofollow">[image: {said}]</a>'


def _cell(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    """Return a table cell with its alignment as a class, because the page forbids inline styles."""
    side = str(tokens[index].attrGet("style") or "").rpartition(":")[2]
    tag = tokens[index].tag
    return f'<{tag} class="{side}">' if side in ("left", "center", "right") else f"<{tag}>"


def _code_block(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    words = tokens[index].info.replace("{", " ").replace(",", " ").split()
    language = words[0].lstrip(".").split(":")[0].rstrip("}") if words else ""
    content = tokens[index].content
    return diff(content) if language in ("diff", "patch") else code(content, language)


SHOWN = 60_000
"""The maximum number of characters that the page shows of one text; the middle of a longer one is omitted."""


def page_of(
    session: Session,
    nodes: Sequence[Node],
    tools: Registry,
    *,
    secrets: Mapping[str, str],
    branch: str = MAIN,
) -> str:
    """Return the nodes of a branch as an HTML page. `secrets` maps names to values that are masked.

    Details of this machine, such as the system prompt and folders above the workspace, are omitted. Blocking:
    a long session takes a second.
    """
    kept = [mask_node(node, secrets) for node in nodes]
    title = redact(session.title, secrets) or "Untitled session"
    body = "".join(_articles(kept, tools))
    style = b64encode(sha256(CSS.encode()).digest()).decode()
    rules = f"default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'"
    text = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{rules}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="Hermes">
<title>{plain(_line(title))}</title>
<style>{CSS}</style>
</head>
<body>
<header>
<h1>{plain(_line(title))}</h1>
<p class="facts">{plain(" · ".join(_facts(session, kept, branch)))}</p>
</header>
<main>
{body}</main>
<footer>A read-only copy of a session of Hermes. Known secrets are masked; read it before sharing it.</footer>
</body>
</html>
"""
    return text.encode("utf-8", "replace").decode()


def _facts(session: Session, nodes: Sequence[Node], branch: str) -> Iterator[str]:
    if nodes:
        yield f"{datetime.fromtimestamp(nodes[0].created, UTC):%Y-%m-%d}"
    yield _line(session.model)
    if branch != MAIN:
        yield f"branch {_line(branch)}"
    yield _count(sum(_is_asked(node) for node in nodes), "question")
    yield _count(sum(node.kind == "tool" for node in nodes), "tool call")


def _articles(nodes: Sequence[Node], tools: Registry) -> Iterator[str]:
    """Yield one article for each message; results of calls are part of the message that made the calls."""
    results = _results(nodes)
    for at, node in enumerate(nodes):
        match node.kind:
            case "user" if _is_asked(node):
                said = shown_with(node.content, attachments_of(node.data))
                yield _article(node, "user", "You", f'<div class="said">{_short(said)}</div>\n')
            case "assistant":
                inside = "".join(_answer(node, results.get(at, {}), tools))
                if inside:
                    yield _article(node, "model", "Hermes", inside)
            case "notice" if node.data.get("kind") not in ("todos", "mention"):
                kind = "notice warning" if node.data.get("kind") in ("warning", "error") else "notice"
                yield _article(node, kind, "Notice", f"<p>{_short(node.content)}</p>\n")
            case "compaction":
                yield _article(node, "notice", "Summary", f"<p>{_short(node.content)}</p>\n")
            case _:
                pass


def _results(nodes: Sequence[Node]) -> dict[int, dict[str, Node]]:
    """Return the results of each model message's calls, by the message's index and the call id."""
    found: dict[int, dict[str, Node]] = {}
    asked = -1
    for at, node in enumerate(nodes):
        if node.kind == "assistant":
            asked = at
        elif node.kind == "tool":
            found.setdefault(asked, {})[str(node.data.get("call", ""))] = node
    return found


def _article(node: Node, kind: str, who: str, inside: str) -> str:
    moment = f'<a href="#n{node.id}"><time>{_moment(node.created)}</time></a>'
    return f'<article class="{kind}" id="n{node.id}">\n<h2>{who} {moment}</h2>\n{inside}</article>\n'


def _answer(node: Node, results: Mapping[str, Node], tools: Registry) -> Iterator[str]:
    reasoning = node.data.get("reasoning")
    if isinstance(reasoning, str) and reasoning.strip():
        inside = f'<div class="inside">{_short(reasoning.strip())}</div>'
        yield f'<details class="thought"><summary>Thought</summary>{inside}</details>\n'
    if node.content.strip():
        yield f'<div class="prose">\n{markdown(truncate(node.content, SHOWN))}</div>\n'
    for call in _calls(node.data.get("calls")):
        yield _call(call, results.get(call.id), tools)


def _call(call: ToolCall, result: Node | None, tools: Registry) -> str:
    arguments, given = _object(call.arguments), _object(result.content if result else "")
    if meant := inner_call(call.name, arguments):
        arguments = meant[1]
        call = ToolCall(call.id, meant[0], json.dumps(arguments, ensure_ascii=False))
    display = describe(tools.get(call.name), call, arguments, given if result else None)
    outcome = str(result.data.get("outcome", "done")) if result else "interrupted"
    kind = outcome if outcome in ("done", "failed", "denied") else "interrupted"
    seconds = result.data.get("seconds") if result else None
    facts = [_line(display.summary) or (kind if kind != "done" else "")]
    if isinstance(seconds, (int, float)) and seconds >= 0.1:
        facts.append(f"{seconds:,.1f} s")
    head = (
        f'<span class="mark">{glyph(kind, display.exit_code)}</span><b>{plain(_line(display.verb))}</b>'
        f'<span class="subject">{plain(_line(display.subject))}</span>'
        f'<span class="outcome">{plain(" · ".join(filter(None, facts)))}</span>'
    )
    parts = [_part("Asked for", _json(call.arguments, arguments))]
    detail = display.detail
    if isinstance(detail, DiffDetail):
        parts.append(_part("Changed", diff(truncate(detail.diff, SHOWN))))
    elif isinstance(detail, TextDetail):
        parts.append(_part("Result", code(truncate(detail.text, SHOWN), detail.language)))
    elif result is not None:
        parts.append(_part("Result", _json(result.content, given)))
    inside = "".join(parts)
    whole = f'<summary>{head}</summary><div class="inside">{inside}</div>'
    return f'<details class="call {kind}">{whole}</details>\n'


def _part(name: str, inside: str) -> str:
    return f"<h3>{name}</h3>\n{inside}"


def _json(text: str, value: Mapping[str, Any]) -> str:
    """Return `value` as an HTML block of indented JSON; `text` is used if there is no value."""
    shown = json.dumps(value, indent=2, ensure_ascii=False) if value else text
    return code(truncate(shown, SHOWN), "json")


def _calls(records: Any) -> Iterator[ToolCall]:
    for each in records if isinstance(records, (list, tuple)) else ():
        if isinstance(each, Mapping):
            arguments = each.get("arguments", "")
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            yield ToolCall(str(each.get("id", "")), str(each.get("name", "")), text)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _is_asked(node: Node) -> bool:
    return node.kind == "user" and node.data.get("origin") != "engine"


def _short(text: str) -> str:
    return plain(truncate(text, SHOWN))


def _line(text: str) -> str:
    return " ".join(text.split())


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number != 1)}"


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"

"""A branch as a page to read and to share: one file that runs nothing and loads nothing."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from agent.core.attachments import attachments_of
from agent.core.attachments import shown as shown_with
from agent.core.messages import ToolCall
from agent.core.store.export import masked
from agent.core.store.nodes import MAIN, Node, Session
from agent.session.export.html_text import code, diff, markdown, plain
from agent.session.export.page_style import CSS
from agent.session.turns.shown_call import describe
from tools.inner_call import inner_call
from tools.registry import Registry
from tools.results import DiffDetail, TextDetail
from tools.text.redact import redact
from tools.text.safe_text import truncate

SHOWN = 60_000
"""Characters of one text that the page shows; the middle of a longer one is left out, and said to be."""

_MARKS = {"done": "✓", "failed": "✗", "denied": "⊘"}


def page_of(
    session: Session,
    nodes: Sequence[Node],
    tools: Registry,
    *,
    secrets: Mapping[str, str],
    branch: str = MAIN,
) -> str:
    """The path `nodes` of a branch as HTML. `secrets` are values, by name, that are masked.

    What tells of this machine rather than of the work, such as the prompt of the system and
    folders above the workspace, is not in it. Blocking: a long session takes a second.
    """
    kept = [masked(node, secrets) for node in nodes]
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
        yield _day(nodes[0].created)
    yield _line(session.model)
    if branch != MAIN:
        yield f"branch {_line(branch)}"
    yield _count(sum(_is_asked(node) for node in nodes), "question")
    yield _count(sum(node.kind == "tool" for node in nodes), "tool call")


def _articles(nodes: Sequence[Node], tools: Registry) -> Iterator[str]:
    """One article for each message; the results of calls stand with the message that asked for them."""
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
    """For the index of each message of the model, the results of its calls by their id."""
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
        f'<span class="mark">{_MARKS.get(kind, "■")}</span><b>{plain(_line(display.verb))}</b>'
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
    """JSON laid out to be read; what is none as it is."""
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


def _day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"

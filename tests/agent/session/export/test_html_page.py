"""A branch as a page: complete, readable, and harmless whatever was said."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.store.nodes import Node, Session
from agent.session.export.html_page import SHOWN, code, diff, markdown, page_of
from tests.support.hostile import KINDS
from tools.discovery import discover
from tools.registry import registry

TAGS = frozenset(
    re.findall(
        r"\w+",
        "html head meta title style body header h1 h2 h3 h4 h5 h6 p main article a time div details summary "
        "span b pre code footer em strong s ul ol li blockquote hr br table thead tbody tr th td",
    )
)
ATTRIBUTES = {
    *(("meta", name) for name in ("charset", "http-equiv", "content", "name")),
    *(("a", name) for name in ("href", "rel")),
    *((tag, "class") for tag in ("article", "div", "details", "span", "p", "pre", "code", "th", "td")),
    ("html", "lang"),
    ("article", "id"),
    ("ol", "start"),
}

ATTACKS = (
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</title><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "<!-- x --><![CDATA[ x ]]><?php x ?>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt&colon;alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "![x](https://example.org/track.png)",
    '![a" onerror="x](https://example.org/"onerror=x)',
    '[x](https://example.org/"onmouseover=alert(1)//)',
    '<https://example.org/"onclick=x>',
    '[x](//example.org "on")',
    "https://example.org/<script>",
    "```<script>\n</code></pre><script>alert(1)</script>\n```",
    '```html "><script>\n<script>x</script>\n```',
    "```diff\n+<script>x</script>\n-</span>\n@@ <b>\n```",
    '<a href="x" style="position:fixed">x</a>',
    "| a |\n|:-:|\n| <b onclick=x> |",
    "&lt;script&gt;&#60;script&#62;",
    "> " * 500 + "x",
    "[" * 3_000 + "x",
    "*_" * 2_000,
    "\ud800 \x00 \x1b]52;c;eA==\x07",
    "[x]: javascript:alert(1)\n\n[x]",
)


class Reader(HTMLParser):
    """Collects every tag with its attributes, and what is not closed as it was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"<!-- {data}")

    def unknown_decl(self, data: str) -> None:
        self.wrong.append(data)

    def handle_pi(self, data: str) -> None:
        self.wrong.append(data)


def read(page: str) -> Reader:
    """The parsed page, after a check that nothing in it is more than text and known tags."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.wrong
    assert not reader.open
    for tag, attributes in reader.tags:
        assert tag in TAGS
        for name, value in attributes.items():
            assert (tag, name) in ATTRIBUTES
            if name == "href":
                assert re.match(r"https?://|mailto:|#n\d+$", value or "", re.IGNORECASE)
    return reader


def nodes(*given: tuple[str, str, dict[str, Any]]) -> list[Node]:
    return [
        Node(number, "s", number - 1 or None, kind, 1_700_000_000.0, content, data)
        for number, (kind, content, data) in enumerate(given, 1)
    ]


def page(path: list[Node], title: str = "A title", **options: Any) -> str:
    discover()
    session = Session("s", title, "/home/somebody/project", "some/model", 0.0, 0.0, None)
    return page_of(session, path, registry, secrets=options.pop("secrets", {}), **options)


def everywhere(text: str) -> list[Node]:
    """A path that says `text` in every place there is."""
    calls = [
        {"id": "1", "name": "terminal", "arguments": json.dumps({"command": text})},
        {"id": "2", "name": text, "arguments": text},
        {"id": text, "name": "patch", "arguments": "{}"},
    ]
    return nodes(
        ("system", text, {}),
        ("user", text, {"attachments": [{"name": text}]}),
        ("assistant", text, {"reasoning": text, "calls": calls}),
        (
            "tool",
            json.dumps({"output": text, "exit_code": 0}),
            {"call": "1", "tool": "terminal", "outcome": text},
        ),
        ("tool", text, {"call": "2", "tool": text, "outcome": "failed", "seconds": text}),
        (
            "tool",
            json.dumps({"diff": text, text: [text]}),
            {"call": text, "tool": "patch", "outcome": "done"},
        ),
        ("notice", text, {"kind": text}),
        ("compaction", text, {}),
        ("assistant", text, {"calls": text, "reasoning": 3}),
    )


@pytest.mark.sample(6)
@pytest.mark.parametrize("text", ATTACKS, ids=range(len(ATTACKS)))
def test_nothing_that_was_said_becomes_markup(text: str) -> None:
    read(page(everywhere(text), title=text, branch=text))


HUGE = 150_000
"""Characters of a text that costs a second in all these places."""


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=kind.name, marks=[pytest.mark.thorough] if len(kind.text) > HUGE else [])
        for kind in KINDS
    ],
)
def test_text_meant_for_terminals_does_no_harm(kind: Any) -> None:
    text = "".join(read(page(everywhere(kind.text), title=kind.text[:200])).text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


MARKUP = st.lists(
    st.sampled_from(
        [
            *'<>&"`*_[]()!|\\\n #-+=~:',
            "<b>",
            "http://x",
            "](",
            "```",
            "    ",
            "&#",
            ";",
            "a",
            "javascript:",
            "<!--",
        ]
    ),
    max_size=40,
).map("".join)


@given(text=MARKUP)
def test_any_markdown_gives_well_formed_html_of_known_tags(text: str) -> None:
    read(markdown(text) + code(text, "html") + diff(text))


def test_the_page_loads_and_runs_nothing() -> None:
    text = page(everywhere("![x](https://example.org/x.png) text"))
    rules = next(each["content"] for _, each in read(text).tags if "http-equiv" in each) or ""
    assert rules.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in rules
    assert not re.search(r"<(script|img|link|iframe|object|form|input)|\ssrc=|@import|url\(", text)


def test_the_rules_of_the_page_allow_exactly_its_own_style() -> None:
    from base64 import b64encode
    from hashlib import sha256

    text = page(nodes(("user", "hello", {})))
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in text


def shown(text: str) -> Iterator[str]:
    yield from (piece.strip() for piece in read(text).text if piece.strip())


def test_a_conversation_reads_from_top_to_bottom() -> None:
    calls = [{"id": "1", "name": "terminal", "arguments": '{"command": "make test"}'}]
    text = page(
        nodes(
            ("system", "You are the system prompt.", {}),
            ("user", "Why is it *red*?", {"origin": "prompt"}),
            ("user", "a hint of the engine", {"origin": "engine"}),
            ("assistant", "", {"reasoning": "Look first.", "calls": calls}),
            (
                "tool",
                '{"output": "1 failed", "exit_code": 2}',
                {"call": "1", "tool": "terminal", "seconds": 2.5},
            ),
            ("assistant", "Because **it** is `so`.\n\n```python\ndef f(): pass\n```", {"calls": []}),
        ),
        branch="side",
    )
    pieces = list(shown(text))
    for earlier, later in zip(
        ("A title", "You", "Why is it *red*?", "Hermes", "Thought", "Look first.", "make test"),
        ("You", "Why is it *red*?", "Hermes", "Thought", "Look first.", "make test", "Because"),
        strict=True,
    ):
        assert pieces.index(earlier) < pieces.index(later)
    assert "2023-11-14 · some/model · branch side · 1 question · 1 tool call" in pieces
    assert "<strong>it</strong>" in text
    assert '<span class="nf">f</span>' in text
    assert "2.5 s" in text
    for hidden in ("system prompt", "hint of the engine", "/home/somebody"):
        assert hidden not in text


def test_a_change_of_a_file_is_shown_as_a_coloured_diff() -> None:
    calls = [{"id": "1", "name": "patch", "arguments": '{"mode": "replace", "path": "a.py"}'}]
    result = {"success": True, "path": "a.py", "diff": "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-old\n+new\n"}
    text = page(
        nodes(
            ("assistant", "", {"calls": calls}),
            ("tool", json.dumps(result), {"call": "1", "tool": "patch", "outcome": "done"}),
        )
    )
    assert '<span class="da">+new</span>' in text
    assert '<span class="dr">-old</span>' in text


def test_a_call_without_a_result_is_said_to_be_interrupted() -> None:
    calls = [{"id": "1", "name": "terminal", "arguments": '{"command": "sleep 9"}'}]
    text = page(nodes(("assistant", "", {"calls": calls})))
    assert '<details class="call interrupted">' in text
    assert "interrupted" in list(shown(text))


def test_results_stand_with_the_message_that_asked_though_ids_repeat() -> None:
    def turn(word: str) -> list[tuple[str, str, dict[str, Any]]]:
        calls = [{"id": "call_0", "name": "terminal", "arguments": json.dumps({"command": f"echo {word}"})}]
        return [
            ("assistant", f"turn {word}", {"calls": calls}),
            ("tool", json.dumps({"output": f"said {word}"}), {"call": "call_0", "tool": "terminal"}),
        ]

    text = page(nodes(*turn("one"), *turn("two")))
    order = [text.index(word) for word in ("turn one", "said one", "turn two", "said two")]
    assert order == sorted(order)


def test_secrets_are_masked_wherever_they_stand() -> None:
    secret = "correct-horse-battery-staple-77"
    text = page(everywhere(f"the key {secret} of it"), title=f"about {secret}", secrets={"MY_KEY": secret})
    assert secret not in text
    assert "[MY_KEY redacted]" in text


def test_the_middle_of_an_endless_text_is_left_out_and_said_to_be() -> None:
    text = page(nodes(("user", "start " + "x" * (3 * SHOWN) + " end", {})))
    assert len(text) < 2 * SHOWN
    assert "characters left out" in text
    assert "start x" in text
    assert "x end" in text


def test_pictures_become_their_description() -> None:
    assert markdown("![a *cat*](https://example.org/cat.png)") == (
        '<p><a href="https://example.org/cat.png" rel="noopener noreferrer nofollow">[image: a cat]</a></p>\n'
    )


def test_a_table_keeps_its_alignment_without_styles_of_its_own() -> None:
    html = markdown("| a | b |\n|--:|:-:|\n| 1 | 2 |\n")
    assert '<td class="right">1</td>' in html
    assert '<td class="center">2</td>' in html

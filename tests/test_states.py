"""One glyph and one tone for each state, on every screen, on the page and in plain lines."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from themes.skin import ROLES
from themes.states import IN_USE, STATES, TO_ASCII, draws_ascii_only, glyph, state_of

ROOT = Path(__file__).parents[1]
ALIKE = "◐◑◌◎⏸⏹⏵►⚠✔✘☑☐☒❌✅⛔🚫‖"
"""Glyphs that other programs use for states."""
NO_STATES = {
    "widgets/timeline/paint.py": "kinds of messages in the graph",
    "agent/knowledge/context/quarantine.py": "what a text forbids",
    "agent/integrations/gateways/chat_head.py": "errors in messengers, where no skin has a tone",
}


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Every text of a module that is not a docstring."""
    tree = ast.parse(source)
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.lineno, node.value


def test_each_state_has_the_glyph_that_is_agreed_and_a_tone_of_the_skins() -> None:
    assert {name: state.glyph for name, state in STATES.items()} == {
        "pending": "○", "working": "▶", "needs you": "◆", "done": "✓", "failed": "✗",
        "exit": "!", "denied": "⊘", "stopped": "■", "skipped": "·",
    }  # fmt: skip
    assert {state.role for state in STATES.values()} <= ROLES.keys()
    assert len({state.ascii for state in STATES.values()}) == len(STATES)
    assert all(len(state.ascii) == 1 and state.ascii.isascii() for state in STATES.values())


def test_no_module_draws_a_state_but_from_the_table() -> None:
    glyphs = {state.glyph for state in STATES.values()} - {"!", "·"} | {IN_USE, *ALIKE}
    stray = [
        f"{name}:{line} {text[:60]!r}"
        for floor in ("app", "widgets", "agent", "tools")
        for path in sorted((ROOT / floor).rglob("*.py"))
        if (name := str(path.relative_to(ROOT))) not in NO_STATES and "bundled" not in path.parts
        if glyphs & set(source := path.read_text("utf-8"))
        for line, text in texts(source)
        if glyphs & set(text)
    ]
    assert stray == []


def test_the_page_uses_the_same_table() -> None:
    folder = ROOT / "app/service/page"
    source = (folder / "nodes.js").read_text()
    table = re.search(r"GLYPHS = (\{[^}]*\})", source)
    assert table
    known = json.loads(re.sub(r"(\w+):", r'"\1":', table[1]))
    assert known == {word: glyph(word) for word in known}
    drawn = set("".join(path.read_text() for path in folder.glob("*.js"))) - set(table[1])
    assert not drawn & {state.glyph for state in STATES.values()}


@pytest.mark.parametrize(
    ("word", "code", "name"),
    [
        (None, None, "working"), ("running", None, "working"), ("in_progress", None, "working"),
        ("done", None, "done"), ("done", 0, "done"), ("done", 1, "exit"), ("done", -9, "exit"),
        ("failed", 1, "failed"), ("denied", 1, "denied"), ("interrupted", 130, "stopped"),
        ("budget", None, "stopped"), ("cancelled", None, "skipped"), ("waiting", None, "needs you"),
        ("not agreed", None, "needs you"), ("disabled", None, "skipped"), ("refused", None, "denied"),
        ("nobody", None, "denied"), ("a word of tomorrow", None, "skipped"),
    ],
)  # fmt: skip
def test_words_of_events_and_records_mean_one_state(word: str | None, code: int | None, name: str) -> None:
    assert state_of(word, code) == STATES[name]  # type: ignore[index]


def test_poor_terminals_and_encodings_get_every_glyph_in_ascii() -> None:
    assert draws_ascii_only({"TERM": "linux"})
    assert not draws_ascii_only({"TERM": "xterm-256color"})
    assert "○ ▶ ◆ ✓ ✗ ! ⊘ ■ · read · 3".translate(TO_ASCII) == "o > ? + x ! - # · read · 3"

"""What a message refers to with `@`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context.references import references, without

CASES = {
    "look at @file:src/a.py please": [("file", "src/a.py", None, None)],
    "@file:src/a.py:10-20": [("file", "src/a.py", 10, 20)],
    "@file:src/a.py:7.": [("file", "src/a.py", 7, 7)],
    "@file:src/a.py:20-10": [("file", "src/a.py", 10, 20)],
    "@file:src/a.py:0": [("file", "src/a.py", 1, 1)],
    '@file:"a b.txt":2-3': [("file", "a b.txt", 2, 3)],
    '@file:"a b.txt", and': [("file", "a b.txt", None, None)],
    "@file:'it is.txt'": [("file", "it is.txt", None, None)],
    "@file:`x y`:4": [("file", "x y", 4, 4)],
    "(see @file:a.py)": [("file", "a.py", None, None)],
    "@file:f(1).py": [("file", "f(1).py", None, None)],
    "@folder:src/": [("folder", "src/", None, None)],
    "@diff and @staged": [("diff", "", None, None), ("staged", "", None, None)],
    "what is in @diff?": [("diff", "", None, None)],
    "@git:3": [("git", "3", None, None)],
    "@git:99999999999": [("git", "10", None, None)],
    "@git:0": [("git", "1", None, None)],
    "@git:abc": [],
    "@url:https://example.org/a?b=c#d.": [("url", "https://example.org/a?b=c#d", None, None)],
    "@url:https://en.example.org/A_(b)": [("url", "https://en.example.org/A_(b)", None, None)],
    "see @box:note://7, or @box:data:x;y": [
        ("resource", "note://7", None, None),
        ("resource", "data:x;y", None, None),
    ],
    "@box:plain": [],
    "ana@diff.org": [],
    "ana@file:x": [],
    "@diffuse": [],
    "@diff-tool": [],
    "@src/a.py": [],
    "@file:": [],
    '@file:""': [],
    "@file:a.py @file:b.py:1": [("file", "a.py", None, None), ("file", "b.py", 1, 1)],
    "@file:C:x": [("file", "C:x", None, None)],
}


@pytest.mark.parametrize(("text", "expected"), CASES.items())
def test_references_are_read(text: str, expected: list[tuple[str, str, int | None, int | None]]) -> None:
    found = references(text)
    assert [(each.kind, each.target, each.first, each.last) for each in found] == expected
    for each in found:
        assert text[each.start] == "@"


def test_a_message_can_be_shown_without_its_references() -> None:
    text = 'fix  @file:"a b.py":1-2 , and @diff.'
    assert without(text, references(text)) == "fix , and ."


def test_a_message_full_of_references_is_read_up_to_a_limit() -> None:
    assert len(references("@diff " * 500)) == 50


@given(st.text(st.sampled_from("@file:folder:diff git:url:\"'`()[]-0123 .,/\nx"), max_size=60))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for each in references(text):
        assert 0 <= each.start < each.end <= len(text)
        assert each.first is None or each.last is None or 1 <= each.first <= each.last

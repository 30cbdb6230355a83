"""What a message refers to with `@`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.knowledge.context.references import references, without_references

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
    assert without_references(text, references(text)) == "fix , and ."


def test_a_message_full_of_references_is_read_up_to_a_limit() -> None:
    assert len(references("@diff " * 500)) == 50


@given(st.text(st.sampled_from("@file:folder:diff git:url:\"'`()[]-0123 .,/\nx"), max_size=60))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for each in references(text):
        assert 0 <= each.start < each.end <= len(text)
        assert each.first is None or each.last is None or 1 <= each.first <= each.last


PLAIN = {
    "look at @src/a.py.": [("src/a.py", None, None)],
    "@src/a.py:10-20 and @src/b.py:7": [("src/a.py", 10, 20), ("src/b.py", 7, 7)],
    '@"a b.txt":2-3': [("a b.txt", 2, 3)],
    "(@README.md)": [("README.md", None, None)],
    "ana@example.org": [],
    "a@b @@c x/@d": [],
    "```\n@src/a.py\n```\nbut @src/b.py": [("src/b.py", None, None)],
    "~~~~ sh\n@a\n~~~\n@b\n~~~~\n@c": [("c", None, None)],
    "```\n@never/closed": [],
    "> ```\n> @in/quotes\n> ```\n> @after": [("after", None, None)],
    "> ```\n> @never/closed\n\n@after": [("after", None, None)],
    "> ```\n> @a/b\nthen\n```\n@c/d\n```\n@after": [("after", None, None)],
    "- ```\n  @in/a/list\n  ```\n@after": [("after", None, None)],
    "1. do\n\n     ```\n     @in/a/list\n     ```": [],
    "```not a fence``` @a": [("a", None, None)],
}


@pytest.mark.parametrize(("text", "expected"), PLAIN.items())
def test_plain_mentions_are_read_where_they_are_asked_for(
    text: str, expected: list[tuple[str, int | None, int | None]]
) -> None:
    found = [each for each in references(text, plain=True) if each.plain]
    assert [(each.target, each.first, each.last) for each in found] == expected
    assert not any(each.plain for each in references(text))


def test_nothing_in_a_block_of_code_is_a_reference() -> None:
    assert [each.target for each in references("@file:a\n```\n@file:b @diff\n```\n@file:c")] == ["a", "c"]


def test_many_handles_do_not_hide_what_is_attached() -> None:
    found = references("@someone " * 5_000 + "@file:a.py", plain=True)
    assert found[-1].kind == "file"
    assert found[-1].target == "a.py"
    assert len(found) == 501

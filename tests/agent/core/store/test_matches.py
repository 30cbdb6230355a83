"""Where the terms of a search stand in a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.store.query_line import parse
from agent.core.store.search import spans


@pytest.mark.parametrize(
    ("query", "text", "shown"),
    [
        ("round", "Round and round", ["Round", "round"]),
        ("creme brulee", "la crème brûlée", ["crème", "brûlée"]),
        ("resume", "a re\u0301sume\u0301 b", ["re\u0301sume"]),
        ("数据", "连接数据库", ["数据"]),
        ("user@example", "x user@example.com", ["user@example"]),
        ("foo-bar", "the foo bar", ["foo bar"]),
        ('"a b"', "a b, b a", ["a b"]),
        ("ab bc", "abc", ["abc"]),
        ("it's", "it’s", ["it’s"]),
        ("(", "f(x)", ["("]),
        ("zebra", "otter", []),
        ("", "otter", []),
    ],
)
def test_matches_are_found_as_the_text_has_them(query: str, text: str, shown: list[str]) -> None:
    assert [text[first:last] for first, last in spans(text, parse(query))] == shown


@given(st.text(max_size=12), st.text(max_size=60))
def test_places_are_in_order_apart_and_inside(query: str, text: str) -> None:
    places = spans(text, parse(query))
    edges = [edge for place in places for edge in place]
    assert edges == sorted(edges)
    assert all(0 <= first < last <= len(text) for first, last in places)

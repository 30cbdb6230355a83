from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from agent.core.store.nodes import TITLE_LENGTH, new_session_id, storable, title_of


def test_session_ids_sort_by_time_and_differ() -> None:
    early, late = new_session_id(1_000_000_000), new_session_id(1_000_000_001)
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{6}", early)
    assert early.startswith("20010909-014640-")
    assert early < late
    assert len({new_session_id(0) for _ in range(50)}) > 1


def test_a_title_is_the_first_line_that_says_something() -> None:
    assert title_of("\n\n  Fix the   build \nand more") == "Fix the build"
    assert title_of(" \n\t\n") == ""
    assert title_of("\x1b[31mred\x1b[0m text") == "red text"


def test_a_long_title_is_cut_between_words() -> None:
    title = title_of("please " * 30)
    assert title.endswith("please…")
    assert len(title) <= TITLE_LENGTH
    assert len(title_of("x" * 500)) == TITLE_LENGTH


@given(st.text(st.characters(codec=None, categories=None), max_size=200))
def test_any_text_can_be_stored_and_titled(text: str) -> None:
    kept = storable(text)
    kept.encode()
    assert storable(kept) == kept
    title = title_of(text)
    assert len(title) <= TITLE_LENGTH
    assert "\n" not in title
    assert "\x1b" not in title


def test_halves_of_a_pair_are_joined() -> None:
    assert storable("a\ud83d\ude00b") == "a😀b"
    assert storable("a\ud83db") == "a\ufffdb"

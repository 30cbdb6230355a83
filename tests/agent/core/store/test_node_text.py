from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.store.nodes import INDEXED_CHARS, fold, readable, searchable

MIXED = st.text(st.sampled_from("aé́bß 你好世界한국ア🎉→“”’\0.,x"), max_size=30)


def test_json_results_are_unfolded_so_that_lines_begin_with_their_words() -> None:
    content = json.dumps({"output": "alpha\nbeta", "exit_code": 3, "more": [{"x": "é"}, True, None]})
    assert readable("tool", content, {}) == "alpha\nbeta\n3\né"
    assert readable("tool", "no json", {}) == "no json"
    assert readable("tool", "{broken", {}) == "{broken"
    assert readable("tool", "[" * 100_000, {}) == "[" * 100_000


def test_calls_of_an_assistant_are_written_out() -> None:
    calls = [{"id": "1", "name": "write_file", "arguments": '{"content": "one\\ntwo"}'}, "odd", {"name": "x"}]
    assert readable("assistant", "Look:", {"calls": calls}) == "Look:\nwrite_file one\ntwo\nx "
    assert readable("assistant", "", {"calls": "odd"}) == ""


def test_searches_do_not_find_themselves() -> None:
    calls = [{"id": "1", "name": "session_search", "arguments": '{"query": "needle"}'}]
    assert "needle" not in searchable("assistant", "hm", {"calls": calls})
    assert searchable("tool", "needle", {"tool": "session_search"}) == ""


def test_prompts_and_summaries_are_not_searched_and_long_results_are_cut() -> None:
    assert searchable("system", "text", {}) == ""
    assert searchable("compaction", "text", {}) == ""
    assert len(searchable("tool", "x" * 30_000, {})) == INDEXED_CHARS["tool"]


def test_folding_drops_accents_and_sets_symbols_apart() -> None:
    assert fold("Crème brûlée") == "Creme brulee"
    assert fold("你好") == " 你  好 "
    assert fold("ok🎉") == "ok 🎉 "
    assert fold("don’t\0") == "don't "
    assert fold("plain_text 100%") == "plain_text 100%"


@given(MIXED, MIXED, MIXED)
def test_a_part_of_a_text_stays_a_part_when_both_are_folded(before: str, part: str, after: str) -> None:
    # A combining mark belongs to the letter before it, so it is kept off the seams.
    if part.startswith("\u0301") or after.startswith("\u0301"):
        return
    assert fold(part) in fold(before + part + after)


@pytest.mark.thorough
@given(st.text(st.characters(codec=None, categories=None)), st.sampled_from(sorted(INDEXED_CHARS)))
def test_any_text_can_be_made_searchable(text: str, kind: str) -> None:
    assert "\0" not in searchable(kind, text, {})

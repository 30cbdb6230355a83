"""Ids of calls as every provider takes them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from agent.core.messages import ToolCall
from agent.model.calls.call_ids import CallIds

ID = st.one_of(st.sampled_from(["", "call_0", "call_0_2", "a b", "ü"]), st.text(max_size=80))
MESSAGES = st.lists(st.lists(ID, max_size=3, unique=True), max_size=8)


@given(MESSAGES, st.sampled_from([40, 64]))
def test_ids_are_plain_short_unique_and_the_same_every_time(messages: list[list[str]], longest: int) -> None:
    def made() -> list[str]:
        ids = CallIds(longest)
        found: list[str] = []
        for message in messages:
            given = ids.add([ToolCall(each, "a", "{}") for each in message])
            assert [ids.result_id(each) for each in message] == given
            found += given
        return found

    once = made()
    assert once == made()
    assert len(set(once)) == len(once)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", each) and len(each) <= longest for each in once)


def test_an_id_that_every_provider_takes_stays_and_a_result_without_a_call_has_none() -> None:
    ids = CallIds()
    assert ids.add([ToolCall("toolu_01A-b", "a", "{}")]) == ["toolu_01A-b"]
    assert ids.result_id("other") is None

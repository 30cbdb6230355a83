"""Server-sent events, divided anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ModelError
from agent.model.transport.answer import SSEDecoder

PIECES = st.sampled_from(
    [
        b"data:",
        b"data: ",
        b"data",
        b"event: message",
        b": comment",
        b"id",
        b'{"a": 1}',
        "ü€🎉".encode(),
        b"\xf0\x9f",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xa8",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b" ",
        b"\x85",
        b"\x0b",
        b"\x00",
        b"",
    ]
)


def reference(stream: bytes) -> list[str]:
    """The standard, word by word: decode everything, then go through the lines."""
    text = stream.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    events: list[str] = []
    data: list[str] = []
    for line in lines[:-1]:
        if not line:
            if data:
                events.append("\n".join(data))
            data = []
            continue
        name, _, value = line.partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
    return events


def decode(*chunks: bytes) -> list[str]:
    decoder = SSEDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


@pytest.mark.thorough
@given(st.lists(PIECES, max_size=30).map(b"".join), st.lists(st.integers(0, 200), max_size=20))
def test_any_division_of_the_bytes_gives_the_events_of_the_standard(stream, cuts):
    ends = sorted({min(cut, len(stream)) for cut in cuts})
    chunks = [stream[start:end] for start, end in zip([0, *ends], [*ends, len(stream)], strict=True)]
    assert decode(*chunks) == reference(stream)


@given(st.lists(PIECES, max_size=30).map(b"".join))
def test_single_bytes_give_the_events_of_the_standard(stream):
    assert decode(*(bytes([byte]) for byte in stream)) == reference(stream)


def test_a_carriage_return_and_a_line_feed_in_two_chunks_are_one_line_end():
    assert decode(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == ["a\nb"]


def test_data_over_several_lines_is_joined_with_line_feeds():
    assert decode(b"data: a\ndata:b\ndata\n\n") == ["a\nb\n"]


def test_comments_and_other_fields_are_skipped():
    assert decode(b": hi\n\nevent: x\nid: 1\nretry: 5\ndatabase: no\ndata: yes\n\n") == ["yes"]


def test_only_one_space_after_the_colon_is_dropped():
    assert decode(b"data:  two\n\n") == [" two"]


def test_a_byte_order_mark_counts_only_at_the_start():
    assert decode(b"\xef", b"\xbb\xbfdata: a\n\n", b"\xef\xbb\xbfdata: b\n\n") == ["a"]


def test_bytes_that_are_no_utf8_become_replacement_characters():
    assert decode(b"data: \xff\xf0\x9f\n\n") == ["\ufffd\ufffd"]


def test_an_event_without_its_blank_line_is_given_at_the_end():
    decoder = SSEDecoder()
    assert decoder.feed(b"data: one\n\ndata: [DO") == ["one"]
    assert decoder.feed(b"NE]") == []
    assert decoder.rest() == "[DONE]"
    assert decoder.rest() is None


def test_nothing_is_left_after_a_complete_stream():
    decoder = SSEDecoder()
    decoder.feed(b"data: one\n\n: bye")
    assert decoder.rest() is None


@pytest.mark.parametrize("line", [b"x" * 50, b"data: abcdefgh\n", b"data\n"])
def test_an_event_past_the_limit_is_refused_and_one_within_it_is_not(line):
    decoder = SSEDecoder(limit=100)
    with pytest.raises(ModelError) as caught:
        for _ in range(200):
            decoder.feed(line)
    assert caught.value.kind == "bad_reply"


def test_events_within_the_limit_can_go_on_for_ever():
    decoder = SSEDecoder(limit=100)
    assert sum(len(decoder.feed(b"data: " + b"x" * 90 + b"\n\n")) for _ in range(100)) == 100

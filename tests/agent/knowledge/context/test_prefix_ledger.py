"""The prompt prefix stays as it was sent, or the change is named."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.knowledge.context.context_table import Break, PrefixLedger, Sending, cache_marks
from agent.model.protocol import THOUGHT, Frame

frames = st.lists(st.binary(min_size=1, max_size=6), max_size=6)


def made(*pieces: bytes) -> list[Frame]:
    return [Frame(piece) for piece in pieces]


def sent(sending: Sending) -> tuple[tuple[bytes, ...], Break | None]:
    return tuple(frame.data for frame in sending.frames), sending.broken


def test_requests_that_only_grow_break_nothing() -> None:
    ledger = PrefixLedger()
    ledger.extend(made(b"a"))
    assert sent(ledger.send(b"[]")) == ((b"a",), None)
    ledger.extend(made(b"b", b"c"))
    assert sent(ledger.send(b"[]")) == ((b"a", b"b", b"c"), None)


def test_a_rewrite_is_a_break_with_its_reason_once() -> None:
    ledger = PrefixLedger()
    ledger.extend(made(b"a", b"b"))
    ledger.send()
    ledger.rewrite(made(b"a", b"x"), "made room")
    broken = ledger.send().broken
    assert broken is not None
    assert broken.declared
    assert broken.reason == "made room"
    assert ledger.send().broken is None


def test_a_rewrite_that_keeps_what_was_sent_is_no_break() -> None:
    ledger = PrefixLedger()
    ledger.extend(made(b"a"))
    ledger.send()
    ledger.rewrite(made(b"a", b"b"), "nothing really")
    assert ledger.send().broken is None


def test_a_change_nobody_declared_is_found() -> None:
    ledger = PrefixLedger()
    ledger.extend(made(b"a", b"b"))
    ledger.send()
    ledger._frames[0] = Frame(b"z")
    broken = ledger.send().broken
    assert broken is not None
    assert not broken.declared


def test_other_tools_break_the_prefix() -> None:
    ledger = PrefixLedger()
    ledger.extend(made(b"a"))
    ledger.send(b"[1]")
    broken = ledger.send(b"[2]").broken
    assert broken is not None


@given(st.lists(frames, min_size=1, max_size=6))
def test_the_digest_covers_all_that_was_sent(pieces: list[list[bytes]]) -> None:
    ledger = PrefixLedger()
    whole: tuple[bytes, ...] = ()
    for piece in pieces:
        ledger.extend(made(*piece))
        whole, broken = sent(ledger.send())
        assert broken is None
    assert ledger.digest == hashlib.sha256(b"".join(whole)).hexdigest()
    assert ledger.size == sum(map(len, whole))


def spoken(pattern: str) -> list[Frame]:
    """Frames by letter: `u` the person's side, `o` own words, `t` own thoughts, `f` another model's words."""
    kinds = {"u": ("user", ""), "o": ("assistant", ""), "t": ("assistant", THOUGHT), "f": ("assistant", "")}
    return [
        Frame(f"{at}{letter}".encode(), *kinds[letter], own=letter in "ot")
        for at, letter in enumerate(pattern)
    ]


@pytest.mark.parametrize(
    ("pattern", "sent", "without", "marks"),
    [
        ("", 0, "", ()),
        ("u", 0, "", (0,)),
        ("uo", 0, "", (0, 1)),
        ("uouu", 0, "", (0, 3)),
        ("uoufuu", 0, "", (0, 5)),
        ("uouoou", 0, "", (2, 5)),
        ("utouu", 3, "", (0, 2, 4)),
        ("utouuou", 0, "", (0, 4, 6)),
        ("utouuou", 0, THOUGHT, (3, 5)),
        ("utoutou", 0, THOUGHT, (2, 4)),
        ("utouu", 0, THOUGHT, (0, 3)),
        ("uu", 1, "", (0, 1)),
        ("fu", 0, "", (1,)),
        ("ou", 0, "", (1,)),
    ],
)
def test_marks_stand_at_the_newest_frame_and_where_the_cache_of_the_model_ended(
    pattern: str, sent: int, without: str, marks: tuple[int, ...]
) -> None:
    assert cache_marks(spoken(pattern), sent, without) == marks


def test_marks_are_no_part_of_what_is_compared() -> None:
    ledger = PrefixLedger()
    ledger.extend(spoken("u"))
    assert ledger.send().marks == (0,)
    ledger.extend(spoken("uou")[1:])
    sending = ledger.send()
    assert (sending.marks, sending.broken) == ((0, 2), None)


def test_leaving_thoughts_out_and_taking_them_in_again_is_declared() -> None:
    ledger = PrefixLedger()
    ledger.extend(spoken("utou"))
    assert ledger.send(reason="switched").broken is None
    without = ledger.send(without=THOUGHT, reason="switched")
    assert [frame.data for frame in without.frames] == [b"0u", b"2o", b"3u"]
    assert without.broken == Break("switched", True)
    assert ledger.send(without=THOUGHT).broken is None
    assert ledger.send(reason="switched").broken == Break("switched", True)

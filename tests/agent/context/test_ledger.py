"""The prompt prefix stays as it was sent, or the change is named."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from agent.context.ledger import PrefixLedger

frames = st.lists(st.binary(min_size=1, max_size=6), max_size=6)


def test_requests_that_only_grow_break_nothing() -> None:
    ledger = PrefixLedger()
    ledger.extend([b"a"])
    assert ledger.send(b"[]") == ((b"a",), None)
    ledger.extend([b"b", b"c"])
    assert ledger.send(b"[]") == ((b"a", b"b", b"c"), None)


def test_a_rewrite_is_a_break_with_its_reason_once() -> None:
    ledger = PrefixLedger()
    ledger.extend([b"a", b"b"])
    ledger.send()
    ledger.rewrite([b"a", b"x"], "made room")
    _, broken = ledger.send()
    assert broken is not None
    assert broken.declared
    assert broken.reason == "made room"
    assert ledger.send()[1] is None


def test_a_rewrite_that_keeps_what_was_sent_is_no_break() -> None:
    ledger = PrefixLedger()
    ledger.extend([b"a"])
    ledger.send()
    ledger.rewrite([b"a", b"b"], "nothing really")
    assert ledger.send()[1] is None


def test_a_change_nobody_declared_is_found() -> None:
    ledger = PrefixLedger()
    ledger.extend([b"a", b"b"])
    ledger.send()
    ledger._frames[0] = b"z"
    _, broken = ledger.send()
    assert broken is not None
    assert not broken.declared


def test_other_tools_break_the_prefix() -> None:
    ledger = PrefixLedger()
    ledger.extend([b"a"])
    ledger.send(b"[1]")
    _, broken = ledger.send(b"[2]")
    assert broken is not None


@given(st.lists(frames, min_size=1, max_size=6))
def test_the_digest_covers_all_that_was_sent(pieces: list[list[bytes]]) -> None:
    ledger = PrefixLedger()
    sent: tuple[bytes, ...] = ()
    for piece in pieces:
        ledger.extend(piece)
        sent, broken = ledger.send()
        assert broken is None
    assert ledger.digest == hashlib.sha256(b"".join(sent)).hexdigest()
    assert ledger.size == sum(map(len, sent))

"""Sequences of terminals are told apart by their form, wherever they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tui.terminal.tty_input import LONGEST, SequenceKind, continues_report, pieces, unfinished_length

STREAM = st.binary(max_size=40) | st.text("\x1b[]OPM_<>?;:$0123456789aAué\\\x07\r", max_size=40).map(
    str.encode
)


def kinds(data: bytes) -> list[tuple[str, bytes]]:
    return [(piece.kind.name, piece.data) for piece in pieces(data)]


@pytest.mark.thorough
@settings(max_examples=300, deadline=None)
@given(STREAM)
def test_nothing_is_left_out_and_text_holds_no_escape(data: bytes) -> None:
    found = list(pieces(data))
    assert b"".join(piece.data for piece in found) == data
    assert all((piece.kind is SequenceKind.TEXT) == (b"\x1b" not in piece.data) for piece in found)


@pytest.mark.thorough
@settings(max_examples=300, deadline=None)
@given(STREAM, st.integers(0, 40))
def test_what_is_complete_does_not_depend_on_what_comes_later(data: bytes, cut: int) -> None:
    first = data[:cut]
    whole = first[: len(first) - unfinished_length(first)]
    later = list(pieces(data[: len(data) - unfinished_length(data)]))
    begun = [piece for piece in pieces(whole) if piece.kind is not SequenceKind.TEXT]
    assert [piece for piece in later if piece.kind is not SequenceKind.TEXT][: len(begun)] == begun


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"a\x1b[?62\r", [("TEXT", b"a"), ("BROKEN", b"\x1b[?62"), ("TEXT", b"\r")]),
        (b"\x1b]11;rgb\x1b[A", [("BROKEN", b"\x1b]11;rgb"), ("SEQUENCE", b"\x1b[A")]),
        (b"\x1b[\r", [("KEY", b"\x1b["), ("TEXT", b"\r")]),
        (b"\x1b[[Ax", [("SEQUENCE", b"\x1b[[A"), ("TEXT", b"x")]),
        (b"\x1b[M !!x", [("SEQUENCE", b"\x1b[M !!"), ("TEXT", b"x")]),
        (b"\x1b_Gi=31;OK\x1b\\x", [("ANSWER", b"\x1b_Gi=31;OK\x1b\\"), ("TEXT", b"x")]),
        (b"\x1b\x1bOP", [("KEY", b"\x1b"), ("SEQUENCE", b"\x1bOP")]),
    ],
)
def test_pieces_are_known_by_their_form(data: bytes, found: list[tuple[str, bytes]]) -> None:
    assert unfinished_length(data) == 0 and kinds(data) == found


@pytest.mark.parametrize(
    "key",
    ["\x1b[A", "\x1b[1;5C", "\x1b[97;5u", "\x1b[97;1:3u", "\x1b[3~", "\x1bOP", "\x1bPx", "\x1b_x", "\x1b]x"],
)
def test_no_key_is_an_answer_nor_goes_on_with_one(key: str) -> None:
    assert all(kind in ("KEY", "SEQUENCE", "TEXT") for kind, _ in kinds(key.encode()))
    assert not any(continues_report(key.encode()[:cut], key.encode()[cut:]) for cut in range(1, len(key)))


def test_a_string_that_never_ends_is_not_waited_for() -> None:
    assert unfinished_length(b"\x1b]11;" + b"x" * 100) == 105
    assert unfinished_length(b"\x1b]11;" + b"x" * LONGEST) == 0
    assert unfinished_length(b"\x1b[" + b"1" * LONGEST) == 0

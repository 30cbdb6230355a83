"""Vi keys do what vi does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widgets.prompt.buffer import Buffer
from widgets.prompt.vi import Vi


def press(text: str, at: int, keys: str, *, normal: bool = True) -> Vi:
    vi = Vi(Buffer(text))
    vi.buffer.move(at)
    vi.mode = "normal" if normal else "insert"
    type_keys(vi, keys)
    return vi


def type_keys(vi: Vi, keys: str) -> None:
    for key in keys.replace("<esc>", "\x1b").replace("<c-r>", "\x12"):
        if key == "\x1b":
            vi.escape()
        elif key == "\x12":
            vi.key("ctrl+r")
        elif vi.mode == "insert":
            vi.buffer.insert(key)
        else:
            vi.key(key)


MOTIONS = [
    ("one two three", 0, "w", 4),
    ("one two three", 0, "2w", 8),
    ("one two three", 8, "b", 4),
    ("one two three", 0, "e", 2),
    ("one two three", 2, "e", 6),
    ("a.b c", 0, "w", 1),
    ("one\n\ntwo", 0, "w", 4),
    ("  one", 4, "0", 0),
    ("  one", 4, "^", 2),
    ("one", 0, "$", 2),
    ("one\ntwo", 0, "$j", 6),
    ("one\ntwo", 0, "l", 1),
    ("one\ntwo", 2, "l", 2),
    ("one\ntwo", 4, "h", 4),
    ("one\ntwo\nthree", 0, "G", 8),
    ("one\ntwo\nthree", 10, "gg", 0),
    ("one\ntwo\nthree", 0, "2G", 4),
    ("one\ntwo\nthree", 1, "2j", 9),
    ("abcdef\nab\nabcdef", 5, "jj", 15),
    ("日本語", 0, "l", 1),
    ("one", 0, "99l", 2),
    ("one\ntwo", 5, "k", 1),
]


@pytest.mark.parametrize(("text", "at", "keys", "cursor"), MOTIONS)
def test_a_motion_goes_where_vi_goes(text: str, at: int, keys: str, cursor: int) -> None:
    vi = press(text, at, keys)
    assert (vi.buffer.text, vi.buffer.cursor) == (text, cursor)


EDITS = [
    ("one two", 0, "x", "ne two"),
    ("one two", 0, "3x", " two"),
    ("one two", 0, "99x", ""),
    ("one two three", 0, "dw", "two three"),
    ("one two three", 0, "2dw", "three"),
    ("one two three", 0, "d2w", "three"),
    ("one\ntwo", 0, "dw", "\ntwo"),
    ("one two", 0, "de", " two"),
    ("one two", 6, "db", "one o"),
    ("one two", 3, "D", "one"),
    ("one two", 3, "d$", "one"),
    ("one two", 3, "d0", " two"),
    ("one\ntwo\nthree", 4, "dd", "one\nthree"),
    ("one\ntwo\nthree", 9, "dd", "one\ntwo"),
    ("one\ntwo\nthree", 0, "2dd", "three"),
    ("one", 0, "dd", ""),
    ("one\ntwo\nthree", 0, "dj", "three"),
    ("one\ntwo\nthree", 9, "dk", "one"),
    ("one\ntwo\nthree", 4, "dG", "one"),
    ("one\ntwo\nthree", 4, "dgg", "three"),
    ("one\ntwo", 4, "dj", "one\ntwo"),
    ("one two", 0, "cwsix<esc>", "six two"),
    ("one two three", 0, "2cwx<esc>", "x three"),
    ("one two", 4, "Cx<esc>", "one x"),
    ("one\ntwo\nthree", 5, "ccx<esc>", "one\nx\nthree"),
    ("one", 1, "iX<esc>", "oXne"),
    ("one", 1, "aX<esc>", "onXe"),
    ("  one", 4, "IX<esc>", "  Xone"),
    ("one", 0, "AX<esc>", "oneX"),
    ("one\ntwo", 0, "oX<esc>", "one\nX\ntwo"),
    ("one\ntwo", 5, "OX<esc>", "one\nX\ntwo"),
    ("", 0, "oX<esc>", "\nX"),
    ("", 0, "OX<esc>", "X\n"),
    ("one\ntwo", 0, "yyp", "one\none\ntwo"),
    ("one\ntwo", 4, "yyP", "one\ntwo\ntwo"),
    ("one\ntwo", 4, "ddP", "two\none"),
    ("one\ntwo", 0, "yy2p", "one\none\none\ntwo"),
    ("ab", 0, "xp", "ba"),
    ("ab", 0, "x3p", "baaa"),
    ("one two", 0, "ywP", "one one two"),
    ("one two", 0, "dwu", "one two"),
    ("one two", 0, "dwu<c-r>", "two"),
    ("one two three", 0, "dwdw2u", "one two three"),
    ("one two", 0, "dqx", "ne two"),
    ("👨‍👩‍👧b", 0, "x", "b"),
]


@pytest.mark.sample(42)
@pytest.mark.parametrize(("text", "at", "keys", "expected"), EDITS)
def test_an_edit_leaves_what_vi_leaves(text: str, at: int, keys: str, expected: str) -> None:
    assert press(text, at, keys).buffer.text == expected


def test_escape_leaves_insert_mode_then_an_unfinished_command_then_nothing() -> None:
    vi = press("one", 3, "", normal=False)
    assert vi.escape()
    assert (vi.mode, vi.buffer.cursor) == ("normal", 2)
    vi.key("2")
    vi.key("d")
    assert vi.pending == "2d"
    assert vi.escape()
    assert vi.pending == ""
    assert not vi.escape()


def test_an_empty_line_put_as_a_line_makes_one() -> None:
    assert press("a\n\nb", 2, "yyp").buffer.text == "a\n\n\nb"


@given(
    st.sampled_from(["", "one two\nthree\n", "日本 x\n\n  y", "a\n👨‍👩‍👧 b"]),
    st.lists(st.sampled_from([*"hjklwbe0$^xdcyDCiaIAoOupPgG2", "<esc>", "<c-r>"]), max_size=30),
)
def test_no_keys_bring_the_cursor_out_of_the_text(text: str, keys: list[str]) -> None:
    vi = press(text, 0, "".join(keys))
    assert 0 <= vi.buffer.cursor <= len(vi.buffer.text)
    while vi.buffer.undo():
        pass
    assert vi.buffer.text == text

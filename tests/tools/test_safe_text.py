"""Cleaning of outside text: what a terminal would have left, and nothing that could steer one."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.text.safe_text import (
    LINE_CELLS,
    Cleaner,
    clean,
    left_out,
    printable,
    reveal,
    steers,
    truncate,
    without_steering,
)
from tools.text.words import plural

NASTY = st.lists(
    st.sampled_from(
        [
            "\x1b", "[", "]", "P", "_", "^", "X", "\\", "\x07", "\x9b", "\x9d", "\x9c", "\x90", "\x85",
            "\x18", "0;t", "31m", "m", "K", "G", "2K", "1G", "4C", "2D", "8;;http://x", "52;c;aGk=", "(B",
            "?25l", "k", "\r", "\b", "\n", "\t", "\x00", "\x7f", "a", "bc", "é", "漢", "🙂", "\u200d",
            "\u200c", "\u202e", "\u2066", "\ufeff", "\ufe0f", "\u2028", "\U000e0041", " ", "0", "99999",
            "\ud800", "\x0c",
        ]
    )
    | st.text(max_size=4),
    max_size=40,
).map("".join)  # fmt: skip


def hazardous(text: str) -> list[str]:
    """Characters of `text` that a terminal obeys or a reader cannot see."""
    return [
        character
        for character in text
        if (unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t")
        or character in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\u2060\ufeff"
    ]


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[38:2::10:20:30mx\x1b[m", "x"),
        ("\x1b[?1049h\x1b[2J\x1b[Hfull\x1b[?25l", "full"),
        ("\x1b]0;title\x07a", "a"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;cm0gLXJm\x07x", "x"),
        ("\x1bPq#0;2;0;0;0~~\x1b\\x", "x"),
        ("\x1b_Gf=100;AAAA\x1b\\x", "x"),
        ("\x1b^private\x1b\\x", "x"),
        ("\x1bXstart\x1b\\x", "x"),
        ("\x1bktmux title\x1b\\x", "x"),
        ("\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\x", "x"),
        ("\x1b(B\x1b)0\x1b#8\x1b7\x1b8\x1b=\x1bcx", "x"),
        ("\x9b31mred\x9b0m", "red"),
        ("\x9d0;title\x9cx", "x"),
        ("\x9dt\x9b31mx", "x"),
        ("a\x85\x84b", "ab"),
        ("\x07\x98hidden\x9cx", "x"),
        ("\x00\x9b31mx", "x"),
        ("\x1b[31", ""),
        ("\x1b]0;never closed\nnext", "\nnext"),
        ("\x1b", ""),
        ("a\x1b\x1b[31mb", "ab"),
        ("a\x00\x01\x07\x0b\x0c\x0e\x7fb", "ab"),
        ("tab\tand\nline", "tab\tand\nline"),
    ],
)
def test_escape_sequences_and_control_characters_leave_nothing_behind(raw, plain):
    assert clean(raw) == plain


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("a\r\nb\r\n", "a\nb\n"),
        ("a\r\r\nb", "a\nb"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("downloading\rdone\n", "doneloading\n"),
        ("downloading\r\x1b[Kdone\n", "done\n"),
        ("downloading\x1b[2K\rdone\n", "done\n"),
        ("⠋ work\x1b[1G⠙ work\x1b[1G\x1b[0K✔ ok\n", "✔ ok\n"),
        ("50%\r", "50%"),
        ("ab\bc", "ac"),
        ("N\bNA\bAM\bME\bE", "NAME"),
        ("_\bx_\by", "xy"),
        ("\b\b\bx", "x"),
        ("abc\x1b[2DX", "aXc"),
        ("name\x1b[40Gvalue", "name value"),
        ("first\nlong line\rX\nlast", "first\nXong line\nlast"),
    ],
)
def test_overwriting_leaves_what_stays_on_the_line(raw, plain):
    assert clean(raw) == plain


@pytest.mark.parametrize("character", [*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))])
def test_direction_overrides_are_dropped_and_revealed(character):
    assert clean(f"a{character}b") == "ab"
    assert reveal(f"a{character}b") == f"a\\u{ord(character):04x}b"


def test_joiners_stay_where_a_script_needs_them_and_vanish_elsewhere():
    family = "👨\u200d👩\u200d👧 ❤\ufe0f می\u200cخواهم"
    assert clean(family) == family
    assert reveal(family) == family
    assert clean("pass\u200dword\u200c\u200b\ufeff\u00ad\U000e0041") == "password"
    assert clean("👨\u200d\u200d\u200dx") == "👨\u200dx"


def test_variation_selectors_stay_with_what_has_variants_and_vanish_elsewhere():
    varied = "❤\ufe0f 1\ufe0f\u20e3 ™\ufe0f 辻\ufe00 ∩\ufe00"
    assert clean(varied) == varied
    assert clean("p\ufe0fa\ufe00s\ufe01s\ufe0e\ufe0f\U000e0100") == "pass"
    assert clean("❤\ufe0f\ufe0e\ufe00x") == "❤\ufe0fx"
    assert clean("\ufdd0a\ufffe\uffff") == "a"


@pytest.mark.parametrize(
    "text", ["👨\u200d👩\u200d👧 می\u200cخواهم ❤\ufe0f", "\ue0b0 \u05c8 \u0378 \U0010fffd"]
)
def test_what_has_a_meaning_or_a_look_of_its_own_is_shown_as_it_is_on_every_way(text):
    assert clean(text) == printable(text) == without_steering(text) == text
    assert not steers(text)


@pytest.mark.parametrize("cut", range(1, 8))
def test_a_joined_character_that_comes_in_pieces_stays_joined(cut):
    text = "x👨\u200d👩\u200d👧❤\ufe0f"
    assert printable(text[:cut]) + printable(text[cut:]) == text


@given(NASTY)
def test_what_steers_is_what_no_way_lets_through(text):
    assert not steers(without_steering(text))
    for way in (clean, printable, reveal):
        assert not steers(way(text).replace("\n", "").replace("\t", ""))


def test_nothing_joins_where_something_was_taken_out():
    assert without_steering("👨\u202e\u200d👩") == without_steering("👨\u200d\u202e👩") == "👨👩"
    assert without_steering("👨\u200d👩\x07 e\x1b\ufe0f") == "👨\u200d👩 e"


def test_what_has_no_agreed_look_is_spelled_out_where_nothing_may_be_hidden():
    assert reveal("\u05c8 \ue0b0 \U0010fffd \u0600 \ufdd0") == "\\u05c8 \\ue0b0 \\U0010fffd \\u0600 \\ufdd0"


def test_lone_surrogates_are_dropped_so_that_the_text_can_be_encoded():
    assert clean("a\ud800b\udfffc") == "abc"
    assert reveal("a\ud800") == "a\\ud800"


def test_line_separators_become_line_feeds():
    assert clean("a\u2028b\u2029c") == "a\nb\nc"
    assert clean("a\x1b[m\u2028b") == "a\nb"


@given(NASTY)
def test_clean_text_is_harmless_no_longer_than_before_and_stays_as_it_is(text):
    once = clean(text)
    assert hazardous(once) == []
    assert len(once) <= len(text)
    assert clean(once) == once


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_text_without_hidden_characters_is_left_alone(text):
    if reveal(text) == text:
        assert clean(text) == text


@given(NASTY | st.binary(max_size=60), st.lists(st.integers(1, 7), max_size=60))
def test_a_stream_cut_anywhere_cleans_to_the_same_text_as_the_whole(source, cuts):
    data = source if isinstance(source, bytes) else source.encode("utf-8", "surrogatepass")
    cleaner, pieces, at = Cleaner(), [], 0
    for size in cuts:
        pieces.append(cleaner.feed(data[at : at + size]))
        at += size
    pieces += [cleaner.feed(data[at:]), cleaner.finish()]
    assert "".join(pieces) == clean(data.decode("utf-8", "replace"))


@pytest.mark.sample(2)
@pytest.mark.parametrize("cut", [1, 1000, LINE_CELLS - 1, LINE_CELLS, LINE_CELLS + 1])
def test_an_endless_line_streams_like_the_whole_and_is_let_go_in_stretches(cut):
    text = "x" * LINE_CELLS + "yyy\rz" + "\x1b[31mw" * 100 + "👨\u200d" * 40_000
    data = text.encode()
    cleaner = Cleaner()
    early = cleaner.feed(data[:cut]) + cleaner.feed(data[cut:])
    assert early + cleaner.finish() == clean(text)
    assert len(early) >= LINE_CELLS


def test_a_sequence_without_end_keeps_no_memory():
    for opener in (b"\x1b]0;", b"\x1b[", b"\x1b[0;", b"\x1bP", "\x9b".encode(), "\x9d".encode()):
        cleaner = Cleaner()
        assert cleaner.feed(opener) == ""
        for _ in range(50):
            cleaner.feed(b"1" * 1000)
        assert sum(len(str(value)) for value in vars(cleaner).values()) < 500
        assert cleaner.feed(b"\x07m\x18ok\n").endswith("ok\n")


def test_the_unfinished_line_can_be_seen_without_being_taken():
    cleaner = Cleaner()
    assert cleaner.feed(b"done\nPassword\x1b[1m: ") == "done\n"
    assert cleaner.pending() == "Password: "
    assert cleaner.pending() == "Password: "
    assert cleaner.feed(b"\rok\n") == "okssword: \n"
    assert cleaner.finish() == ""


@pytest.mark.thorough
@pytest.mark.parametrize(
    "unit",
    ["\x1b", "\x1b[", "\x1b]", "\x9b", "\r", "\bx", "\x1b[1G", "\x1b[9999C", "a\x1b[2D", "\x1b[3", "x\r"],
)  # fmt: skip
def test_a_megabyte_of_one_sequence_is_no_burden(unit):
    # Anything worse than linear would run into the test's time limit by orders of magnitude.
    text = "word " * 10_000 + unit * (1_000_000 // len(unit))
    assert hazardous(clean(text)) == []


@given(NASTY)
def test_revealed_text_shows_every_character_it_hides_from_clean(text):
    shown = reveal(text)
    assert hazardous(shown) == []
    assert reveal(shown) == shown


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("rm -rf\u00a0/", "rm -rf\\u00a0/"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\rb\x7f\x85", "a\\rb\\x7f\\x85"),
        ("x\U000e0041", "x\\U000e0041"),
        ("l\u200bs", "l\\u200bs"),
        ("two\nlines\tand ünï 漢字 🙂", "two\nlines\tand ünï 漢字 🙂"),
    ],
)
def test_reveal_spells_out_what_cannot_be_seen(raw, shown):
    assert reveal(raw) == shown


@given(st.text(max_size=300), st.integers(0, 310), st.floats(0, 1))
def test_truncated_text_never_exceeds_its_limit_and_keeps_both_ends(text, limit, head):
    cut = truncate(text, limit, head)
    assert len(cut) <= max(limit, 0) or cut == text
    marker = re.search(r"\n\[… ([\d,]+) of ([\d,]+) characters left out …\]\n", cut)
    if cut != text and marker is not None and "characters left out" not in text:
        before, after = cut[: marker.start()], cut[marker.end() :]
        assert text.startswith(before) and text.endswith(after)
        assert int(marker[1].replace(",", "")) == len(text) - len(before) - len(after)
        assert int(marker[2].replace(",", "")) == len(text)


def test_a_cut_text_keeps_forty_percent_of_its_head_and_sixty_of_its_tail():
    cut = truncate("a" * 60_000 + "b" * 60_000, 50_000)
    marker = left_out(70_000, 120_000)
    assert cut.count("a") - marker.count("a") == pytest.approx(20_000, abs=50)
    assert cut.count("b") == pytest.approx(30_000, abs=50)


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (1, "file", "1 file"),
        (2_000, "file", "2,000 files"),
        (0, "entry", "0 entries"),
        (2, "key", "2 keys"),
        (3, "more match", "3 more matches"),
    ],
)
def test_a_number_stands_with_its_noun(count: int, noun: str, text: str) -> None:
    assert plural(count, noun) == text

"""No byte is lost on the way to text and back."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.files.text_files import Replacement, TextFile, binary_kind, decode, line_span, line_starts
from tools.results import ToolError

ENDS = st.sampled_from(["\n", "\r\n"])
LINES = st.lists(st.tuples(st.text("ab é\r", max_size=4), ENDS), max_size=8)


@given(st.binary(max_size=200))
def test_all_bytes_survive(data: bytes) -> None:
    assert decode(data).encode() == data


@given(LINES, st.text("ab", max_size=3), st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "utf-8-sig"]))
def test_texts_of_all_encodings_and_line_ends_survive(
    lines: list[tuple[str, str]], last: str, encoding: str
) -> None:
    text = "".join(line + end for line, end in lines) + last
    marks = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
    data = marks.get(encoding, b"") + text.encode(encoding)
    file = decode(data)
    assert file.encode() == data
    assert file.text == text.replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"plain", "utf-8"),
        ("für".encode("cp1252"), "cp1252"),
        (b"\x81\x8d", "latin-1"),
        (b"\xff\xfea\0", "utf-16-le"),
    ],
)
def test_the_encoding_is_found(data: bytes, encoding: str) -> None:
    assert decode(data).encoding == encoding


def test_line_ends_outside_a_change_stay_and_new_lines_take_their_neighbours() -> None:
    file = decode(b"a\r\nb\nc\r\nd")
    revised = file.revise([Replacement(2, 3, "B\nBB"), Replacement(4, 5, "C\nCC")])
    assert revised.encode() == b"a\r\nB\nBB\nC\r\nCC\r\nd"


def test_lone_carriage_returns_are_text() -> None:
    file = decode(b"10%\r20%\r\n30%")
    assert file.lines == ["10%\r20%", "30%"]


def test_a_character_the_encoding_lacks_is_named() -> None:
    file = decode("für".encode("cp1252")).revise([Replacement(0, 1, "→")])
    with pytest.raises(ToolError, match=r"cp1252.*U\+2192"):
        file.encode()


@pytest.mark.parametrize(
    ("text", "first", "stop", "new", "expected"),
    [
        ("a\nb\n", 1, 2, ["x"], "a\nx\n"),
        ("a\nb", 1, 2, ["x", "y"], "a\nx\ny"),
        ("a\nb", 2, 2, ["x"], "a\nb\nx"),
        ("a\nb\n", 2, 2, ["x"], "a\nb\nx\n"),
        ("a\nb\n", 0, 0, ["x"], "x\na\nb\n"),
        ("a\nb", 1, 2, [], "a"),
        ("a\nb\n", 1, 2, [], "a\n"),
        ("a", 0, 1, [], ""),
        ("a\nb", 0, 1, [], "b"),
        ("", 0, 0, ["x"], "x\n"),
        ("\n\n", 1, 2, ["x"], "\nx\n"),
    ],
)
def test_lines_are_replaced_and_the_final_newline_kept(
    text: str, first: int, stop: int, new: list[str], expected: str
) -> None:
    file = TextFile(text, bytes(text.count("\n")))
    span = line_span(text, line_starts(file.lines), first, stop, new)
    assert file.revise([span]).text == expected


def test_spans_out_of_order_are_an_error() -> None:
    with pytest.raises(ValueError, match="order"):
        TextFile("abc").revise([Replacement(2, 3, ""), Replacement(0, 1, "")])


@pytest.mark.parametrize(
    ("name", "sample", "kind"),
    [
        ("a.txt", b"", None),
        ("a.png", b"", None),
        ("a.txt", b"hello\n", None),
        ("a.bin", b"plain text all the same\n", None),
        ("a.txt", b"a\0b", "binary file"),
        ("a", b"\x89PNG\r\n\x1a\n\0\0", "PNG image"),
        ("a.jpg", b"\xff\xd8\xff\xe0\0", "JPEG image"),
        ("a.txt", b"%PDF-1.7 text only", "PDF document"),
        ("a", b"PK\x03\x04\0\0", "ZIP archive"),
        ("a.docx", b"\x01\x02\x03\x04", "document"),
        ("a.txt", b"\xff\xfea\0b\0", None),
        ("a.txt", "für dich".encode("latin-1"), None),
        ("log", b"\x1b[31mred\x1b[0m\n", None),
        ("a.dat", bytes(range(1, 32)) * 10, "binary file"),
        ("BZh.txt", b"BZh is a prefix\n", None),
    ],
)
def test_text_is_told_from_the_rest(name: str, sample: bytes, kind: str | None) -> None:
    assert binary_kind(name, sample) == kind


def test_a_sample_that_ends_within_a_character_is_text() -> None:
    assert binary_kind("a.png", "ääää".encode()[:-1]) is None

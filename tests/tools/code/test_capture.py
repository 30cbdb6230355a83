"""Output without end in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.code.process import Capture


def fed(limit: int, *pieces: bytes) -> Capture:
    capture = Capture(limit)
    for piece in pieces:
        capture.feed(piece)
    return capture


def test_what_fits_is_kept_as_it_is() -> None:
    capture = fed(10, b"01234", b"56789")
    assert (capture.text(), capture.is_cut) == ("0123456789", False)


@given(st.lists(st.binary(max_size=400), max_size=30), st.integers(150, 700))
def test_beginning_and_end_survive_within_the_limit(pieces: list[bytes], limit: int) -> None:
    pieces = [bytes(97 + byte % 26 for byte in piece) for piece in pieces]
    whole = b"".join(pieces).decode()
    text = fed(limit, *pieces).text()
    assert len(text) <= limit
    if len(whole) <= limit:
        assert text == whole
    else:
        head, mark, tail = text.partition("\n[output truncated at ")
        assert mark
        assert whole.startswith(head)
        assert whole.endswith(tail.partition("]\n")[2])


def test_a_character_on_the_seam_is_not_broken() -> None:
    assert "\ufffd" not in fed(1_000, "ä".encode() * 5_000).text()


def test_the_newest_lines_are_shown() -> None:
    capture = fed(1_000, *[f"line {number}\n".encode() for number in range(1_000)])
    assert capture.newest().splitlines()[-1] == "line 999"
    assert len(capture.newest().splitlines()) <= 20


TOKEN = "ghp_" + "a1B2c3D4e5" * 4


@pytest.mark.thorough
@given(st.integers(0, 60_000), st.integers(0, 60_000), st.sampled_from([500, 3_000, 10_000]))
def test_half_a_secret_does_not_escape_at_a_cut(before: int, after: int, limit: int) -> None:
    known = "correct-horse-battery-staple"
    for secret in (TOKEN, known):
        data = b"." * before + b" " + secret.encode() + b" " + b"." * after
        capture = Capture(limit, {"PHRASE": known})
        for start in range(0, len(data), 997):
            capture.feed(data[start : start + 997])
        for shown in (capture.text(), capture.newest()):
            pieces = {secret[at : at + 8] for at in range(4, len(secret) - 8)}
            assert not any(piece in shown for piece in pieces)


def test_a_secret_that_control_characters_split_is_masked() -> None:
    capture = fed(1_000, f"{TOKEN[:9]}\x1b[0m{TOKEN[9:]}\n".encode())
    assert TOKEN not in capture.text()
    assert "redacted" in capture.text()

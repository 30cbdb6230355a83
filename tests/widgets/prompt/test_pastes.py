"""Long pastes become one character and come back whole."""

from __future__ import annotations

from widgets.prompt.draft import Pastes, is_long, tidy


def test_a_short_paste_stays_text() -> None:
    assert Pastes().take("one\ntwo") == "one\ntwo"
    assert not is_long("line\n" * 8)
    assert not is_long("x" * 1_000)


def test_a_long_paste_is_one_character_with_an_honest_label() -> None:
    pastes = Pastes()
    first = pastes.take("line\n" * 340)
    second = pastes.take("x" * 1_001)
    assert len(first) == len(second) == 1
    assert pastes.labels == {first: "[paste #1 · 340 lines]", second: "[paste #2 · 1,001 characters]"}


def test_unfolding_gives_back_every_paste_in_place() -> None:
    pastes = Pastes()
    log = "日志\n" * 20
    token = pastes.take(log)
    assert pastes.unfold(f"see {token} and {token}.") == f"see {log} and {log}."


def test_line_ends_of_terminals_become_line_feeds_and_control_bytes_go() -> None:
    assert tidy("a\rb\r\nc\x1b[31md\x1b]52;c;eA==\x07") == "a\nb\ncd"


def test_a_megabyte_comes_back_unharmed() -> None:
    pastes = Pastes()
    text = "a log line of some length\n" * 40_000
    token = pastes.take(tidy(text))
    assert pastes.unfold(token) == text

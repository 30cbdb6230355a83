"""The words of `/export`."""

from __future__ import annotations

import pytest

from agent.errors import ConfigError
from app.tui.commands.session_command import read_words


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ("", ("html", "")),
        ("jsonl", ("jsonl", "")),
        ("atif out.json", ("atif", "out.json")),
        ("a b.html", ("html", "a b.html")),
        ('"a b.patch"', ("patch", "a b.patch")),
        ("openai 'a b.json'", ("openai", "a b.json")),
    ],
)
def test_a_path_may_stand_alone_and_in_quotes(words: str, read: tuple[str, str]) -> None:
    assert read_words(words) == read


def test_what_names_no_format_is_refused_with_the_formats() -> None:
    with pytest.raises(ConfigError, match=r"'bogus' is not a format of exports; the formats are html, jsonl"):
        read_words("bogus")

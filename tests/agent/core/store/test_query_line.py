"""Lines as they are typed into the search field."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.store.query_line import FILTERS, Chip, Filters, parse, parse_line

NOW = datetime(2026, 11, 22, 15, 30).timestamp()


def at(*date: int) -> float:
    return datetime(*date).timestamp()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "text", "filters"),
    [
        ("", "", Filters()),
        ("   ", "", Filters()),
        ("round money", "round money", Filters()),
        ("role:user round", "round", Filters(roles=("user",))),
        ("ROLE:U round", "round", Filters(roles=("user",))),
        ("role:user,tool", "", Filters(roles=("user", "tool"))),
        ("tool:terminal pytest", "pytest", Filters(tool_begins="terminal")),
        ("project:shop-api x", "x", Filters(project="shop-api")),
        ('project:"my shop" x', "x", Filters(project="my shop")),
        ("branch:fix session:2026", "", Filters(branch="fix", session_begins="2026")),
        ("after:2026-10-01", "", Filters(since=at(2026, 10, 1))),
        ("after:2026-10", "", Filters(since=at(2026, 10, 1))),
        ("after:today", "", Filters(since=at(2026, 11, 22))),
        ("after:yesterday", "", Filters(since=at(2026, 11, 21))),
        ("after:2h", "", Filters(since=NOW - 7_200)),
        ("before:2026-10-01", "", Filters(until=at(2026, 10, 1) - 1e-6)),
        ("before:2026", "", Filters(until=at(2026, 1, 1) - 1e-6)),
        ("a -bcd e", "a e", Filters(without=("bcd",))),
        ('a -"b c"', "a", Filters(without=("b c",))),
        ("role:user role:tool", "", Filters(roles=("tool",))),
        ('"role:user" x', '"role:user" x', Filters()),
        ('say "two words" now', 'say "two words" now', Filters()),
        ('"not closed', '"not closed"', Filters()),
        ("rm -rf x", "rm -rf x", Filters()),
        ("git push --force", "git push --force", Filters()),
        ("a - b -> c", "a - b -> c", Filters()),
        ("std::vector http://x.org 10:30 note:", "std::vector http://x.org 10:30 note:", Filters()),
        ('"', "", Filters()),
    ],
)
def test_words_and_filters_are_told_apart(line: str, text: str, filters: Filters) -> None:
    found = parse_line(line, NOW)
    assert (found.text, found.filters, found.notes) == (text, filters, ())


@pytest.mark.parametrize(
    ("line", "text", "note"),
    [
        ("colour:red x", "colour:red x", "colour: is not a filter and is searched as text"),
        ("role:boss x", "x", "role: takes user, assistant, tool or notice"),
        ("role:", "", "role: takes user"),
        ("after:2026-13", "", "after: takes a day"),
        ("after:2026-02-30 x", "x", "after: takes a day"),
        ("after:2026-1-", "", "after: takes a day"),
        ("before:soon", "", "before: takes a day"),
        ("tool:", "", "tool: takes the name of a tool"),
    ],
)
def test_what_is_no_filter_is_said_in_a_sentence(line: str, text: str, note: str) -> None:
    found = parse_line(line, NOW)
    assert found.text == text
    assert found.filters == Filters()
    assert len(found.notes) == 1
    assert found.notes[0].startswith(note)


def test_filters_are_shown_as_chips_in_the_order_they_were_typed() -> None:
    found = parse_line("branch:fix x role:us -wrong branch:main", NOW)
    assert found.chips == (Chip("role", "user"), Chip("not", "wrong"), Chip("branch", "main"))


_PIECES = st.sampled_from(
    [
        *(f"{name}:" for name in FILTERS),
        "user",
        '"',
        "-",
        "--",
        " ",
        "2026-10",
        "7d",
        ":",
        "x",
        "é",
        "\0",
        "\ud800",
    ]
)


@pytest.mark.thorough
@given(st.text(st.characters(codec=None, categories=None), max_size=60) | st.lists(_PIECES).map("".join))
def test_any_text_is_a_line(line: str) -> None:
    found = parse_line(line, NOW)
    assert len(parse(found.text).terms) <= len(line)
    assert parse_line(found.text, NOW).text == found.text
    assert {chip.name for chip in found.chips} <= {*FILTERS, "not"}
    assert bool(found.filters) == bool(found.chips)


@pytest.mark.thorough
@given(st.lists(st.from_regex(r"[a-z]{1,9}", fullmatch=True), min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_words_stay_as_they_are_wherever_filters_stand(words: list[str]) -> None:
    line = "role:user ".join(f"{word} " for word in words) + "tool:terminal"
    assert parse_line(line, NOW).text.split() == words

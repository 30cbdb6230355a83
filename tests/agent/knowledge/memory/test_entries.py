"""Entries of a memory file and what operations do to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.knowledge.memory.files import (
    MemoryOperation,
    MemoryWriteError,
    apply_operations,
    parse,
    render,
    size,
    usage,
)

ENTRIES = ("The user prefers tabs.", "Tests run with make test.", "The staging host is db-2.")


def add(content: str) -> MemoryOperation:
    return MemoryOperation("add", content)


def test_a_file_is_read_back_as_it_was_written() -> None:
    assert parse(render(ENTRIES)) == ENTRIES


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("", ()),
        ("§", ()),
        ("\n§\n§\n", ()),
        ("one", ("one",)),
        ("one\n§\ntwo\n", ("one", "two")),
        ("one\r\n§\r\ntwo\r\n", ("one", "two")),
        ("one\n  §  \ntwo", ("one", "two")),
        ("one\n§\none", ("one",)),
        ("a § b\n§\nc§", ("a § b", "c§")),
        ("two\nlines\n§\nthree", ("two\nlines", "three")),
    ],
)
def test_entries_are_parted_by_a_line_that_holds_only_the_sign(text: str, entries: tuple[str, ...]) -> None:
    assert parse(text) == entries


def test_an_entry_is_added_at_the_end() -> None:
    assert apply_operations(ENTRIES, [add("New.")], 2_200) == (*ENTRIES, "New.")


def test_an_entry_that_is_there_already_is_accepted_in_silence() -> None:
    assert apply_operations(ENTRIES, [add(ENTRIES[1])], 10_000) == ENTRIES


def test_a_part_of_the_text_finds_the_entry_to_replace() -> None:
    changed = apply_operations(
        ENTRIES, [MemoryOperation("replace", "The user prefers spaces.", "tabs")], 2_200
    )
    assert changed == ("The user prefers spaces.", *ENTRIES[1:])


def test_the_whole_text_of_an_entry_wins_over_entries_that_contain_it() -> None:
    assert apply_operations(("make", "make test"), [MemoryOperation("remove", old_text="make")], 100) == (
        "make test",
    )


def test_a_replacement_that_equals_another_entry_leaves_one_of_them() -> None:
    assert apply_operations(("a", "b"), [MemoryOperation("replace", "b", "a")], 100) == ("b",)


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        (MemoryOperation("add", "  "), "needs content"),
        (MemoryOperation("add", "one\n§\ntwo"), "parts entries"),
        (MemoryOperation("replace", "x", ""), "old_text is empty"),
        (MemoryOperation("replace", "", "tabs"), "use remove"),
        (MemoryOperation("replace", "x", "nowhere"), "No entry contains 'nowhere'"),
        (MemoryOperation("remove", old_text="The"), "Be more specific"),
        (MemoryOperation("add", "x" * 3_000), "at most 2,200 characters"),
    ],
)
def test_what_cannot_be_applied_is_refused_in_one_sentence(operation: MemoryOperation, said: str) -> None:
    with pytest.raises(MemoryWriteError, match=said):
        apply_operations(ENTRIES, [operation], 2_200)


def test_a_batch_counts_by_the_size_it_ends_with() -> None:
    full = ("x" * 90,)
    batch = [add("y" * 80), MemoryOperation("remove", old_text="xxx")]
    assert apply_operations(full, batch, 100) == ("y" * 80,)


def test_a_batch_with_one_bad_operation_changes_nothing_and_says_which() -> None:
    with pytest.raises(MemoryWriteError, match=r"Operation 2 of 3.*None of the operations"):
        apply_operations(ENTRIES, [add("a"), MemoryOperation("remove", old_text="nowhere"), add("b")], 2_200)


def test_an_overfull_file_may_be_made_smaller_step_by_step() -> None:
    overfull = ("x" * 80, "y" * 80)
    assert apply_operations(overfull, [MemoryOperation("replace", "z" * 70, "yyy")], 100) == (
        "x" * 80,
        "z" * 70,
    )
    with pytest.raises(MemoryWriteError, match="at most 100"):
        apply_operations(overfull, [add("more")], 100)


def test_usage_counts_what_stands_between_entries() -> None:
    assert usage(("ab", "cd"), 2_200) == "7/2,200"


LINE = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20).filter(
    lambda t: t != "§"
)


@pytest.mark.thorough
@given(st.lists(LINE, max_size=8))
def test_any_entries_survive_the_file(texts: list[str]) -> None:
    entries = apply_operations((), [add(text) for text in texts], 10_000) if texts else ()
    assert parse(render(entries)) == entries
    assert size(entries) == len(render(entries).rstrip("\n"))

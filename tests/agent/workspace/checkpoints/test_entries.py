"""Records of files and steps survive their way through JSON, whatever the names in them."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.workspace.checkpoints.entries import (
    Coverage,
    LeftOut,
    PathChange,
    PathEntry,
    PathKind,
    Step,
    change_of,
    change_record,
    entry_of,
    entry_record,
    step_of,
    step_record,
)

names = st.binary(min_size=1, max_size=30).map(os.fsdecode)
digests = st.one_of(st.none(), st.binary(min_size=32, max_size=32).map(bytes.hex))
entries = st.builds(
    PathEntry,
    kind=st.sampled_from(PathKind),
    mode=st.integers(0, 0o7777),
    size=st.integers(0, 2**63),
    modified=st.integers(-(2**62), 2**63),
    digest=digests,
    target=names | st.just(""),
    twin=names | st.just(""),
    reason=st.text(max_size=20),
)
changes = st.builds(PathChange, path=names, before=st.none() | entries, after=st.none() | entries)


@pytest.mark.thorough
@given(changes)
def test_a_change_is_the_same_after_its_way_through_json(change: PathChange) -> None:
    assert change_of(json.loads(json.dumps(change_record(change)))) == change


@pytest.mark.thorough
@settings(max_examples=40, deadline=None)
@given(st.lists(changes, max_size=3), st.lists(st.builds(LeftOut, names, st.text(max_size=9)), max_size=3))
def test_a_step_is_the_same_after_its_way_through_json(found: list[PathChange], left: list[LeftOut]) -> None:
    coverage = Coverage(tuple(left), more=len(left))
    step = Step(3, "command", "s", "call", "terminal make", 1.5, "/project", tuple(found), coverage)
    record = json.loads(json.dumps(step_record(step)))
    assert step_of(record, step.changes) == step


@pytest.mark.parametrize("record", [[], ["file"], ["sofa", 0, 0, 0, None], "file", 3, {"kind": "file"}])
def test_what_is_no_record_of_a_file_is_refused(record: object) -> None:
    with pytest.raises(ValueError, match="not a record"):
        entry_of(record)


def test_times_do_not_tell_entries_apart_but_contents_modes_and_targets_do() -> None:
    entry = PathEntry(PathKind.FILE, 0o644, 3, 10, "ab")
    assert entry.same(PathEntry(PathKind.FILE, 0o644, 3, 99, "ab"))
    assert not entry.same(PathEntry(PathKind.FILE, 0o755, 3, 10, "ab"))
    assert not entry.same(PathEntry(PathKind.FILE, 0o644, 3, 10, "cd"))
    assert not entry.same(PathEntry(PathKind.LINK, 0o644))
    assert not entry.same(None)
    assert not PathEntry(PathKind.LINK, 0, target="a").same(PathEntry(PathKind.LINK, 0, target="b"))


def test_files_whose_contents_are_not_kept_are_never_the_same() -> None:
    unknown = PathEntry(PathKind.FILE, 0o644, 3, 10, None, reason="larger than 100 MB")
    assert not unknown.same(unknown)
    assert not unknown.is_restorable


def test_coverage_says_full_or_names_what_is_left_out() -> None:
    assert Coverage().sentence() == "full"
    left = tuple(LeftOut(f"data/{number}.bin", "larger than 100 MB") for number in range(5))
    assert Coverage(left, more=2).sentence() == (
        "without data/0.bin (larger than 100 MB), data/1.bin (larger than 100 MB), "
        "data/2.bin (larger than 100 MB) and 4 more"
    )


def test_an_entry_without_rarities_is_a_short_record() -> None:
    assert entry_record(PathEntry(PathKind.FILE, 0o644, 3, 10, "ab")) == ["file", 0o644, 3, 10, "ab"]

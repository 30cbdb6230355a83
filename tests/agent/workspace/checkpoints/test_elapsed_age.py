"""A clock that is wrong ages nothing: the store counts time that was lived through."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.workspace.checkpoints.garbage_collection import (
    CLOCK_FILE,
    MAX_GAPS,
    MOST_SECONDS,
    Collected,
    ElapsedAge,
    collect,
    read_clock,
    verify,
)
from agent.workspace.checkpoints.store import CheckpointStore
from tests.agent.workspace.checkpoints.support import write

HOUR, DAY, YEAR = 3_600.0, 86_400.0, 365 * 86_400.0
NOW = 1_800_000_000.0
AMPLE = 1 << 40


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CheckpointStore:
    monkeypatch.setattr("agent.workspace.checkpoints.garbage_collection.PAUSE_SECONDS", 0)
    return CheckpointStore(tmp_path / "checkpoints")


def cleared(store: CheckpointStore, now: float) -> Collected:
    return collect(store, max_bytes=AMPLE, max_age=30 * DAY, now=now)


def kept(store: CheckpointStore) -> list[int]:
    return [step.number for step in store.line("s").steps()]


def age_all(store: CheckpointStore, moment: float) -> None:
    for path in store.folder.rglob("*"):
        os.utime(path, (moment, moment))


def test_a_clock_a_year_ahead_takes_no_step_and_no_contents(store: CheckpointStore) -> None:
    read_clock(store.folder, NOW)
    write(store, "a", b"this morning", created=NOW)
    spare = store.objects.add(b"about to be named")
    age_all(store, NOW)
    done = cleared(store, NOW + YEAR)
    assert (done.steps, done.objects, done.sessions) == (0, 0, 0)
    assert spare in set(store.objects.names())
    # It stays so while the clock is wrong, and when it is put right.
    assert cleared(store, NOW + YEAR + 2 * DAY).steps == 0
    assert cleared(store, NOW + 3 * DAY).steps == 0
    assert kept(store) == [1]
    assert verify(store).sound


def test_a_line_that_was_just_begun_outlives_a_clock_that_leaps(store: CheckpointStore) -> None:
    read_clock(store.folder, NOW)
    write(store, "a", b"new", created=NOW)
    os.utime(store.line("s").path, (NOW, NOW))
    assert collect(store, max_bytes=AMPLE, max_age=DAY, now=NOW + YEAR, living=[]).sessions == 0


def test_steps_made_under_a_clock_that_was_years_behind_are_new(store: CheckpointStore) -> None:
    read_clock(store.folder, NOW)
    read_clock(store.folder, 600.0)
    write(store, "a", b"in 1970", created=700.0)
    assert cleared(store, NOW + HOUR).steps == 0
    assert kept(store) == [1]


def test_days_on_which_the_store_is_used_age_its_steps_as_before(store: CheckpointStore) -> None:
    for day in range(60):
        write(store, "a", b"day %d" % day, created=NOW + day * DAY)
        read_clock(store.folder, NOW + day * DAY)
    assert cleared(store, NOW + 59.5 * DAY).steps == 30
    assert kept(store) == list(range(31, 61))


def test_a_long_absence_counts_as_one_day(store: CheckpointStore) -> None:
    read_clock(store.folder, NOW)
    write(store, "a", b"before the holiday", created=NOW)
    back = NOW + 60 * DAY
    for day in range(30):
        assert cleared(store, back + day * DAY).steps == 0
    assert cleared(store, back + 30.5 * DAY).steps == 1


def test_a_store_that_never_looked_at_the_clock_goes_by_it(store: CheckpointStore) -> None:
    write(store, "a", b"of an earlier Hermes", created=NOW - YEAR)
    assert cleared(store, NOW).steps == 1


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"{}",
        b"[]",
        b"{" * 100_000,
        b'{"seen": NaN, "gaps": []}',
        b'{"seen": 1e999, "gaps": []}',
        b'{"seen": 5, "gaps": [[3, 1]]}',
        b'{"seen": 5, "gaps": [[1]]}',
        b'{"seen": 5, "gaps": 7}',
        b"\xff\xfe",
        b" " * 300_000,
    ],
)
def test_where_the_note_is_damaged_nothing_counts_as_old(store: CheckpointStore, note: bytes) -> None:
    write(store, "a", b"kept", created=NOW - YEAR)
    (store.folder / CLOCK_FILE).write_bytes(note)
    assert cleared(store, NOW).steps == 0
    assert cleared(store, NOW + DAY).steps == 0


def test_a_note_that_is_a_pipe_holds_up_nobody(store: CheckpointStore) -> None:
    os.mkfifo(store.folder / CLOCK_FILE)
    assert read_clock(store.folder, NOW).before(HOUR) == 0
    assert stat.S_ISREG((store.folder / CLOCK_FILE).lstat().st_mode)


def test_a_disk_that_takes_no_note_is_cleared_all_the_same(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store, "a", b"old", created=NOW - YEAR)

    def full(*args: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("agent.workspace.checkpoints.garbage_collection.write_atomically", full)
    assert cleared(store, NOW).steps == 1
    assert {path.name for path in store.folder.iterdir()} == {"format", "lock", "objects", "lines"}


def test_the_note_is_for_its_owner_only_and_leaves_nothing_beside_it(store: CheckpointStore) -> None:
    for hour in range(3):
        read_clock(store.folder, NOW + hour * HOUR)
    assert stat.S_IMODE((store.folder / CLOCK_FILE).stat().st_mode) == 0o600
    assert {path.name for path in store.folder.iterdir()} == {"format", CLOCK_FILE}


@pytest.mark.thorough
@given(st.lists(st.floats(0, 4e9), min_size=1, max_size=40), st.floats(0, 1e8))
def test_whatever_a_clock_says_lived_time_goes_by_no_faster_than_its_looks_allow(
    clock: list[float], seconds: float
) -> None:
    lived = ElapsedAge(clock[0])
    for now in clock[1:]:
        lived = lived.after_look(now)
    assert lived.seen == clock[-1]
    assert lived.before(seconds) <= lived.seen - seconds + 1e-3
    edges = [edge for gap in lived.gaps for edge in gap]
    assert edges == sorted(edges)
    # No look counts for more than a day, so so many days reach beyond all of them.
    assert lived.before(MOST_SECONDS * len(clock) + 1) < min(clock)


@pytest.mark.thorough
def test_the_note_stays_small_however_often_the_clock_leaps(store: CheckpointStore) -> None:
    lived = ElapsedAge(0.0)
    for leap in range(2 * MAX_GAPS):
        lived = lived.after_look(leap * 3 * DAY)
    assert len(lived.gaps) == MAX_GAPS

"""What is damaged is named; what nobody needs goes, and nothing else."""

from __future__ import annotations

import json
import os
import random
import time
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.errors import StoreError
from agent.workspace.checkpoints.entries import KnownPath, PathChange, PathEntry, PathKind
from agent.workspace.checkpoints.file_register import Baseline
from agent.workspace.checkpoints.garbage_collection import (
    PRESSED_SECONDS,
    YOUNG_SECONDS,
    collect,
    collecting,
    drop_sessions,
    status,
    verify,
)
from agent.workspace.checkpoints.store import CheckpointStore
from tests.agent.workspace.checkpoints.support import add, kept, write

DAY = 86_400.0
NOW = time.time()
LATER = NOW + 10 * DAY
"""So much later that nothing counts as young."""
AMPLE = 1 << 40


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "checkpoints")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.workspace.checkpoints.garbage_collection.PAUSE_SECONDS", 0)


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def age_to(path: Path, moment: float) -> None:
    os.utime(path, (moment, moment))


def held(store: CheckpointStore) -> set[str]:
    return set(store.objects.names())


def test_the_status_counts_what_is_there(store: CheckpointStore) -> None:
    assert (status(store).steps, status(store).oldest) == (0, None)
    write(store, "a", b"one", created=50.0)
    write(store, "a", b"two", created=60.0)
    write(store, "a", b"two", session="t", created=70.0)
    found = status(store)
    assert (found.sessions, found.steps, found.objects, found.oldest, found.flaws) == (2, 3, 2, 50.0, 0)
    assert found.size == store.size() == 5 * 4096


def test_a_sound_store_verifies(store: CheckpointStore) -> None:
    write(store, "a", b"one")
    add(store, *(PathChange(f"f{number}", None, kept(store, b"x")) for number in range(2000)))
    report = verify(store)
    assert report.sound
    assert (report.sessions, report.steps, report.objects, report.notes) == (1, 2, 3, ())


def test_damaged_and_missing_contents_are_named_with_a_step(store: CheckpointStore) -> None:
    for number, data in enumerate((b"one", b"two", b"three")):
        write(store, f"f{number}", data)
    (store.objects.folder / digest(b"one")[:2] / digest(b"one")).write_bytes(b"\0spoilt")
    store.objects.discard(digest(b"two"))
    spare = store.objects.add(b"spare")
    (store.objects.folder / spare[:2] / spare).write_bytes(b"")
    report = verify(store)
    assert not report.sound
    found = {finding.place.rpartition("/")[2]: finding.sentence for finding in report.problems}
    assert found == {
        digest(b"one"): "The contents are damaged; step 1 of session s is the first to need them.",
        digest(b"two"): "The contents are missing; step 2 of session s is the first to need them.",
    }
    (note,) = report.notes
    assert note.place.endswith(spare)


def test_damaged_lines_are_named_and_the_others_are_checked(store: CheckpointStore) -> None:
    write(store, "a", b"one")
    write(store, "a", b"two")
    write(store, "a", b"three", session="t")
    path = store.line("s").path
    path.write_bytes(path.read_bytes().replace(b'"write_file a"', b'"write_file b"', 1))
    (store.lines / "foreign.log").write_text("hello\n")
    store.objects.discard(digest(b"three"))
    report = verify(store)
    assert [finding.place for finding in report.problems] == [
        "lines/foreign.log",
        "lines/s.log:2",
        f"objects/{digest(b'three')[:2]}/{digest(b'three')}",
    ]
    assert report.steps == 2


def test_what_was_last_seen_of_a_workspace_is_in_order_as_it_is_written(store: CheckpointStore) -> None:
    entry = PathEntry(PathKind.FILE, 0o644, 1, 1, digest(b"x"))
    seen = {f"f{number}": KnownPath((0, number, 1, 1, 1), True, entry) for number in range(3)}
    baseline = Baseline(store.baselines, Path("/anywhere"))
    baseline.save(seen)
    assert baseline.load() == seen
    assert verify(store).notes == ()
    baseline.path.write_bytes(baseline.path.read_bytes()[:-9])
    assert [note.place for note in verify(store).notes] == [f"baselines/{baseline.path.name}"]


def test_restores_and_baselines_that_cannot_be_read_are_named(store: CheckpointStore) -> None:
    for folder in (store.pending, store.baselines):
        folder.mkdir()
        (folder / "good.json").write_text("{}")
        (folder / "bad.json").write_text('{"half')
    report = verify(store)
    assert [finding.place for finding in report.problems] == ["pending/bad.json"]
    assert [finding.place for finding in report.notes] == ["baselines/bad.json"]


def test_collecting_a_store_within_its_limits_changes_nothing(store: CheckpointStore) -> None:
    for number in range(20):
        write(store, "a", b"%d" % number, created=LATER - number)
    before = held(store), store.line("s").path.read_bytes()
    done = collect(store, max_bytes=AMPLE, max_age=30 * DAY, now=LATER)
    assert (done.objects, done.steps, done.sessions, done.freed, done.busy) == (0, 0, 0, 0, False)
    assert (held(store), store.line("s").path.read_bytes()) == before


def test_what_nobody_names_goes_unless_it_is_young(store: CheckpointStore) -> None:
    write(store, "a", b"needed", created=LATER)
    spare = store.objects.add(b"spare")
    assert collect(store, max_bytes=AMPLE, max_age=DAY, now=NOW).objects == 0
    assert collect(store, max_bytes=AMPLE, max_age=DAY, now=NOW + YOUNG_SECONDS / 2).objects == 0
    assert spare in held(store)
    done = collect(store, max_bytes=AMPLE, max_age=DAY, now=time.time() + YOUNG_SECONDS + 60)
    assert (done.objects, done.freed) == (1, 4096)
    assert held(store) == {digest(b"needed")}


def test_steps_above_the_age_go_oldest_first_and_their_contents_with_them(store: CheckpointStore) -> None:
    for day in range(10):
        write(store, "a", b"day %d" % day, created=LATER - (10 - day) * DAY)
    done = collect(store, max_bytes=AMPLE, max_age=4.5 * DAY, now=LATER)
    assert (done.steps, store.line("s").floor, store.line("s").last) == (6, 6, 10)
    # Step 7 found what step 6 had left: that state can still be reached.
    assert held(store) == {digest(b"day %d" % day) for day in range(5, 10)}
    assert verify(store).sound


def test_a_clock_that_went_back_prunes_no_step_before_older_ones(store: CheckpointStore) -> None:
    for created in (LATER, LATER - 9 * DAY, LATER - 8 * DAY, LATER):
        write(store, "a", b"%f" % created, created=created)
    collect(store, max_bytes=AMPLE, max_age=DAY, now=LATER)
    assert store.line("s").floor == 0


def test_over_the_limit_the_oldest_steps_of_all_lines_go_until_it_fits(store: CheckpointStore) -> None:
    noise = random.Random(1)
    for number in range(40):
        write(store, "a", noise.randbytes(20_000), session="st"[number % 2], created=LATER - 400 + number)
    limit = 500_000
    done = collect(store, max_bytes=limit, max_age=DAY, now=LATER)
    assert 0.7 * limit < store.size() <= limit
    floors = store.line("s").floor, store.line("t").floor
    assert done.steps == sum(floors)
    assert abs(floors[0] - floors[1]) <= 1
    assert verify(store).sound
    again = collect(store, max_bytes=limit, max_age=DAY, now=LATER)
    assert (again.steps, again.objects) == (0, 0)


def test_contents_that_a_newer_step_shares_stay_when_the_older_goes(store: CheckpointStore) -> None:
    write(store, "a", b"shared", created=LATER - 5 * DAY)
    write(store, "b", b"only old", created=LATER - 5 * DAY)
    write(store, "c", b"shared", session="t", created=LATER)
    collect(store, max_bytes=AMPLE, max_age=DAY, now=LATER)
    assert held(store) == {digest(b"shared")}


def test_while_over_the_limit_contents_are_young_for_minutes_only(store: CheckpointStore) -> None:
    noise = random.Random(2)
    for number in range(10):
        write(store, "a", noise.randbytes(50_000), created=NOW - 100 + number)
    collect(store, max_bytes=100_000, max_age=DAY, now=time.time())
    assert len(held(store)) == 10
    collect(store, max_bytes=100_000, max_age=DAY, now=time.time() + PRESSED_SECONDS / 2)
    assert len(held(store)) == 10
    write(store, "a", noise.randbytes(90_000), created=NOW)
    collect(store, max_bytes=100_000, max_age=DAY, now=time.time() + PRESSED_SECONDS + 60)
    assert len(held(store)) <= 2


def test_what_pending_restores_and_young_baselines_name_stays(store: CheckpointStore) -> None:
    names = {name: store.objects.add(name.encode()) for name in ("pending", "young", "old", "free")}
    store.pending.mkdir()
    store.baselines.mkdir()
    (store.pending / "p.json").write_text(json.dumps({"any": ["form", {"of": names["pending"]}]}))
    (store.baselines / "young.json").write_text(json.dumps({"src/a": ["file", 420, 3, 1, names["young"]]}))
    (store.baselines / "old.json").write_text(json.dumps([names["old"]]))
    for path, days in (("pending/p", 99), ("baselines/young", 2), ("baselines/old", 40)):
        age_to(store.folder / f"{path}.json", LATER - days * DAY)
    done = collect(store, max_bytes=1, max_age=30 * DAY, now=LATER)
    assert done.objects == 2
    assert held(store) == {names["pending"], names["young"]}
    assert sorted(path.name for path in store.baselines.iterdir()) == ["young.json"]
    assert (store.pending / "p.json").exists()


def test_lines_of_deleted_sessions_go_but_none_that_was_just_begun(store: CheckpointStore) -> None:
    for session in ("alive", "deleted", "begun"):
        write(store, "a", session.encode(), session=session, created=LATER)
        age_to(store.line(session).path, LATER - DAY)
    age_to(store.line("begun").path, LATER - 60)
    assert collect(store, max_bytes=AMPLE, max_age=DAY, now=LATER).sessions == 0
    done = collect(store, max_bytes=AMPLE, max_age=DAY, now=LATER, living=["alive"])
    assert (done.sessions, done.objects) == (1, 1)
    assert store.sessions() == ("alive", "begun")
    assert held(store) == {digest(b"alive"), digest(b"begun")}


def test_sessions_are_forgotten_by_name(store: CheckpointStore, tmp_path: Path) -> None:
    write(store, "a", b"x", session="gone")
    write(store, "a", b"x", session="there")
    drop_sessions(store.folder, ["gone", "never-was", "an odd name"])
    assert store.sessions() == ("there",)
    drop_sessions(tmp_path / "none", ["gone"])
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", ["lines/x.log", "pending/x.json"])
def test_nothing_is_removed_while_something_that_names_contents_cannot_be_read(
    store: CheckpointStore, name: str
) -> None:
    write(store, "a", b"old", created=LATER - 90 * DAY)
    store.objects.add(b"spare")
    path = store.folder / name
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(path.name)  # a loop: it cannot be opened
    before = held(store)
    with pytest.raises(StoreError):
        collect(store, max_bytes=1, max_age=DAY, now=LATER)
    assert held(store) == before
    assert store.line("s").floor == 0


def test_a_store_in_use_is_left_for_the_next_time(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.workspace.checkpoints.garbage_collection.WAIT_SECONDS", 0.02)
    spare = store.objects.add(b"spare")
    with CheckpointStore(store.folder).sharing():
        done = collect(store, max_bytes=AMPLE, max_age=DAY, now=LATER)
    assert done.busy
    assert spare in held(store)
    assert collect(store, max_bytes=AMPLE, max_age=DAY, now=LATER).objects == 1


def test_between_two_pieces_others_may_add_and_lose_nothing(store: CheckpointStore) -> None:
    other = CheckpointStore(store.folder)
    for number in range(100):
        store.objects.add(b"spare %d" % number)
    added = 0
    for _ in collecting(store, max_bytes=AMPLE, max_age=DAY, now=time.time() + YOUNG_SECONDS + 60):
        # It takes contents that are about to go.
        write(other, "a", b"spare %d" % (added % 100), created=LATER)
        stored = (
            other.objects.folder
            / digest(b"spare %d" % (added % 100))[:2]
            / digest(b"spare %d" % (added % 100))
        )
        os.utime(stored, (LATER, LATER))  # as young as it is to a collection that begins now
        added += 1
    assert added > 50
    assert verify(store).sound


def test_a_collection_that_ends_halfway_leaves_a_sound_store_and_is_made_up_for(
    store: CheckpointStore,
) -> None:
    for number in range(60):
        write(store, "a", b"%d" % number, created=LATER - (60 - number) * DAY)
    pieces = 0
    finished = False
    while not finished:
        run = collecting(store, max_bytes=AMPLE, max_age=10.5 * DAY, now=LATER)
        pieces += 7
        for number, _ in enumerate(run):
            if number == pieces:
                break
        else:
            finished = True
        assert verify(store).sound
    assert store.line("s").floor == 50
    assert len(held(store)) == 11


def test_what_killed_processes_left_unfinished_goes_when_it_is_old(store: CheckpointStore) -> None:
    write(store, "a", b"x", created=LATER)
    old, young = store.objects.folder / ".new-old", store.lines / ".new-young"
    for path, age in ((old, DAY), (young, 60)):
        path.write_bytes(b"half")
        age_to(path, LATER - age)
    collect(store, max_bytes=AMPLE, max_age=DAY, now=LATER)
    assert (old.exists(), young.exists()) == (False, True)


@pytest.mark.thorough
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(0, 5), st.integers(0, 20)),
        max_size=12,
    ),
    limit=st.integers(0, 90_000),
    age=st.integers(1, 25),
)
def test_every_state_above_the_floor_can_be_reached_after_any_collection(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, str, int, int]],
    limit: int,
    age: int,
) -> None:
    store = CheckpointStore(tmp_path_factory.mktemp("collect") / "checkpoints")
    for session, path, content, day in steps:
        write(store, path, b"%d" % content * 4000, session=session, created=LATER - day * DAY)
    count = len(steps)
    done = collect(store, max_bytes=limit, max_age=age * DAY, now=LATER)
    assert verify(store).sound
    kept_steps = [step for session in store.sessions() for step in store.line(session).steps()]
    assert len(kept_steps) == count - done.steps
    entries = (
        entry for step in kept_steps for change in step.changes for entry in (change.before, change.after)
    )
    assert held(store) == {entry.digest for entry in entries if entry is not None}
    # A line's last block, and what belongs to no step, come on top.
    assert store.size() <= limit + 3 * 4096 or not kept_steps

"""A line of steps only grows, whoever writes, is killed or damages it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import StoreError
from agent.workspace.checkpoints.entries import Coverage, LeftOut, PathChange
from agent.workspace.checkpoints.step_log import MissingLineError, StepLog
from agent.workspace.checkpoints.store import CheckpointStore
from tests.agent.workspace.checkpoints.support import add, file, kept


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "checkpoints")


def again(store: CheckpointStore, session: str = "s") -> StepLog:
    """The same line, read by somebody else."""
    return StepLog(store.lines, session, store.objects)


def change(number: int) -> PathChange:
    return PathChange(f"file-{number}", None, file(b"%d" % number))


def test_steps_are_numbered_from_one_and_read_back_as_they_were(store: CheckpointStore) -> None:
    line = store.line("s")
    coverage = Coverage((LeftOut("big.bin", "larger than 100 MB"),), more=3)
    first = line.append(
        kind="command",
        session="child",
        call="c1",
        label="terminal make",
        root="/project",
        changes=[change(1), PathChange("gelö\udcffscht", file(b"x"), None)],
        coverage=coverage,
        created=12.5,
    )
    second = add(store)
    assert (first.number, second.number, line.last, line.floor) == (1, 2, 2, 0)
    assert line.steps() == again(store).steps() == (first, second)
    assert line.steps(after=1) == again(store).steps(after=1) == (second,)
    assert line.steps(after=2) == ()
    assert again(store).flaws() == ()


def test_a_step_with_very_many_changes_is_read_back_as_it_was(store: CheckpointStore) -> None:
    step = add(store, *(change(number) for number in range(3_000)))
    assert len(list(store.objects.names())) == 1
    assert again(store).steps() == (step,)


@pytest.mark.sample(3)
@pytest.mark.parametrize("text", ["", "[", "[,", "7", "{}", "[1,2", "[1,2]]", "[1 2]", "[1,]", "[" * 100_000])
def test_a_list_of_changes_that_was_tampered_with_is_a_flaw(store: CheckpointStore, text: str) -> None:
    whole = add(store, *(change(number) for number in range(3_000)))
    (name,) = store.objects.names()
    forged = store.objects.add(text.encode())
    line = store.line("s").path
    payload = json.loads(line.read_bytes().splitlines()[1][26:])
    record = json.dumps(payload | {"changes_in": forged}, separators=(",", ":")).encode()
    mark = sha256(record).hexdigest()[:16].encode()
    head = line.read_bytes().splitlines(keepends=True)[0]
    line.write_bytes(head + b"%08x %s %s\n" % (len(record), mark, record))
    found = again(store)
    assert (found.steps(), found.last, len(found.flaws())) == ((), whole.number, 1)
    assert name != forged


def test_a_line_nobody_wrote_is_empty_and_makes_no_file(store: CheckpointStore) -> None:
    line = store.line("s")
    assert (line.last, line.floor, line.steps(), line.flaws()) == (0, 0, (), ())
    assert not line.path.exists()
    with pytest.raises(MissingLineError):
        line.prune(1)


def test_what_others_append_is_seen_without_reading_all_again(store: CheckpointStore) -> None:
    mine, theirs = store.line("s"), again(store)
    for number in range(1, 8):
        writer = mine if number % 2 else theirs
        step = writer.append(
            kind="tool", session="s", call="", label="", root="/", changes=[change(number)], created=1.0
        )
        assert step.number == number
        assert mine.steps() == theirs.steps()
        assert mine.last == theirs.last == number


@pytest.mark.parametrize("count", [1, 3000])
def test_changes_stand_in_the_line_or_beside_it_by_their_size(store: CheckpointStore, count: int) -> None:
    step = add(store, *(change(number) for number in range(count)))
    assert again(store).steps() == (step,)
    assert len(list(store.objects.names())) == (1 if count > 1 else 0)
    assert store.line("s").path.stat().st_size < 66_000
    (need,) = again(store).needs()
    assert len(need.digests) == (count + 1 if count > 1 else 1)
    assert need == store.line("s").needs()[0]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../s", "a\0b", ".new-1", "x" * 300, "s\n"])
def test_names_that_lead_elsewhere_are_refused(store: CheckpointStore, name: str) -> None:
    with pytest.raises(StoreError, match="cannot be the name"):
        store.line(name)


def test_every_torn_end_is_cut_and_the_number_given_again(store: CheckpointStore) -> None:
    add(store, change(1))
    add(store, change(2))
    whole = store.line("s").path.read_bytes()
    begin = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(begin, len(whole), 7):
        store.line("s").path.write_bytes(whole[:cut] + b"\0" * (cut % 3))
        line = again(store)
        assert [step.number for step in line.steps()] == [1]
        step = line.append(kind="tool", session="s", call="", label="", root="/", changes=[change(9)])
        assert step.number == 2
        assert [each.number for each in again(store).steps()] == [1, 2]
        assert again(store).flaws() == ()


def test_a_line_torn_in_its_very_first_write_is_begun_anew(store: CheckpointStore) -> None:
    add(store, change(1))
    path = store.line("s").path
    whole = path.read_bytes()
    for cut in (0, 1, 20, whole.index(b"\n") - 1):
        path.write_bytes(whole[:cut])
        line = again(store)
        assert line.last == 0
        step = line.append(kind="tool", session="s", call="", label="", root="/", changes=[])
        assert step.number == 1
        assert again(store).steps() == (step,)


@pytest.mark.parametrize("text", [b"#!/bin/sh\necho mine\n", b"no line break", b"\x89PNG\r\n\x1a\n\0\0"])
def test_a_foreign_file_is_refused_by_name_and_left_alone(store: CheckpointStore, text: bytes) -> None:
    store.lines.mkdir()
    path = store.lines / "s.log"
    path.write_bytes(text)
    with pytest.raises(StoreError, match=r"s\.log holds no steps of Hermes"):
        add(store, change(1))
    assert path.read_bytes() == text


def test_a_newer_format_is_refused_each_time_and_left_alone(store: CheckpointStore) -> None:
    store.lines.mkdir()
    path = store.lines / "s.log"
    head = b'{"line":2,"session":"s","floor":0}'
    text = b"%08x %s %s\nwhatever\n" % (len(head), sha256(head).hexdigest()[:16].encode(), head)
    path.write_bytes(text)
    for _ in range(2):
        with pytest.raises(StoreError, match="of format 2"):
            add(store, change(1))
        with pytest.raises(StoreError, match="update Hermes"):
            store.line("s").steps()
    assert path.read_bytes() == text


def test_a_damaged_line_in_the_middle_is_named_and_the_rest_read(store: CheckpointStore) -> None:
    for number in range(1, 6):
        add(store, change(number))
    path = store.line("s").path
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"file-3", b"file-X")
    path.write_bytes(b"".join(lines))
    line = again(store)
    assert [step.number for step in line.steps()] == [1, 2, 4, 5]
    (flaw,) = line.flaws()
    assert (flaw.place, flaw.sentence) == (4, "The record of step 3 is damaged.")
    assert line.last == 5


def test_a_damaged_last_record_keeps_its_number(store: CheckpointStore) -> None:
    for number in range(1, 4):
        add(store, change(number))
    path = store.line("s").path
    path.write_bytes(path.read_bytes()[:-4] + b"???\n")
    line = again(store)
    step = line.append(kind="tool", session="s", call="", label="", root="/", changes=[])
    assert step.number == 4
    assert [each.number for each in again(store).steps()] == [1, 2, 4]


def test_a_damaged_head_costs_no_step(store: CheckpointStore) -> None:
    for number in range(1, 6):
        add(store, change(number))
    store.line("s").prune(2)
    path = store.line("s").path
    path.write_bytes(b"?" + path.read_bytes()[1:])
    line = again(store)
    assert [step.number for step in line.steps()] == [3, 4, 5]
    assert (line.floor, line.last) == (2, 5)
    assert [flaw.place for flaw in line.flaws()] == [1]


def test_a_step_whose_changes_are_lost_is_named_and_the_others_are_read(store: CheckpointStore) -> None:
    add(store, *(change(number) for number in range(3000)))
    second = add(store, change(1))
    (digest,) = store.objects.names()
    store.objects.discard(digest)
    line = again(store)
    assert line.steps() == (second,)
    assert [flaw.sentence.startswith("Step 1 cannot be used: ") for flaw in line.flaws()] == [True]


def test_numbers_go_on_above_those_that_others_know(store: CheckpointStore) -> None:
    add(store)
    line = store.line("s")
    step = line.append(kind="tool", session="s", call="", label="", root="/", changes=[], after=7)
    assert step.number == 8
    assert add(store).number == 9
    assert again(store).steps() == line.steps()


def test_pruned_steps_are_gone_and_numbers_go_on(store: CheckpointStore) -> None:
    for number in range(1, 11):
        add(store, change(number))
    other = again(store)
    assert other.last == 10
    store.line("s").prune(4)
    for line in (store.line("s"), other, again(store)):
        assert (line.floor, line.last) == (4, 10)
        assert [step.number for step in line.steps()] == [5, 6, 7, 8, 9, 10]
    other.prune(3)
    assert again(store).floor == 4
    other.prune(10)
    assert (again(store).floor, again(store).last, again(store).steps()) == (10, 10, ())
    assert add(store).number == 11


def test_a_dropped_line_is_gone_and_may_begin_again(store: CheckpointStore) -> None:
    add(store, change(1))
    other = again(store)
    assert other.last == 1
    store.drop("s")
    store.drop("s")
    assert (other.last, store.sessions()) == (0, ())
    assert other.append(kind="tool", session="s", call="", label="", root="/", changes=[]).number == 1


def test_a_full_disk_is_one_sentence_and_the_line_stays_as_it_was(store: CheckpointStore) -> None:
    add(store, change(1))
    before = store.line("s").path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, hard))
    try:
        with pytest.raises(StoreError, match="no room for checkpoints"):
            add(store, *(change(number) for number in range(100)))
        assert store.line("s").path.read_bytes() == before
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert add(store, change(2)).number == 2
    assert again(store).flaws() == ()


WRITER = """
import sys
from hashlib import sha256
from pathlib import Path
from agent.workspace.checkpoints.entries import PathChange
from agent.workspace.checkpoints.store import CheckpointStore
store = CheckpointStore(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    changes = [PathChange(f"{sys.argv[2]}-{number}-{part}", None, None) for part in range(40)]
    fields = dict(kind="tool", session=sys.argv[2], call=str(number), label="", root="/")
    store.line("s").append(**fields, changes=changes)
"""


@pytest.mark.thorough
def test_processes_that_write_at_once_neither_mix_nor_lose_records(store: CheckpointStore) -> None:
    command = [sys.executable, "-c", WRITER, str(store.folder)]
    writers = [subprocess.Popen([*command, name, "60"], cwd=Path.cwd()) for name in ("a", "b", "c")]
    for _ in range(20):
        store.line("s").steps()  # a reader in between
        add(store, session="s")
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    steps = again(store).steps()
    assert [step.number for step in steps] == list(range(1, 201))
    assert store.line("s").steps() == steps
    for name in ("a", "b", "c"):
        assert [int(step.call) for step in steps if step.session == name] == list(range(60))
    assert all(len(step.changes) in (0, 40) for step in steps)
    assert again(store).flaws() == ()


@pytest.mark.thorough
def test_pruning_while_others_append_loses_nothing(store: CheckpointStore) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(store.folder), "a", "150"], cwd=Path.cwd())
    line = again(store)
    while writer.poll() is None:
        if line.last > line.floor + 10:
            line.prune(line.last - 5)
    assert writer.returncode == 0
    assert line.last == 150
    assert [step.number for step in again(store).steps()] == list(range(line.floor + 1, 151))


@pytest.mark.thorough
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_whatever_is_damaged_the_rest_is_read_and_the_line_goes_on(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    store = CheckpointStore(tmp_path_factory.mktemp("damage") / "checkpoints")
    for number in range(1, 7):
        add(store, PathChange(f"f{number}", None, kept(store, b"%d" % number)), created=1.0)
    path = store.line("s").path
    whole = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(whole) - 1))
    width = data.draw(st.integers(1, 40))
    bad = data.draw(st.binary(min_size=0, max_size=40))
    whole[at : at + width] = bad
    path.write_bytes(bytes(whole))
    line = again(store)
    intact = [step.number for step in line.steps()]
    assert intact == sorted(set(intact))
    assert set(intact) <= {1, 2, 3, 4, 5, 6}
    # Damage of forty bytes touches two records at most.
    assert len(intact) >= 4
    step = line.append(kind="tool", session="s", call="", label="new", root="/", changes=[])
    assert step.number > max(intact)
    assert again(store).steps()[-1] == step


def test_an_append_is_with_the_system_when_it_returns(store: CheckpointStore) -> None:
    script = WRITER + "\nimport os; print('done', flush=True); os.kill(os.getpid(), 9)\n"
    done = subprocess.run(
        [sys.executable, "-c", script, str(store.folder), "a", "5"], cwd=Path.cwd(), capture_output=True
    )
    assert done.returncode == -9
    assert len(again(store).steps()) == 5
    assert os.stat(store.line("s").path).st_mode & 0o777 == 0o600

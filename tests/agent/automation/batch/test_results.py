"""Results and the journal: what a kill cut short counts for nothing, and the end is in order."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.automation.batch.attempt import (
    Begun,
    ResultFolder,
    ResultsNotWrittenError,
    SharedStore,
    TaskResult,
)


def result(key: str, outcome: str = "done") -> TaskResult:
    return TaskResult(key, key, outcome, f"said {key}", {"input": 1}, 0.5, 1, (), "s")


def test_results_are_put_into_the_order_of_the_tasks(tmp_path: Path):
    folder = ResultFolder(tmp_path / "out")
    folder.prepare()
    for key in ("c", "a", "x", "b", "a"):
        folder.note_ended(result(key, "failed" if key == "x" else "done"))
    folder.put_in_order(["a", "b", "missing", "c"])
    assert [each.key for each in folder.task_results()] == ["a", "b", "c", "x"]
    assert folder.results.stat().st_mode & 0o777 == 0o600


def test_a_line_that_was_cut_short_is_no_line_and_the_next_one_is_whole(tmp_path: Path):
    folder = ResultFolder(tmp_path / "out")
    folder.prepare()
    folder.note_ended(result("a"))
    whole = json.dumps(result("b").to_json())
    for cut in (1, len(whole) // 2, len(whole) - 1):
        with folder.results.open("a") as file:
            file.write(whole[:cut])
        folder.prepare()
        folder.note_ended(result("c"))
    assert [each.key for each in folder.task_results()] == ["a", "c", "c", "c"]


def test_the_journal_tells_the_last_session_and_attempt(tmp_path: Path):
    folder = ResultFolder(tmp_path / "out")
    folder.prepare()
    folder.note_begun("a", "one", 1)
    folder.note_begun("a", "one", 2)
    with folder.journal.open("a") as file:
        file.write('{"task": "b", "session": "two", "attempt": "x"}\n{"task": [], "session": "three"}\n')
    assert folder.begun_tasks() == {"a": Begun("one", 2), "b": Begun("two", 1)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": ["a"]},
        {"usage": None},
        {"usage": {"input": "1"}},
        {"text": 1},
        {"seconds": "0.5"},
        {"attempts": None},
        {"cost": "free"},
        {"checks": None},
        {"checks": [{"check": 1, "passed": True}]},
        {"checks": [{"check": "a", "passed": "yes"}]},
        {"toolsets": [1]},
        {"more": 1},
    ],
)
def test_a_line_with_a_field_of_another_type_is_no_result(tmp_path: Path, wrong: dict[str, object]):
    folder = ResultFolder(tmp_path / "out")
    folder.prepare()
    folder.note_ended(result("a"))
    with folder.results.open("a") as file:
        file.write(json.dumps({**result("b").to_json(), **wrong}) + "\n")
    folder.note_ended(result("c"))
    assert [each.key for each in folder.task_results()] == ["a", "c"]
    folder.put_in_order(["c", "a"])
    assert [each.key for each in folder.task_results()] == ["c", "a"]


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Files cannot grow beyond `size` bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_a_full_disk_cuts_short_is_told_and_spoils_no_line_after_it(tmp_path: Path):
    folder = ResultFolder(tmp_path / "out")
    folder.prepare()
    folder.note_begun("a", "one", 1)
    folder.note_ended(result("a"))
    with room_for(folder.journal.stat().st_size + 20), pytest.raises(ResultsNotWrittenError) as told:
        folder.note_begun("b", "two", 1)
    assert str(folder.journal) in str(told.value) and "run the same command again to continue" in str(
        told.value
    )
    with room_for(folder.results.stat().st_size + 20), pytest.raises(ResultsNotWrittenError):
        folder.note_ended(result("b"))
    with room_for(20), pytest.raises(ResultsNotWrittenError):
        folder.put_in_order(["b", "a"])
    assert not [each for each in folder.root.iterdir() if each.name.startswith(".")]
    # The run that has room again, without having been started anew.
    folder.note_begun("c", "three", 1)
    folder.note_ended(result("c"))
    assert folder.begun_tasks() == {"a": Begun("one", 1), "c": Begun("three", 1)}
    assert [each.key for each in folder.task_results()] == ["a", "c"]


async def test_the_store_of_a_worker_keeps_no_more_of_a_growing_database_in_memory(tmp_path: Path):
    shared = SharedStore(tmp_path / "sessions.db")
    database = await shared.database()
    kept = await database.read(lambda connection: connection.execute("PRAGMA cache_size").fetchone())
    assert tuple(kept) == (-2048,)
    await shared.aclose()

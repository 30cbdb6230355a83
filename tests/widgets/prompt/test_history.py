"""History survives processes, crashes and its own size."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from widgets.prompt.history import KEPT, History, HistorySearch

WRITER = """
import sys
from pathlib import Path
from widgets.prompt.history import History
history = History(Path(sys.argv[1]))
for number in range(300):
    history.store(f"{sys.argv[2]} {number} " + "x" * 200)
"""


def loaded(path: Path) -> list[str]:
    history = History(path)
    history.load()
    return list(history.entries)


def test_what_was_stored_is_there_next_time(tmp_path: Path) -> None:
    path = tmp_path / "project" / "history.jsonl"
    history = History(path)
    for text in ("one", "two\nlines", "日本"):
        history.store(text)
    assert loaded(path) == ["one", "two\nlines", "日本"]


def test_file_and_folder_are_the_persons_own(tmp_path: Path) -> None:
    path = tmp_path / "project" / "history.jsonl"
    History(path).store("one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.thorough
def test_processes_that_write_at_once_lose_and_tear_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    children = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in "abc"]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    lines = path.read_text().splitlines()
    assert all(json.loads(line) for line in lines)
    assert {entry.split(" x")[0] for entry in loaded(path)} == {f"{n} {i}" for n in "abc" for i in range(300)}


def test_the_file_keeps_the_newest_entries_only(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps({"text": f"{n} {'x' * 40}"}) + "\n" for n in range(KEPT * 2)))
    History(path).store("last")
    entries = loaded(path)
    assert len(entries) == len(path.read_text().splitlines()) == KEPT
    assert entries[-1] == "last"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_line_torn_by_a_crash_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'{"text": "one"}\n\xff\xfe\n[1]\n{"text": 3}\n' + b"[" * 5000 + b'\n{"text": "tw')
    History(path).store("three")
    assert loaded(path) == ["one", "three"]


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("untouched")
    path = tmp_path / "history.jsonl"
    os.symlink(target, path)
    try:
        History(path).store("one")
    except OSError:
        pass
    assert target.read_text() == "untouched"


def test_duplicates_are_kept_where_they_were_used_last() -> None:
    history = History()
    for text in ("one", "two", "one"):
        history.add(text)
    assert history.entries == ["two", "one"]
    assert not history.add("  \n")


def test_walking_up_and_down_comes_back_to_the_draft() -> None:
    history = History()
    history.add("one")
    history.add("two")
    assert history.newer() is None
    assert [history.older("draft"), history.older("?"), history.older("?")] == ["two", "one", None]
    assert [history.newer(), history.newer(), history.newer()] == ["two", "draft", None]


def test_a_search_goes_back_in_time_and_narrows_in_place() -> None:
    search = HistorySearch(["fix money", "run tests", "Fix views", "fix tests"])
    assert search.match is None
    search.look_for("fix")
    assert (search.match, search.place) == ("fix tests", (1, 3))
    search.step(1)
    assert search.match == "Fix views"
    search.look_for("fix m")
    assert (search.match, search.span) == ("fix money", (0, 5))
    search.look_for("Fix")
    assert search.match == "Fix views"
    search.look_for("nowhere")
    assert (search.match, search.place) == (None, (0, 0))


def test_what_is_read_while_one_walks_does_not_move_the_entry_shown(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    for text in ("one", "two"):
        History(path).store(text)
    history = History(path)
    history.add("three")
    assert history.older("") == "three"
    history.load()
    assert [history.older(""), history.older(""), history.older("")] == ["two", "one", None]

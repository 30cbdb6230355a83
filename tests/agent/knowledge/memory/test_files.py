"""Memory files on disk: persons' edits, broken files, two processes, kill -9."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agent.knowledge.memory import files as files_module
from agent.knowledge.memory import scopes
from agent.knowledge.memory.files import (
    MemoryFile,
    MemoryFileError,
    MemoryOperation,
    MemoryWriteError,
    Origin,
)

ROOT = Path(__file__).parents[4]
ORIGIN = Origin(1_700_000_000.0, "session-1", 7)


@pytest.fixture
def file(tmp_path: Path) -> MemoryFile:
    return MemoryFile(tmp_path / "memories" / "MEMORY.md", 2_200)


def add(content: str) -> list[MemoryOperation]:
    return [MemoryOperation("add", content)]


def test_the_first_write_makes_private_files(file: MemoryFile) -> None:
    file.write(add("One."), ORIGIN)
    assert file.path.read_text() == "One.\n"
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700


def test_an_entry_knows_where_it_came_from(file: MemoryFile) -> None:
    file.write(add("One."), ORIGIN)
    file.write(add("Two."), Origin(1_700_000_500.0, "session-2", 9))
    memory = file.read()
    assert memory.origins.of("One.") == ORIGIN
    assert memory.origins.of("Two.") == Origin(1_700_000_500.0, "session-2", 9)
    assert memory.origins.of("Three.") is None


def test_what_a_person_wrote_is_kept_and_told(file: MemoryFile) -> None:
    file.write(add("One."), ORIGIN)
    file.path.write_text("One, as I put it.\n§\nMine.\n")
    before, after = file.write(add("Three."), ORIGIN)
    assert before.entries == ("One, as I put it.", "Mine.")
    assert after.entries == ("One, as I put it.", "Mine.", "Three.")
    assert "edited by hand" in after.note
    [copy] = file.path.parent.glob("MEMORY.md.bak.*")
    assert copy.read_text() == "One, as I put it.\n§\nMine.\n"
    origin = after.origins.of("Mine.")
    assert origin is not None and origin.by == "file"


def test_a_file_of_our_own_is_not_taken_for_an_edit(file: MemoryFile) -> None:
    file.write(add("One."), ORIGIN)
    _, after = file.write(add("Two."), ORIGIN)
    assert after.note == "" and not list(file.path.parent.glob("*.bak.*"))


def test_an_older_version_of_ours_that_undo_brought_back_is_no_edit(file: MemoryFile) -> None:
    file.write(add("One."), ORIGIN)
    first = file.path.read_bytes()
    file.write(add("Two."), ORIGIN)
    file.path.write_bytes(first)
    assert file.write(add("Three."), ORIGIN)[1].note == ""


@pytest.mark.parametrize(
    ("content", "cause"),
    [(b"\xff\xfe\x00bad", "UTF-8"), (b"a\0b", "NUL"), (b"x" * 1_000_001, "larger than")],
    ids=["foreign", "binary", "huge"],
)
def test_a_file_that_is_no_memory_is_refused_and_left_alone(
    file: MemoryFile, content: bytes, cause: str
) -> None:
    file.write(add("One."), ORIGIN)
    file.path.write_bytes(content)
    with pytest.raises(MemoryFileError, match=cause):
        file.read()
    with pytest.raises(MemoryFileError, match=cause):
        file.write(add("Two."), ORIGIN)
    assert file.path.read_bytes() == content


def test_links_folders_and_devices_are_refused(file: MemoryFile, tmp_path: Path) -> None:
    file.path.parent.mkdir()
    file.path.symlink_to("/etc/hostname")
    with pytest.raises(MemoryFileError):
        file.write(add("One."), ORIGIN)
    file.path.unlink()
    os.mkfifo(file.path)
    with pytest.raises(MemoryFileError, match="not a plain file"):
        file.read()
    file.path.unlink()
    file.path.mkdir()
    with pytest.raises(MemoryFileError):
        file.write(add("One."), ORIGIN)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"version": 9}', b'{"version":1,"versions":3}', b"\xff"]
)
def test_torn_origins_lose_no_entry(file: MemoryFile, content: bytes) -> None:
    file.write(add("One."), ORIGIN)
    file.origins_path.write_bytes(content)
    assert file.read().entries == ("One.",)
    _, after = file.write(add("Two."), ORIGIN)
    assert after.entries == ("One.", "Two.") and "lost" in after.note
    assert file.write(add("Three."), ORIGIN)[1].note == ""


def test_origins_that_are_no_file_are_named_and_never_waited_for(file: MemoryFile) -> None:
    file.write(add("One."), ORIGIN)
    file.origins_path.unlink()
    os.mkfifo(file.origins_path)
    assert file.read().entries == ("One.",)
    with pytest.raises(MemoryFileError, match="beside it cannot be written"):
        file.write(add("Two."), ORIGIN)
    assert file.read().entries == ("One.",)


def test_a_refused_write_changes_nothing(file: MemoryFile) -> None:
    file.write(add("One."), ORIGIN)
    before = file.path.read_bytes(), file.origins_path.read_bytes()
    with pytest.raises(MemoryWriteError):
        file.write([*add("Two."), MemoryOperation("remove", old_text="nowhere")], ORIGIN)
    assert (file.path.read_bytes(), file.origins_path.read_bytes()) == before


WRITER = """
import sys, random
from pathlib import Path
from agent.knowledge.memory.files import MemoryOperation
from agent.knowledge.memory.files import MemoryFile
from agent.knowledge.memory.files import Origin
name, count = sys.argv[2], int(sys.argv[3])
file = MemoryFile(Path(sys.argv[1]), 1_000_000)
kept = []
for number in range(count):
    text = f"{name} {number}."
    file.write([MemoryOperation("add", text)], Origin(0.0, name))
    kept.append(text)
    if number % 3 == 1:
        new = text + " changed"
        file.write([MemoryOperation("replace", new, text)], Origin(0.0, name))
        kept[-1] = new
    elif number % 3 == 2:
        file.write([MemoryOperation("remove", old_text=kept.pop(0))], Origin(0.0, name))
    print(f"{number}", flush=True)
print("|".join(kept))
"""


def writer(file: MemoryFile, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(file.path), name, str(count)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.thorough
def test_two_processes_lose_nothing_of_each_other(file: MemoryFile) -> None:
    both = [writer(file, name, 100) for name in ("ann", "bob")]
    kept = [process.communicate(timeout=100)[0].splitlines()[-1].split("|") for process in both]
    entries = file.read().entries
    assert sorted(entries) == sorted([*kept[0], *kept[1]])
    for own in kept:
        assert [entry for entry in entries if entry in own] == own
    assert not list(file.path.parent.glob("*.bak.*"))


@pytest.mark.thorough
def test_a_kill_at_any_moment_leaves_whole_entries(file: MemoryFile) -> None:
    for round_ in range(8):
        process = writer(file, f"round{round_}", 1_000)
        assert process.stdout is not None
        for _ in range(round_ * 2 + 1):
            process.stdout.readline()
        time.sleep(0.003 * (round_ % 4))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        memory = file.read()
        assert all(entry.startswith("round") and entry.endswith((".", "changed")) for entry in memory.entries)
        assert file.write(add(f"round{round_} after."), ORIGIN)[1].note == ""
    assert sum(entry.endswith("after.") for entry in file.read().entries) == 8


def kept(file: MemoryFile, entry: str) -> bool:
    """Whether an entry is in the file or in a version that was put aside."""
    copies = file.path.parent.glob("MEMORY.md.bak.*")
    return entry in file.read().entries or any(entry in copy.read_text() for copy in copies)


@pytest.mark.parametrize("in_place", [False, True], ids=["by a new file", "in place"])
def test_a_person_who_saves_between_reading_and_writing_loses_nothing(
    file: MemoryFile, monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    file.write(add("One."), ORIGIN)
    saves = iter(["One.\n§\nMine.\n", "One.\n§\nMine.\n§\nMine too.\n"])
    whole = scopes.replace_content

    def put(path: Path, content: bytes, seen: bytes | None) -> bool:
        if (text := next(saves, None)) is not None:
            new = path if in_place else path.with_name("editor~")
            new.write_text(text)
            os.replace(new, path)
        return whole(path, content, seen)

    monkeypatch.setattr(files_module, "replace_content", put)
    _, after = file.write(add("Two."), ORIGIN)
    assert after.entries == ("One.", "Mine.", "Mine too.", "Two.") == file.read().entries
    assert "edited by hand" in after.note
    assert not list(file.path.parent.glob(".MEMORY.md.*.tmp"))


def test_a_person_who_writes_without_a_pause_is_told_and_loses_nothing(
    file: MemoryFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write(add("One."), ORIGIN)
    monkeypatch.setattr(files_module, "replace_content", lambda *_: False)
    monkeypatch.setattr(files_module.time, "sleep", lambda _: None)
    with pytest.raises(MemoryFileError, match="keeps writing"):
        file.write(add("Two."), ORIGIN)
    assert file.read().entries == ("One.",)


def test_what_a_killed_write_left_beside_the_file_is_cleared_away_or_kept(file: MemoryFile) -> None:
    file.write(add("One."), ORIGIN)
    folder = file.path.parent
    (folder / ".MEMORY.md.00.tmp").write_text("One.\n")
    (folder / ".MEMORY.md.01.tmp").write_text("Mine, taken out in the last moment.\n")
    (folder / ".MEMORY.md.02.tmp.part").write_text("One.\n§\nTw")
    _, after = file.write(add("Two."), ORIGIN)
    assert "put aside" in after.note and kept(file, "Mine, taken out in the last moment.")
    assert not list(folder.glob(".MEMORY.md.*"))


def test_a_file_that_its_owner_made_read_only_stays(file: MemoryFile) -> None:
    file.write(add("One."), ORIGIN)
    file.path.chmod(0o400)
    if os.access(file.path, os.W_OK):
        pytest.skip("root may write everything")
    with pytest.raises(MemoryFileError, match="Permission denied"):
        file.write(add("Two."), ORIGIN)


TOLD_WRITER = """
import sys
import threading
from pathlib import Path
from agent.knowledge.memory.files import MemoryOperation
from agent.knowledge.memory.files import MemoryFile
from agent.knowledge.memory.files import Origin
name, first, count = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
file = MemoryFile(Path(sys.argv[1]), 1_000_000)
own = [entry for entry in file.read().entries if entry.startswith(name)]
for number in range(first, first + count):
    text = f"{name} {number}."
    match number % 3:
        case 0:
            change, gone, new = MemoryOperation("add", text), "", text
        case 1 if own:
            gone, new = own.pop(), text + " changed"
            change = MemoryOperation("replace", new, gone)
        case _ if own:
            gone, new = own.pop(0), ""
            change = MemoryOperation("remove", old_text=gone)
        case _:
            change, gone, new = MemoryOperation("add", text), "", text
    print(f"?{gone}|{new}", flush=True)
    file.write([change], Origin(0.0, name))
    own += [new] if new else []
    print(f"!{gone}|{new}", flush=True)
"""


def tell(process: subprocess.Popen[str], entries: dict[str, bool | None]) -> None:
    """Keep up with what a writer says: written, gone, or None where it may have been killed in between."""
    assert process.stdout is not None
    for line in process.stdout:
        gone, _, new = line.strip()[1:].partition("|")
        for entry, there in ((gone, False), (new, True)):
            if entry:
                entries[entry] = there if line.startswith("!") else None


@pytest.mark.thorough
def test_two_processes_of_200_writes_and_100_kills_lose_and_tear_nothing(file: MemoryFile) -> None:
    chance = random.Random(13)
    file.write(add("The first."), ORIGIN)
    said: dict[str, dict[str, bool | None]] = {"ann": {}, "bob": {}}

    def start(name: str, first: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", TOLD_WRITER, str(file.path), name, str(first), "200"],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            text=True,
        )

    for kill in range(50):
        both = {name: start(name, kill * 1_000) for name in said}
        heard = {name: len(entries) for name, entries in said.items()}
        hearers: list[threading.Thread] = []
        for name, process in both.items():
            hearers.append(threading.Thread(target=tell, args=(process, said[name])))
            hearers[-1].start()
        while any(len(entries) == heard[name] for name, entries in said.items()):
            time.sleep(0.001)
        time.sleep(chance.random() * 0.2)
        for process in both.values():
            process.kill()
            process.wait()
        for hearer, process in zip(hearers, both.values(), strict=True):
            hearer.join()
            assert process.stdout is not None
            process.stdout.close()
        there = set(file.read().entries)
        for entries in said.values():
            lost = [entry for entry, written in entries.items() if written and entry not in there]
            back = [entry for entry, written in entries.items() if written is False and entry in there]
            assert not lost and not back, (kill, lost, back)
            entries.update({entry: entry in there for entry, known in entries.items() if known is None})
        assert there <= {"The first."} | said["ann"].keys() | said["bob"].keys(), "an entry is torn"
    for process in [start("ann", 99_000), start("bob", 99_000)]:
        assert process.communicate(timeout=300)[0].count("!") == 200
    assert not list(file.path.parent.glob("*.bak.*"))

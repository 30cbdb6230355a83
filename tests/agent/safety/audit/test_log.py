"""The audit log: appended to by threads and processes, through crashes and full disks; every change found."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.safety.audit import log as audit
from agent.safety.audit.check import AuditReport, verify
from agent.safety.audit.log import AuditError, AuditLog, canonical, digest, files

ROOT = Path(__file__).parents[4]
WRITER = """
import sys
from pathlib import Path
from agent.safety.audit.log import AuditLog
log = AuditLog(Path(sys.argv[1]), int(sys.argv[3]))
for number in range(int(sys.argv[4])):
    log.append({"by": sys.argv[2], "number": number, "text": "x" * (number % 300)}, durable=number % 7 == 0)
    print(number, flush=True)
"""


def writer(folder: Path, name: str, count: int, limit: int = 8_000_000) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", WRITER, str(folder), name, str(limit), str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)


def filled(folder: Path, count: int = 6, limit: int = 8_000_000) -> AuditLog:
    log = AuditLog(folder, limit)
    for number in range(count):
        log.append({"headline": f"action {number}", "number": number})
    return log


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in files(folder) for line in path.read_bytes().splitlines()]


def sentences(report: AuditReport) -> str:
    return "\n".join(each.sentence for each in report.problems)


def rewrite(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def test_each_line_is_numbered_and_bound_to_the_one_before(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    filled(folder)
    found = records(folder)
    assert [each["seq"] for each in found] == [1, 2, 3, 4, 5, 6]
    assert found[0]["previous"] == audit.START
    assert all(later["previous"] == earlier["hash"] for earlier, later in pairwise(found))
    assert all(digest(each) == each["hash"] for each in found)
    report = verify(folder)
    assert report.sound and not report.notes and (report.records, report.files) == (6, 1)


def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    before = os.umask(0)
    try:
        filled(folder)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_an_empty_or_missing_log_is_sound(tmp_path: Path) -> None:
    assert verify(tmp_path / "none") == AuditReport(0, 0, (), ())
    assert not (tmp_path / "none").exists()
    (tmp_path / "empty").mkdir()
    assert verify(tmp_path / "empty").sound


def test_a_new_file_goes_on_with_the_chain(tmp_path: Path) -> None:
    filled(tmp_path, 20, limit=600)
    assert len(files(tmp_path)) > 3
    assert verify(tmp_path).sound
    assert [each["seq"] for each in records(tmp_path)] == list(range(1, 21))


def test_another_process_goes_on_with_the_chain(tmp_path: Path) -> None:
    log = filled(tmp_path, 3)
    AuditLog(tmp_path).append({"by": "other"})
    log.append({"by": "first again"})
    assert verify(tmp_path).sound and verify(tmp_path).records == 5


@pytest.mark.thorough
def test_two_processes_and_threads_append_at_once(tmp_path: Path) -> None:
    others = [writer(tmp_path, name, 60, limit=5_000) for name in ("one", "two")]
    log = AuditLog(tmp_path, 5_000)
    threads = [
        threading.Thread(target=lambda: [log.append({"by": "thread"}, durable=False) for _ in range(20)])
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in others:
        other.communicate()
        assert other.returncode == 0
    report = verify(tmp_path)
    assert report.sound and report.records == 180 and report.files > 2
    for name in ("one", "two"):
        assert [each["number"] for each in records(tmp_path) if each["by"] == name] == list(range(60))


@pytest.mark.sample(1)
@pytest.mark.parametrize("lines", [1, 7, 25])
def test_a_killed_writer_leaves_a_log_that_goes_on(tmp_path: Path, lines: int) -> None:
    process = writer(tmp_path, "victim", 1_000_000)
    assert process.stdout is not None
    for _ in range(lines):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    AuditLog(tmp_path).append({"by": "heir"})
    report = verify(tmp_path)
    assert report.sound, report
    assert report.records > lines
    assert records(tmp_path)[-1]["by"] == "heir"


def test_a_torn_line_is_told_kept_and_the_chain_goes_on(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    path = files(tmp_path)[0]
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"headline":"half a li')
    before = verify(tmp_path)
    assert before.sound and "tore" in before.notes[0].sentence
    AuditLog(tmp_path).append({"headline": "after"})
    after = verify(tmp_path)
    assert after.sound and len(after.notes) == 1 and after.records == 5
    assert path.read_bytes().startswith(whole + b'{"headline":"half a li\n')
    assert json.loads(path.read_bytes().splitlines()[4])["kind"] == audit.MENDED


def test_a_line_that_only_lacks_its_break_is_kept(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    path = files(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-1])
    (tmp_path / "head").write_bytes(f"{2:020} {records(tmp_path)[1]['hash']}\n".encode())
    AuditLog(tmp_path).append({"headline": "after"})
    report = verify(tmp_path)
    assert report.sound and not report.notes and report.records == 4


def test_a_torn_line_cannot_be_claimed_for_a_changed_one(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    path = files(tmp_path)[0]
    with path.open("ab") as file:
        file.write(b'{"half')
    AuditLog(tmp_path).append({})
    path.write_bytes(path.read_bytes().replace(b'{"half\n', b'{"HALF\n'))
    assert "not a ruling" in sentences(verify(tmp_path))


FIELDS = ("headline", "number", "seq", "previous", "hash")


@pytest.mark.parametrize("place", [0, 2, 5])
@pytest.mark.parametrize("name", FIELDS)
def test_a_changed_field_is_found(tmp_path: Path, name: str, place: int) -> None:
    filled(tmp_path)
    path = files(tmp_path)[0]

    def change(lines: list[bytes]) -> list[bytes]:
        record = json.loads(lines[place])
        record[name] = record[name] + 1 if isinstance(record[name], int) else record[name][::-1] + "0"
        lines[place] = canonical(record) + b"\n"
        return lines

    rewrite(path, change)
    report = verify(tmp_path)
    assert not report.sound
    assert any(each.file == path.name and each.line == place + 1 for each in report.problems)


def test_a_changed_field_with_a_new_hash_is_found_by_its_neighbour(tmp_path: Path) -> None:
    filled(tmp_path)

    def change(lines: list[bytes]) -> list[bytes]:
        record = json.loads(lines[2]) | {"headline": "something harmless"}
        lines[2] = canonical(record | {"hash": digest(record)}) + b"\n"
        return lines

    rewrite(files(tmp_path)[0], change)
    problems = verify(tmp_path).problems
    assert [each.line for each in problems] == [4]
    assert "written after" in problems[0].sentence


def test_a_last_line_with_a_new_hash_is_found_by_the_head(tmp_path: Path) -> None:
    filled(tmp_path)

    def change(lines: list[bytes]) -> list[bytes]:
        record = json.loads(lines[-1]) | {"headline": "something harmless"}
        return [*lines[:-1], canonical(record | {"hash": digest(record)}) + b"\n"]

    rewrite(files(tmp_path)[0], change)
    assert "not the line that was written" in sentences(verify(tmp_path))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda lines: lines[:2] + lines[3:], "before it, 1 line went missing"),
        (lambda lines: lines[1:], "before it, 1 line went missing"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "wrong place"),
        (lambda lines: [*lines[:3], lines[1], *lines[3:]], "wrong place"),
        (lambda lines: lines[:-1], "lines were cut off"),
        (lambda lines: lines[:1], "lines were cut off"),
        (lambda _lines: [], "lines were cut off"),
        (lambda lines: [*lines[:-1], lines[-1][:20]], "lines were cut off"),
        (lambda lines: [*lines[:2], b"rubbish\n", *lines[2:]], "not a ruling"),
        (lambda lines: [*lines[:2], b"\n", *lines[2:]], "not a ruling"),
        (lambda lines: [*lines[:2], b"[]\n", *lines[3:]], "not a ruling"),
        (lambda lines: [lines[0].replace(b"{", b"{ ", 1), *lines[1:]], "changed"),
        (lambda lines: [lines[0].replace(b'{"h', b'{"headline":"x","h', 1), *lines[1:]], "changed"),
    ],
)
def test_removed_moved_and_added_lines_are_found(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], sentence: str
) -> None:
    filled(tmp_path)
    rewrite(files(tmp_path)[0], change)
    assert sentence in sentences(verify(tmp_path))


def test_cut_off_lines_stay_missed_when_the_log_goes_on(tmp_path: Path) -> None:
    filled(tmp_path)
    rewrite(files(tmp_path)[0], lambda lines: lines[:3])
    AuditLog(tmp_path).append({"headline": "later"})
    assert "before it, 3 lines went missing" in sentences(verify(tmp_path))


@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_missing_file_is_found(tmp_path: Path, place: int) -> None:
    filled(tmp_path, 20, limit=600)
    files(tmp_path)[place].unlink()
    assert not verify(tmp_path).sound


def test_files_in_another_order_are_found(tmp_path: Path) -> None:
    filled(tmp_path, 20, limit=600)
    one, two, *_ = files(tmp_path)
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    assert not verify(tmp_path).sound


@pytest.mark.parametrize("head", [None, b"", b"nonsense", b"5 short"])
def test_a_missing_or_unreadable_head_is_told_and_mended_by_the_next_line(
    tmp_path: Path, head: bytes | None
) -> None:
    filled(tmp_path)
    if head is None:
        (tmp_path / "head").unlink()
    else:
        (tmp_path / "head").write_bytes(head)
    assert "would not be missed" in sentences(verify(tmp_path))
    (tmp_path / "head").unlink(missing_ok=True)
    AuditLog(tmp_path).append({})
    assert verify(tmp_path).sound


@pytest.mark.thorough
@given(
    count=st.integers(2, 8),
    change=st.tuples(st.integers(0, 10_000), st.integers(1, 255)),
)
def test_any_flipped_byte_is_found(
    tmp_path_factory: pytest.TempPathFactory, count: int, change: tuple[int, int]
) -> None:
    folder = tmp_path_factory.mktemp("audit")
    filled(folder, count, limit=700)
    place, flip = change
    total = b"".join(path.read_bytes() for path in files(folder))
    place %= len(total)
    for path in files(folder):
        data = bytearray(path.read_bytes())
        if place < len(data):
            data[place] ^= flip
            path.write_bytes(data)
            break
        place -= len(data)
    assert not verify(folder).sound


_TEXT = st.text(st.characters(), max_size=30) | st.sampled_from(["\udcff", "\0", "\u2028", "NaN"])


@pytest.mark.thorough
@given(
    st.lists(st.dictionaries(_TEXT, _TEXT | st.integers() | st.floats() | st.none(), max_size=4), max_size=6)
)
def test_whatever_was_appended_verifies(
    tmp_path_factory: pytest.TempPathFactory, written: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("audit")
    log = AuditLog(folder, 400)
    for each in written:
        log.append({"data": each})
    report = verify(folder)
    assert report.sound and report.records == len(written)


def test_a_line_longer_than_what_is_read_at_once_is_gone_on_from(tmp_path: Path) -> None:
    AuditLog(tmp_path).append({"text": "x" * 1_000_000})
    AuditLog(tmp_path).append({"text": "y" * 70_000})
    AuditLog(tmp_path).append({"text": "z"})
    assert verify(tmp_path).sound and verify(tmp_path).records == 3


def test_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    log = filled(tmp_path, 3)
    path = files(tmp_path)[0]
    before = path.read_bytes()
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, limits[1]))
    try:
        with pytest.raises(AuditError, match="cannot be written"):
            log.append({"text": "x" * 500})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)
    assert path.read_bytes() == before
    log.append({"text": "there is room again"})
    assert verify(tmp_path).sound


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_folder_or_file_that_cannot_be_used_is_one_sentence(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "audit"
    if kind == "file":
        folder.write_text("")
    else:
        folder.mkdir()
        (folder / audit.file_name(1)).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AuditError):
        AuditLog(folder).append({})
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", ["audit-000001.jsonl", "lock"])
def test_a_pipe_in_the_place_of_a_file_is_told_and_not_waited_for(tmp_path: Path, name: str) -> None:
    filled(tmp_path, 1)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(AuditError, match="cannot be written"):
        AuditLog(tmp_path).append({})


def test_a_file_far_too_large_is_left_alone_and_the_chain_goes_on_in_the_next(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    with (tmp_path / "audit-000001.jsonl").open("ab") as file:
        file.truncate(audit.LONGEST_END + 1)
    mark = AuditLog(tmp_path).append({"number": 3})
    assert mark.seq == 4
    assert [path.name for path in files(tmp_path)] == ["audit-000001.jsonl", "audit-000002.jsonl"]
    assert (tmp_path / "audit-000001.jsonl").stat().st_size == audit.LONGEST_END + 1


def test_a_lock_that_is_never_given_back_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "LOCK_SECONDS", 0.05)
    log = filled(tmp_path, 1)
    with audit.locked(tmp_path), pytest.raises(AuditError, match="locked"):
        log.append({})
    log.append({})
    assert verify(tmp_path).records == 2

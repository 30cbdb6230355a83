"""Fingerprints of files, kept texts, and what the engine wrote."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.workspace import fingerprints
from agent.workspace.fingerprints import ContentKind, FileFingerprint, KeptTexts, digest_of, examine
from agent.workspace.own_writes import OwnWrites


def entry_of(path: Path) -> FileFingerprint:
    found = examine(path)
    assert found is not None
    return found[0]


def test_files_are_told_apart_by_kind(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("é\n")
    (tmp_path / "utf16").write_bytes("text\n".encode("utf-16"))
    (tmp_path / "latin").write_bytes("caf\xe9\n".encode("latin-1"))
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "large").write_bytes(b"x" * (fingerprints.MAX_TEXT + 1))
    (tmp_path / "link").symlink_to("text")
    kinds = {path.name: entry_of(path).kind for path in tmp_path.iterdir()}
    assert kinds == {
        "text": ContentKind.TEXT,
        "utf16": ContentKind.TEXT,
        "latin": ContentKind.TEXT,
        "binary": ContentKind.BINARY,
        "large": ContentKind.LARGE,
        "link": ContentKind.LINK,
    }
    assert entry_of(tmp_path / "text").digest == digest_of("é\n".encode())


def test_what_is_no_file_has_no_entry(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "missing", Path("/dev/null"), tmp_path / "a" / "b"):
        assert examine(path) is None


def test_very_large_files_are_sampled_from_start_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprints, "MAX_HASHED", 2_000_000)
    file = tmp_path / "disk.img"
    size = 12_000_000
    file.write_bytes(bytes(size))
    first = entry_of(file).digest
    os.utime(file, (1, 1))
    assert entry_of(file).digest == first
    for place in (0, size - 1):
        with file.open("r+b") as opened:
            opened.seek(place)
            opened.write(b"x")
        assert entry_of(file).digest != first
        first = entry_of(file).digest
    with file.open("ab") as opened:
        opened.write(b"y")
    assert entry_of(file).digest != first


def test_an_entry_knows_its_file_unless_it_was_just_written(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("1")
    assert not entry_of(file).looks_like(file.lstat())
    entry = entry_of(file)
    old = FileFingerprint(entry.digest, entry.kind, entry.stamp, settled=True)
    assert old.looks_like(file.lstat())
    modified = file.stat().st_mtime_ns
    file.write_text("2")
    os.utime(file, ns=(modified, modified))
    assert not old.looks_like(file.lstat())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=300), st.booleans()), max_size=40), st.integers(0, 800))
def test_kept_texts_stay_within_their_room(texts: list[tuple[bytes, bool]], limit: int) -> None:
    kept = KeptTexts(limit)
    for data, displace in texts:
        kept.keep(digest_of(data), data, displace=displace)
        assert kept.size <= limit
        assert kept.get(digest_of(data)) in (data, None)
    for data, _ in texts:
        kept.drop(digest_of(data))
    assert kept.size == 0


def test_later_texts_displace_the_oldest_only_when_asked_to() -> None:
    one, two = os.urandom(400), os.urandom(400)
    kept = KeptTexts(600)
    kept.keep(digest_of(one), one, displace=False)
    kept.keep(digest_of(two), two, displace=False)
    assert (kept.get(digest_of(one)), kept.get(digest_of(two))) == (one, None)
    kept.keep(digest_of(two), two, displace=True)
    assert (kept.get(digest_of(one)), kept.get(digest_of(two))) == (None, two)


def test_texts_are_kept_in_a_file_that_does_not_grow_for_ever(tmp_path: Path) -> None:
    kept = KeptTexts(1_000, tmp_path)
    texts = [os.urandom(400) for _ in range(20)]
    for data in texts:
        kept.keep(digest_of(data), data, displace=True)
        assert kept._file.size <= 3_000
    assert list(tmp_path.iterdir()) == []
    assert [kept.get(digest_of(data)) for data in texts[-3:]] == [None, *texts[-2:]]
    kept._file.clear()
    assert kept.get(digest_of(texts[-1])) is None
    broken = KeptTexts(1_000, tmp_path / "gone")
    broken.keep(digest_of(b"a"), b"a", displace=True)
    assert (broken.get(digest_of(b"a")), broken.size) == (None, 0)


def test_an_own_write_is_taken_once_with_those_before_it() -> None:
    own = OwnWrites()
    for digest in (b"1", b"2", b"1", b"3"):
        own.expect("a", digest)
    assert own.consume("a", b"1")
    assert not own.consume("a", b"2")
    assert not own.consume("b", b"3")
    assert own.consume("a", b"3")
    assert not own.consume("a", b"3")
    own.expect("a", None)
    assert own.consume("a", None)


def test_a_file_that_grows_while_it_is_read_is_read_to_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprints, "MAX_TEXT", 1_000)
    monkeypatch.setattr(fingerprints, "_BLOCK", 1_000)
    file = tmp_path / "growing.log"
    file.write_bytes(b"x" * 5_000)
    first = entry_of(file)
    sha256, reads = fingerprints.hashlib.sha256, []

    class Growing:
        """Whenever a block was taken in, two more stand in the file."""

        def __init__(self) -> None:
            self.sha = sha256()

        def update(self, data: bytes) -> None:
            reads.append(len(data))
            assert len(reads) < 100
            with file.open("ab") as log:
                log.write(b"x" * 2_000)
            self.sha.update(data)

        def digest(self) -> bytes:
            return self.sha.digest()

    monkeypatch.setattr(fingerprints.hashlib, "sha256", Growing)
    assert entry_of(file).digest == first.digest
    assert sum(reads) == 5_000

"""What stands at a path is read exactly, without leaving the workspace and without waiting for anybody."""

from __future__ import annotations

import os
import socket
import threading
import time
from hashlib import sha256
from pathlib import Path

import pytest

from agent.errors import StoreError
from agent.workspace.checkpoints import file_capture
from agent.workspace.checkpoints.entries import PathEntry, PathKind
from agent.workspace.checkpoints.file_capture import capture_path
from agent.workspace.checkpoints.objects import ObjectStore

LIMIT = 10_000_000


@pytest.fixture
def objects(tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path / "objects")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = (tmp_path / "project").resolve()
    folder.mkdir()
    return folder


@pytest.mark.parametrize("size", [0, 5, 5000, 3_000_000])
def test_a_file_is_kept_with_mode_and_time(root: Path, objects: ObjectStore, size: int) -> None:
    data = os.urandom(size)
    (root / "a").write_bytes(data)
    (root / "a").chmod(0o4751)
    os.utime(root / "a", ns=(1, 1_234_567_890_123_456_789))
    entry = capture_path(root, "a", objects, limit=LIMIT)
    assert entry == PathEntry(
        PathKind.FILE, 0o4751, size, 1_234_567_890_123_456_789, sha256(data).hexdigest()
    )
    assert objects.read(sha256(data).hexdigest()) == data
    hashed = capture_path(root, "a", None, limit=LIMIT)
    assert hashed == entry


def test_folders_links_and_nothing_are_told_apart(root: Path, objects: ObjectStore) -> None:
    (root / "folder").mkdir()
    (root / "folder").chmod(0o750)
    (root / "link").symlink_to("../../etc/passwd")
    (root / "broken").symlink_to("nowhere")
    folder = capture_path(root, "folder", objects, limit=LIMIT)
    assert folder is not None
    assert (folder.kind, folder.mode) == (PathKind.FOLDER, 0o750)
    for name, target in (("link", "../../etc/passwd"), ("broken", "nowhere")):
        entry = capture_path(root, name, objects, limit=LIMIT)
        assert entry is not None
        assert (entry.kind, entry.mode, entry.target) == (PathKind.LINK, 0, target)
    for missing in ("none", "none/below", "link/below", "broken/below", "x" * 300):
        assert capture_path(root, missing, objects, limit=LIMIT) is None
    assert list(objects.names()) == []


def test_names_and_targets_that_are_no_text_are_kept(root: Path, objects: ObjectStore) -> None:
    name = os.fsdecode(b"\xff\xfe odd\n\x1b")
    (root / name).write_bytes(b"x")
    (root / "l").symlink_to(name)
    entry, link = (
        capture_path(root, name, objects, limit=LIMIT),
        capture_path(root, "l", objects, limit=LIMIT),
    )
    assert entry is not None and entry.size == 1
    assert link is not None and link.target == name


def test_a_link_on_the_way_is_never_followed(root: Path, objects: ObjectStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (root / "way").symlink_to(outside)
    assert capture_path(root, "way/secret", objects, limit=LIMIT) is None
    assert list(objects.names()) == []


@pytest.mark.parametrize("path", ["", "/etc/../etc/passwd/..", "..", "a/../b", "a//b", "./a", "a/", "a\0b"])
def test_paths_that_lead_out_are_refused(root: Path, objects: ObjectStore, path: str) -> None:
    with pytest.raises(StoreError, match="not a path inside"):
        capture_path(root, path, objects, limit=LIMIT)


def test_pipes_sockets_and_devices_are_noticed_and_never_opened(
    root: Path, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    for name, reason in (("pipe", "is a pipe"), ("socket", "is a socket")):
        entry = capture_path(root, name, objects, limit=LIMIT)
        assert entry is not None
        assert (entry.kind, entry.reason, entry.is_restorable) == (PathKind.OTHER, reason, False)


def test_a_device_is_noticed(objects: ObjectStore) -> None:
    entry = capture_path(Path("/dev"), "null", objects, limit=LIMIT)
    assert entry is not None
    assert (entry.kind, entry.reason) == (PathKind.OTHER, "is a device")


def test_files_above_the_limit_are_described_and_not_kept(root: Path, objects: ObjectStore) -> None:
    (root / "big").write_bytes(b"x" * 101)
    entry = capture_path(root, "big", objects, limit=100)
    assert entry is not None
    assert (entry.kind, entry.size, entry.digest) == (PathKind.FILE, 101, None)
    assert entry.reason == "larger than 100 bytes"
    os.truncate(root / "big", 5_000_000_000)  # a hole: nothing is read
    huge = capture_path(root, "big", objects, limit=100_000_000)
    assert huge is not None
    assert huge.reason == "larger than 100 MB"
    assert list(objects.names()) == []


def test_other_file_systems_are_not_covered(objects: ObjectStore) -> None:
    entry = capture_path(Path("/"), "proc/version", objects, limit=LIMIT)
    assert entry is not None
    assert (entry.kind, entry.reason) == (PathKind.OTHER, "is on another file system")
    folder = capture_path(Path("/"), "proc", objects, limit=LIMIT)
    assert folder is not None
    assert folder.reason == "is on another file system"


def test_a_known_file_is_not_read_again_until_it_changes(
    root: Path, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "a"
    path.write_bytes(b"one")
    os.utime(path, (5, 5))
    known = capture_path(root, "a", objects, limit=LIMIT)
    reads: list[str] = []
    contents = file_capture._contents
    monkeypatch.setattr(file_capture, "_contents", lambda *args: reads.append(args[1]) or contents(*args))
    assert capture_path(root, "a", objects, limit=LIMIT, known=known) is known
    assert reads == []
    assert known is not None and known.digest is not None
    objects.discard(known.digest)
    assert capture_path(root, "a", objects, limit=LIMIT, known=known) == known
    assert objects.read(known.digest) == b"one"
    path.write_bytes(b"two")
    second = capture_path(root, "a", objects, limit=LIMIT, known=known)
    assert second is not None and second.digest == sha256(b"two").hexdigest()
    # So young that a second change might carry the same time.
    capture_path(root, "a", objects, limit=LIMIT, known=second)
    path.chmod(0o600)
    os.utime(path, (5, 5))
    capture_path(root, "a", objects, limit=LIMIT, known=second)
    assert reads == ["a", "a", "a", "a"]


def test_a_file_that_never_holds_still_is_said_to_be_so(
    root: Path, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "log"
    path.write_bytes(b"x" * 1000)
    kept = file_capture._keep
    attempts: list[int] = []

    def restless(*args: object) -> tuple[str, int]:
        with path.open("ab") as file:
            file.write(b"more")
        attempts.append(1)
        return kept(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(file_capture, "_keep", restless)
    entry = capture_path(root, "log", objects, limit=LIMIT)
    assert entry is not None
    assert (entry.kind, entry.digest, entry.reason) == (PathKind.FILE, None, "changed while it was read")
    assert len(attempts) == file_capture.ATTEMPTS


def test_what_is_kept_is_one_state_of_a_file_that_others_rewrite(root: Path, objects: ObjectStore) -> None:
    path = root / "a"
    path.write_bytes(b"0" * 50_000)
    stop = threading.Event()

    def rewrite() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            beside = root / "beside"
            beside.write_bytes(b"%d" % (number % 10) * 50_000)
            beside.replace(path)
            time.sleep(0.001)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for _ in range(100):
            entry = capture_path(root, "a", objects, limit=LIMIT)
            assert entry is not None
            if entry.digest is not None:
                assert len(set(objects.read(entry.digest))) == 1
    finally:
        stop.set()
        writer.join()


def test_a_file_nobody_may_read_is_described_with_the_reason(
    root: Path, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_bytes(b"x")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    # The superuser may read everything, so the system's refusal is played.
    monkeypatch.setattr(file_capture, "_contents", refuse)
    entry = capture_path(root, "a", objects, limit=LIMIT)
    assert entry is not None
    assert (entry.kind, entry.size, entry.digest) == (PathKind.FILE, 1, None)
    assert entry.reason == "cannot be read: permission denied"

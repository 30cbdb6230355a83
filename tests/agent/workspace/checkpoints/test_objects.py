"""Contents come back exactly, and whatever is damaged is noticed before it is used."""

from __future__ import annotations

import io
import os
import random
import resource
import stat
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import StoreError
from agent.workspace.checkpoints.objects import (
    CHUNK,
    DamagedObjectError,
    MissingObjectError,
    ObjectStore,
)

NOISE = random.Random(1).randbytes(CHUNK * 2 + 17)


@pytest.fixture
def objects(tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path / "objects")


def file_of(objects: ObjectStore, digest: str) -> Path:
    return objects.folder / digest[:2] / digest


@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"\1", b"x", b"line\r\n" * 5000, NOISE, b"a" * (CHUNK * 3), NOISE + b"a" * CHUNK],
    ids=["empty", "nul", "one", "letter", "text", "noise", "run", "mixed"],
)
def test_contents_come_back_as_they_were(objects: ObjectStore, data: bytes) -> None:
    digest = objects.add(data)
    assert digest == sha256(data).hexdigest()
    assert objects.read(digest) == data
    file_of(objects, digest).unlink()
    assert objects.put_stream(io.BytesIO(data).read) == (digest, len(data))
    assert objects.read(digest) == data
    assert objects.check(digest)
    assert list(objects.names()) == [digest]


@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=2000) | st.binary(max_size=20).map(lambda part: part * 100))
def test_any_bytes_come_back(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    objects = ObjectStore(tmp_path_factory.getbasetemp() / "any-objects")
    assert objects.read(objects.add(data)) == data


def test_a_stream_that_gives_a_byte_at_a_time_is_kept_whole(objects: ObjectStore) -> None:
    source = io.BytesIO(b"hello" * 50)
    digest, size = objects.put_stream(lambda _: source.read(1))
    assert (objects.read(digest), size) == (b"hello" * 50, 250)


def test_what_compresses_takes_less_and_what_does_not_one_byte_more(objects: ObjectStore) -> None:
    text, noise = b"def f(): return 1\n" * 300, NOISE[:5000]
    assert file_of(objects, objects.add(text)).stat().st_size < len(text) / 10
    assert file_of(objects, objects.add(noise)).stat().st_size == len(noise) + 1


def test_files_and_folders_are_for_their_owner_only(objects: ObjectStore) -> None:
    digest = objects.add(b"secret")
    path = file_of(objects, digest)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(objects.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("data", [b"text that packs " * 100, NOISE[:3000]], ids=["packed", "raw"])
def test_every_flipped_byte_and_every_cut_is_noticed(objects: ObjectStore, data: bytes) -> None:
    digest = objects.add(data)
    path = file_of(objects, digest)
    whole = path.read_bytes()
    step = max(1, len(whole) // 60)
    spoilt = [whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :] for at in range(0, len(whole), step)]
    spoilt += [whole[:at] for at in range(0, len(whole), step)] + [whole + b"\0", whole + whole]
    for bad in spoilt:
        path.write_bytes(bad)
        assert not objects.check(digest)
        with pytest.raises(DamagedObjectError, match=digest[:12]):
            objects.read(digest)


@pytest.mark.parametrize("bad", [b"", b"\1", b"\0other", b"\7what"])
def test_putting_the_same_contents_again_mends_a_damaged_object(objects: ObjectStore, bad: bytes) -> None:
    data = b"contents " * 9
    digest = objects.add(data)
    file_of(objects, digest).write_bytes(bad)
    assert objects.add(data) == digest
    assert objects.read(digest) == data
    file_of(objects, digest).write_bytes(bad)
    objects.put_stream(io.BytesIO(data).read)
    assert objects.read(digest) == data


def test_missing_contents_are_told_apart_from_damaged_ones(objects: ObjectStore) -> None:
    digest = sha256(b"never").hexdigest()
    assert not objects.has(digest)
    assert not objects.check(digest)
    with pytest.raises(MissingObjectError):
        objects.read(digest)
    objects.discard(digest)


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "ab", "A" * 64, "a" * 63, "a" * 64 + "\n"])
def test_names_that_are_no_digests_reach_no_file(objects: ObjectStore, name: str) -> None:
    for use in (objects.read, objects.has, objects.discard, objects.check):
        with pytest.raises(StoreError, match="not a name of contents"):
            use(name)


def test_a_link_in_place_of_an_object_is_not_followed(objects: ObjectStore, tmp_path: Path) -> None:
    digest = objects.add(b"mine")
    (tmp_path / "other").write_bytes(b"\0mine")
    file_of(objects, digest).unlink()
    file_of(objects, digest).symlink_to(tmp_path / "other")
    with pytest.raises(StoreError):
        objects.read(digest)


def test_asking_for_an_old_object_makes_it_young_again(objects: ObjectStore) -> None:
    digest = objects.add(b"old")
    for use in (lambda: objects.has(digest), lambda: objects.add(b"old")):
        os.utime(file_of(objects, digest), (1, 1))
        assert use()
        (stored,) = objects.listing(digest[:2])
        assert stored.used > time.time() - 60


def test_a_failing_source_leaves_nothing_behind(objects: ObjectStore) -> None:
    pieces = iter([b"one", b"two"])

    def read(_: int) -> bytes:
        try:
            return next(pieces)
        except StopIteration:
            raise RuntimeError("gone") from None

    with pytest.raises(RuntimeError):
        objects.put_stream(read)
    assert list(objects.folder.rglob("*")) == []


def test_a_full_disk_is_one_sentence_and_breaks_nothing(objects: ObjectStore) -> None:
    first = objects.add(b"small")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    try:
        with pytest.raises(StoreError, match="no room for checkpoints"):
            objects.add(NOISE[:9000])
        with pytest.raises(StoreError, match="no room for checkpoints"):
            objects.put_stream(io.BytesIO(NOISE[:9000]).read)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(objects.names()) == [first]
    assert not list(objects.folder.glob(".new-*"))


def test_a_file_in_place_of_the_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "objects").write_text("in the way")
    with pytest.raises(StoreError, match="Not a directory"):
        ObjectStore(tmp_path / "objects").add(b"b")


def test_many_threads_may_put_the_same_contents(objects: ObjectStore) -> None:
    data = [b"%d" % (number % 7) * 4000 for number in range(200)]
    with ThreadPoolExecutor(8) as pool:
        digests = list(pool.map(objects.add, data))
    assert [objects.read(digest) for digest in digests] == data
    assert len(list(objects.names())) == 7


def test_an_object_that_unpacks_to_more_than_its_name_says_is_damaged(objects: ObjectStore) -> None:
    digest = objects.add(b"tiny")
    file_of(objects, digest).write_bytes(b"\1" + zlib.compress(b"\0" * 5_000_000))
    assert not objects.check(digest)


def test_foreign_files_between_the_objects_are_no_objects(objects: ObjectStore) -> None:
    digest = objects.add(b"mine")
    (objects.folder / digest[:2] / "notes.txt").write_text("x")
    (objects.folder / digest[:2] / ("f" * 64 if digest[0] != "f" else "0" * 64)).write_text("elsewhere")
    (objects.folder / "zz").mkdir()
    assert list(objects.names()) == [digest]

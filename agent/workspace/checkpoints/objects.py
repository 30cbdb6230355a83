"""Contents of files, each stored once under the SHA-256 of its bytes.

An object is a file `ab/abcd…`: one byte for the encoding of the rest (`RAW` or `ZLIB`), then the contents. It
is written under a temporary name and renamed. So an object is complete or missing, whenever a process is
killed. Writes do not wait for the disk: a power cut can leave an object empty or damaged. Every read checks
the digest, so that is detected.
"""

from __future__ import annotations

import errno
import os
import secrets
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from agent.core.home import private_folder
from agent.errors import ConfigError, StoreError
from tools.kit.files import create_file
from tools.kit.lazy_pattern import lazy_pattern

RAW, ZLIB = b"\0", b"\1"
LEVEL = 1
"""The zlib level: the fastest, which takes a tenth of the time of the best one."""
CHUNK = 1 << 18
"""The number of bytes read at a time."""
REFRESH_SECONDS = 60.0
"""Seconds by which the recorded time of an object's last use may be too early."""
TEMPORARY = ".new-"
"""The prefix of the names of unfinished files."""

CONTENTS = "contents"
"""The folder of hard links to contents, next to that of the objects."""

_NAME = lazy_pattern(r"[0-9a-f]{64}")
_TELLS_DIGEST = lazy_pattern(r"(?:SHA256E?-s[0-9]+--)?([0-9a-f]{64})(?:\.[^/]*)?")
"""The names that git-lfs and git-annex give contents, with their SHA-256."""
_SHARD = lazy_pattern(r"[0-9a-f]{2}")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class MissingObjectError(StoreError):
    """Raised if the store does not have the requested contents, or no longer has them."""


class DamagedObjectError(StoreError):
    """Raised if contents in the store were changed or damaged after they were stored."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object in the store."""

    digest: str
    size: int
    """The size on disk in bytes, after compression."""
    used: float
    """The time of its last use, in seconds since the epoch; up to `REFRESH_SECONDS` too early."""


class ObjectStore:
    """The objects in one folder. Any number of threads and processes may use it at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, data: bytes) -> str:
        """Store `data` and return its digest. An existing object is checked, and repaired if it is damaged.

        Raises `StoreError`; nothing is left behind then.
        """
        digest = sha256(data).hexdigest()
        if self._fresh(digest) and self.check(digest):
            return digest
        packed = zlib.compress(data, LEVEL)
        parts = (ZLIB, packed) if len(packed) < len(data) else (RAW, data)
        with _Unfinished(self.folder) as file:
            file.write(b"".join(parts))
            file.keep(self._path(digest))
        return digest

    def put_stream(self, read: Callable[[int], bytes]) -> tuple[str, int]:
        """Store what `read(n)` returns until it is empty; return digest and number of bytes.

        At most a few chunks are in memory at once. Raises `StoreError`, and the errors of `read`; nothing is
        left behind then.
        """
        hashed, size = sha256(), 0
        with _Unfinished(self.folder) as file:
            data = read(CHUNK)
            packer = zlib.compressobj(LEVEL) if _worth_packing(data) else None
            file.write(ZLIB if packer else RAW)
            while data:
                hashed.update(data)
                size += len(data)
                file.write(packer.compress(data) if packer else data)
                data = read(CHUNK)
            file.write(packer.flush() if packer else b"")
            file.keep(self._path(hashed.hexdigest()))
        return hashed.hexdigest(), size

    def link(self, folder: int, name: str, read: Callable[[int], bytes]) -> str | None:
        """Keep a file in an open folder by a hard link, which takes no space while the file exists.

        Returns the digest of the file; None if it cannot have a hard link here, as on another file system.
        Only for files that are never written again: if the name contains the SHA-256, the contents are not
        read. Raises `StoreError`.
        """
        told = _TELLS_DIGEST.fullmatch(name)
        digest = told[1] if told else _digest(read)
        try:
            _make(self._linked(digest).parent)
            os.link(name, self._linked(digest), src_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            pass
        except OSError:
            return None
        return digest

    def linked(self) -> Iterator[Stored]:
        """Yield the contents kept by hard links. Their size is 0 while the original file exists."""
        for path in self._links.glob("??/*"):
            with suppress(OSError):
                status = path.lstat()
                yield Stored(path.name, status.st_size if status.st_nlink == 1 else 0, status.st_ctime)

    def read(self, digest: str) -> bytes:
        """Return the contents. Raises `MissingObjectError`, `DamagedObjectError` or another `StoreError`."""
        return b"".join(self.chunks(digest))

    def chunks(self, digest: str) -> Iterator[bytes]:
        """Yield the contents piece by piece, checked at the end.

        Damage may be found only after the last piece, so do not use what was written before that. Raises the
        same errors as `read`.
        """
        hashed = sha256()
        try:
            for data in self._pieces(digest):
                hashed.update(data)
                yield data
        except FileNotFoundError:
            raise MissingObjectError(f"The contents {digest[:12]} are not in the checkpoints.") from None
        except zlib.error:
            hashed = sha256(b"damaged")
        except OSError as error:
            raise store_error(error, self.folder, "read") from error
        if hashed.hexdigest() != digest:
            raise DamagedObjectError(
                f"The contents {digest[:12]} in the checkpoints are damaged and cannot be used; "
                "`hermes checkpoints verify` names the steps they belong to."
            )

    def has(self, digest: str) -> bool:
        """Return whether the object exists, complete or not. It is then safe from cleanup for a while."""
        return self._fresh(digest)

    def check(self, digest: str) -> bool:
        """Return whether the object exists and is undamaged. Raises `StoreError` if it is unreadable."""
        try:
            for _ in self.chunks(digest):
                pass
        except (MissingObjectError, DamagedObjectError):
            return False
        return True

    def names(self) -> Iterator[str]:
        """Yield the digests of all stored objects, sorted. Raises `StoreError`."""
        for shard in self.shards():
            yield from (stored.digest for stored in self.listing(shard))

    def shards(self) -> tuple[str, ...]:
        """Return the sorted names of the folders that contain objects. Raises `StoreError`."""
        try:
            names = (path.name for path in self.folder.iterdir())
            return tuple(sorted(name for name in names if _SHARD.fullmatch(name)))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise store_error(error, self.folder, "read") from error

    def listing(self, shard: str) -> tuple[Stored, ...]:
        """Return the objects in one folder, sorted by digest. Raises `StoreError`."""
        found: list[Stored] = []
        try:
            with os.scandir(self.folder / shard) as entries:
                for entry in entries:
                    if _NAME.fullmatch(entry.name) and entry.name.startswith(shard):
                        with suppress(FileNotFoundError):
                            status = entry.stat(follow_symlinks=False)
                            found.append(Stored(entry.name, status.st_size, status.st_mtime))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise store_error(error, self.folder, "read") from error
        return tuple(sorted(found, key=lambda stored: stored.digest))

    def discard(self, digest: str) -> None:
        """Remove an object, if it exists. Only the cleanup may call this. Raises `StoreError`."""
        try:
            self._path(digest).unlink(missing_ok=True)
            self._linked(digest).unlink(missing_ok=True)
        except OSError as error:
            raise store_error(error, self.folder, "cleared") from error

    def sweep_unfinished(self, before: float) -> int:
        """Remove unfinished files older than `before` (seconds since the epoch); return their number."""
        removed = 0
        for path in self.folder.glob(TEMPORARY + "*"):
            with suppress(OSError):
                if path.lstat().st_mtime < before:
                    path.unlink()
                    removed += 1
        return removed

    def _fresh(self, digest: str) -> bool:
        path = self._path(digest)
        try:
            status = path.lstat()
            if status.st_mtime < time.time() - REFRESH_SECONDS:
                os.utime(path, follow_symlinks=False)
        except FileNotFoundError:
            return os.path.lexists(self._linked(digest))
        except OSError as error:
            raise store_error(error, self.folder, "read") from error
        return True

    def _pieces(self, digest: str) -> Iterator[bytes]:
        try:
            yield from _unpacked(self._path(digest))
        except FileNotFoundError:
            with os.fdopen(os.open(self._linked(digest), _READ), "rb", buffering=0) as file:
                while data := file.read(CHUNK):
                    yield data

    @property
    def _links(self) -> Path:
        return self.folder.parent / CONTENTS

    def _linked(self, digest: str) -> Path:
        path = self._path(digest)
        return self._links / path.parent.name / path.name

    def _path(self, digest: str) -> Path:
        if not _NAME.fullmatch(digest):
            raise StoreError(f"{digest[:80]!r} is not a name of contents in the checkpoints.")
        return self.folder / digest[:2] / digest


def _digest(read: Callable[[int], bytes]) -> str:
    hashed = sha256()
    while data := read(CHUNK):
        hashed.update(data)
    return hashed.hexdigest()


def store_error(error: OSError, folder: Path, done: str) -> StoreError:
    """Return the error for a failed operation as a sentence. `done` is `written`, `read` or `cleared`."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreError(
            f"There is no room for checkpoints in {folder}: {error.strerror}; make room, or lower "
            "`checkpoints.max_total_mb` and run `hermes checkpoints gc`."
        )
    reason = error.strerror or str(error)
    return StoreError(f"The checkpoints in {folder} cannot be {done}: {reason}; fix or free the folder.")


class _Unfinished:
    """A new file that `keep` turns into an object, and that is removed on an error. Raises `StoreError`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / f"{TEMPORARY}{secrets.token_hex(8)}"
        self._descriptor = -1

    def __enter__(self) -> _Unfinished:
        try:
            self._descriptor = _create(self._path)
        except OSError as error:
            raise store_error(error, self._folder, "written") from error
        return self

    def write(self, data: bytes) -> None:
        try:
            write_all(self._descriptor, data)
        except OSError as error:
            raise store_error(error, self._folder, "written") from error

    def keep(self, path: Path) -> None:
        try:
            try:
                self._path.replace(path)
            except FileNotFoundError:
                _make(path.parent)
                self._path.replace(path)
        except OSError as error:
            raise store_error(error, self._folder, "written") from error

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        os.close(self._descriptor)
        if kind is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, in one write if the system allows it. Raises `OSError`."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _create(path: Path) -> int:
    try:
        return create_file(path)
    except FileNotFoundError:
        _make(path.parent)
        return create_file(path)


def _make(folder: Path) -> None:
    try:
        private_folder(folder)
    except ConfigError as error:
        raise StoreError(str(error)) from error


def _unpacked(path: Path) -> Iterator[bytes]:
    """Yield the decompressed content of an object file. Raises `OSError`, and `zlib.error` if invalid."""
    with os.fdopen(os.open(path, _READ), "rb", buffering=0) as file:
        how = file.read(1)
        if how == RAW:
            while data := file.read(CHUNK):
                yield data
        elif how == ZLIB:
            yield from _inflated(file.read)
        else:
            raise zlib.error("an object of an unknown kind")


def _inflated(read: Callable[[int], bytes]) -> Iterator[bytes]:
    unpacker = zlib.decompressobj()
    while packed := read(CHUNK):
        while packed:
            if unpacker.eof:
                raise zlib.error("something follows the contents")
            yield unpacker.decompress(packed, CHUNK * 4)
            packed = unpacker.unconsumed_tail or unpacker.unused_data
    yield unpacker.flush()
    if not unpacker.eof:
        raise zlib.error("the contents end too early")


def _worth_packing(data: bytes) -> bool:
    """Return whether compression saves at least a twentieth of the data, judged by its beginning."""
    sample = data[: 1 << 16]
    return len(zlib.compress(sample, LEVEL)) < len(sample) * 0.95

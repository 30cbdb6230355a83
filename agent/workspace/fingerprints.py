"""Fingerprints of files, and old versions of texts from which changes are shown."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import time
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from agent.workspace.git import GitError, run_git
from tools.files.text_files import binary_kind
from tools.kit.files import NotAFileError, entry_status, open_file
from tools.kit.unnamed_file import UnnamedFile

MAX_TEXT = 1_000_000
"""The size in bytes up to which a text can be shown as a diff."""

MAX_HASHED = 64_000_000
"""The size in bytes up to which a file is hashed completely. Of larger files only samples are hashed."""

KEPT_BYTES = 24_000_000
"""The size limit of compressed old texts, in bytes: about 100 MB of source."""

_SAMPLES, _SAMPLE_BYTES = 64, 65_536
_BLOCK = 1_000_000
_BINARY_SAMPLE = 2_048
_STAMP = struct.Struct("=3qQ")
_CLOCK_TICK = 50_000_000
"""The time in nanoseconds within which two writes may leave the same time on a file."""


class ContentKind(Enum):
    """The kind of a file's content, which decides whether it can be shown."""

    TEXT = "text"
    BINARY = "binary"
    LARGE = "large"
    LINK = "link"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class FileFingerprint:
    """The last seen state of a file. Files of one kind with the same content have the same `digest`."""

    digest: bytes
    kind: ContentKind
    stamp: bytes
    """Size, times and inode, packed because a project has many files."""
    settled: bool
    """True if any later change certainly changes `stamp`."""

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        return _STAMP.unpack(self.stamp)[0]

    def looks_like(self, status: os.stat_result) -> bool:
        """Return whether the file is certainly unchanged, judged by its status without reading it."""
        return self.settled and self.stamp == _stamp(status)


def digest_of(data: bytes) -> bytes:
    """Return the fingerprint of a file with the content `data`: the id that git gives it (SHA-1)."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).digest()


def stated_fingerprint(status: os.stat_result, blob: str) -> FileFingerprint:
    """Return the fingerprint of an unread file with this status, which has the content of git's `blob`."""
    return FileFingerprint(bytes.fromhex(blob), ContentKind.TEXT, _stamp(status), settled=True)


class ExaminedFile(NamedTuple):
    """A file as found on the disk."""

    fingerprint: FileFingerprint
    sha256: bytes
    """The SHA-256 of the content, or of samples if the file is very large."""
    text: bytes | None = None
    """The content, if it is text that can be shown."""


def examine(path: Path) -> ExaminedFile | None:
    """Read the file at `path` without following links.

    Returns None for folders, devices, sockets, pipes, and missing files.
    """
    try:
        return _file(path)
    except (FileNotFoundError, NotADirectoryError, NotAFileError):
        return None
    except (OSError, ValueError):
        pass
    try:
        status = entry_status(path)
    except (OSError, ValueError):
        return None
    if status is None:
        return None
    if stat.S_ISLNK(status.st_mode):
        return _link(path, status)
    unread = digest_of(repr(("unreadable", status.st_size, status.st_mtime_ns)).encode())
    return ExaminedFile(
        FileFingerprint(unread, ContentKind.UNREADABLE, _stamp(status), settled=False), unread
    )


def _link(path: Path, status: os.stat_result) -> ExaminedFile | None:
    try:
        target = os.fsencode(path.readlink())
    except OSError:
        return None
    digest = digest_of(b"link to " + target)
    return ExaminedFile(FileFingerprint(digest, ContentKind.LINK, _stamp(status), settled=True), digest)


def _file(path: Path) -> ExaminedFile:
    with os.fdopen(open_file(path), "rb") as file:
        status = os.fstat(file.fileno())
        settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _CLOCK_TICK
        stamp = _stamp(status)
        if status.st_size <= MAX_TEXT:
            data = file.read(MAX_TEXT + 1)
            if len(data) <= MAX_TEXT:
                text = data if is_text(path.name, data) else None
                kind = ContentKind.BINARY if text is None else ContentKind.TEXT
                found = FileFingerprint(digest_of(data), kind, stamp, settled)
                return ExaminedFile(found, hashlib.sha256(data).digest(), text)
            file.seek(0)
        sha = hashlib.sha256()
        if status.st_size <= MAX_HASHED:
            left = status.st_size
            # Read only up to the size found before, because a file may grow faster than it is read.
            while left > 0 and (block := file.read(min(_BLOCK, left))):
                sha.update(block)
                left -= len(block)
        else:
            sha.update(str(status.st_size).encode())
            for number in range(_SAMPLES):
                file.seek((status.st_size - _SAMPLE_BYTES) * number // (_SAMPLES - 1))
                sha.update(file.read(_SAMPLE_BYTES))
        digest = sha.digest()
        return ExaminedFile(FileFingerprint(digest, ContentKind.LARGE, stamp, settled), digest)


def is_text(name: str, data: bytes) -> bool:
    """Return whether a file with this name and content can be shown as text. Pure."""
    if b"\0" not in data:
        # This is enough for nearly all files; checking single bytes would take a hundred times as long.
        try:
            data.decode()
        except UnicodeDecodeError:
            pass
        else:
            return True
    return binary_kind(name, data[:_BINARY_SAMPLE]) is None


def _stamp(status: os.stat_result) -> bytes:
    return _STAMP.pack(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


_EMPTY = digest_of(b"")


class KeptTexts:
    """Contents of text files by digest, compressed in one file, within `limit` bytes.

    Texts that cannot be written, for example because the disk is full, are not kept.
    """

    def __init__(self, limit: int = KEPT_BYTES, folder: Path | None = None) -> None:
        self._limit = limit
        self._size = 0
        self._file = UnnamedFile(folder)
        self._kept: OrderedDict[bytes, tuple[int, int]] = OrderedDict()
        """The position of each text in the file, and its size there."""

    @property
    def size(self) -> int:
        """Return the number of bytes in use."""
        return self._size

    def keep(self, digest: bytes, data: bytes, *, displace: bool) -> None:
        """Store `data` if there is room. With `displace`, the oldest texts are removed to make room."""
        if digest in self._kept:
            self._kept.move_to_end(digest)
            return
        packed = zlib.compress(data, 1)
        if len(packed) > self._limit or (not displace and self._size + len(packed) > self._limit):
            return
        if self._file.size > 2 * self._limit:
            self._write_anew()
        with suppress(OSError):
            self._kept[digest] = self._file.append(packed), len(packed)
            self._size += len(packed)
        while self._size > self._limit:
            self.drop(next(iter(self._kept)))

    def refresh(self, digest: bytes) -> None:
        """Mark this text as the newest, so that it is removed last."""
        if digest in self._kept:
            self._kept.move_to_end(digest)

    def drop(self, digest: bytes) -> None:
        """Remove the text with this digest."""
        self._size -= self._kept.pop(digest, (0, 0))[1]

    def get(self, digest: bytes) -> bytes | None:
        """Return the stored text with this digest; None if it is missing."""
        if digest == _EMPTY:
            return b""
        place = self._kept.get(digest)
        try:
            data = None if place is None else zlib.decompress(self._file.read(*place))
        except (OSError, zlib.error):
            return None
        return data if data is not None and digest_of(data) == digest else None

    def _write_anew(self) -> None:
        """Rewrite the file without the removed texts."""
        kept: list[tuple[bytes, bytes]] = []
        with suppress(OSError):
            kept = [(digest, self._file.read(*place)) for digest, place in self._kept.items()]
        self._file.clear()
        self._kept.clear()
        self._size = 0
        with suppress(OSError):
            for digest, packed in kept:
                self._kept[digest] = self._file.append(packed), len(packed)
                self._size += len(packed)


_SECONDS = 20.0
MOST_COMMITS = 20_000
"""The number of commits read to find out whether one is an ancestor of another."""


class UnknownObjectError(GitError):
    """Raised if a git object is missing or does not match its name."""


class VerifiedObjects:
    """A reader of git objects in the repository that contains `root`. Each object is read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: dict[str, tuple[str, bytes]] = {}

    async def entry(self, commit: str, path: str) -> tuple[str, str] | None:
        """Return mode and object name of `path` (relative to the top folder) in a commit; None if it is
        missing.

        Raises `GitError` if the commit cannot be read, or if one of its objects does not match its name.
        """
        lines = (await self._object(commit, "commit")).split(b"\n", 1)
        kind, name = "40000", lines[0].decode("ascii", "replace").removeprefix("tree ")
        for part in path.split("/"):
            if kind != "40000":
                return None
            entries = dict(_entries(await self._object(name, "tree"), len(commit) // 2))
            if part not in entries:
                return None
            kind, name = entries[part]
        return kind, name

    async def parents(self, commit: str) -> list[str]:
        """Return the names of a commit's parents. Raises `GitError`."""
        return _parents(await self._object(commit, "commit"))

    async def text(self, blob: str) -> bytes:
        """Return the content of a file, given its object name. Raises `GitError`."""
        return await self._object(blob, "blob")

    async def is_before(self, commit: str, tips: Iterable[str]) -> bool:
        """Return whether one of `tips` is `commit` or descends from it.

        Commits that do not match their names do not count. Raises `GitError`.
        """
        tips = list(dict.fromkeys(tips))
        if commit in tips:
            return True
        if not tips:
            return False
        limit = f"--max-count={MOST_COMMITS}"
        asked = "\n".join([f"^{commit}", *tips]).encode()
        found = await run_git(
            self._root,
            *("rev-list", "--ancestry-path", "--ignore-missing", limit, "--stdin"),
            seconds=_SECONDS,
            input=asked,
        )
        between = found.output.decode("ascii", "replace").split()
        if found.code or not between or len(between) >= MOST_COMMITS:
            return False
        await self._fetch(between)
        queue, seen = [tip for tip in tips if tip in self._read], set(tips)
        for each in queue:
            for parent in _parents(await self._object(each, "commit")):
                if parent == commit:
                    return True
                if parent in self._read and parent not in seen:
                    seen.add(parent)
                    queue.append(parent)
        return False

    async def _object(self, name: str, kind: str) -> bytes:
        if name not in self._read:
            await self._fetch([name])
        found = self._read.get(name)
        if found is None or found[0] != kind:
            raise UnknownObjectError(f"The {kind} {name[:12]} cannot be read.")
        return found[1]

    async def _fetch(self, names: Iterable[str]) -> None:
        wanted = [name for name in names if name not in self._read]
        asked = "".join(f"{name}\n" for name in wanted).encode()
        found = await run_git(self._root, "cat-file", "--batch", seconds=_SECONDS, input=asked)
        self._read.update(_verified(found.output))


def _verified(output: bytes) -> Mapping[str, tuple[str, bytes]]:
    """Return kind and content of each object in the output of `cat-file --batch`.

    Objects that are missing or do not match their names are left out.
    """
    found: dict[str, tuple[str, bytes]] = {}
    at = 0
    while (end := output.find(b"\n", at)) >= 0:
        words = output[at:end].decode("ascii", "replace").split(" ")
        at = end + 1
        if len(words) != 3 or not words[2].isdigit():
            continue
        name, kind, size = words[0], words[1], int(words[2])
        data = output[at : at + size]
        at += size + 1
        if object_name(kind, data, name) == name:
            found[name] = (kind, data)
    return found


def object_name(kind: str, data: bytes, like: str) -> str:
    """Return git's name for an object, made with the same hash function as the name `like`."""
    make = hashlib.sha256 if len(like) == 64 else hashlib.sha1
    return make(f"{kind} {len(data)}\0".encode() + data).hexdigest()


def _parents(commit: bytes) -> list[str]:
    head = commit.partition(b"\n\n")[0].split(b"\n")
    return [line[7:].decode("ascii", "replace") for line in head if line.startswith(b"parent ")]


def _entries(tree: bytes, width: int) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the entries of a tree: name, and mode and object name. `width` is the size of an object name in
    bytes.
    """
    at = 0
    while at < len(tree):
        space = tree.index(b" ", at)
        end = tree.index(b"\0", space)
        name = os.fsdecode(tree[space + 1 : end])
        yield name, (tree[at:space].decode("ascii", "replace"), tree[end + 1 : end + 1 + width].hex())
        at = end + 1 + width

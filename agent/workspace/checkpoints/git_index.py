"""The list of files that git tracks, read from its index without running git.

Format: Documentation/gitformat-index.txt of git, versions 2 to 4. Everything in it is checked against the
files afterwards, so a false index does no lasting harm. It may be hostile, so reading one never takes more
memory or time than a small multiple of its size.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from agent.errors import StoreError
from agent.workspace.checkpoints.entries import PathEntry
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.units import TOP, UnitPart, is_git_name
from agent.workspace.fingerprints import digest_of
from agent.workspace.git import common_folder, git_folder, top_folder
from tools.kit.files import read_bytes

MAX_BYTES = 100_000_000
"""The size limit of an index in bytes: about a million files."""
MAX_NAMES = 200_000_000
"""The limit in bytes on all names together: version 4 can encode gigabytes of names in a small file."""
MAX_NAME = 4_096
_HEADER = 12
_EXTENDED, _NAME_MASK = 0x4000, 0x0FFF
_ASSUMED, _STAGE = 0x8000, 0x3000
_SKIPPED, _INTENDED = 0x4000, 0x2000
_CONFIG_BYTES = 1_000_000
_STAMP = struct.Struct(">4I4xI12xI")
"""The layout of an entry's start: change and modification times (s, ns), inode and size modulo 2³²."""


class Tracked(NamedTuple):
    """A file in the index."""

    record: bytes
    """The unparsed bytes of times, inode, size and id; unparsed because a repository has many files."""
    plain: bool
    """True if the index claims that an unchanged stamp proves the contents."""

    @property
    def blob(self) -> str:
        """The SHA-1 of the git object with the contents, in hex."""
        return self.record[40:].hex()

    def describes(self, status: os.stat_result) -> bool:
        """Return whether a file with this status is the one whose contents git recorded."""
        changed, changed_ns, modified, modified_ns, inode, size = _STAMP.unpack_from(self.record)
        return self.plain and (
            (changed * 1_000_000_000 + changed_ns, modified * 1_000_000_000 + modified_ns, inode, size)
            == (
                status.st_ctime_ns,
                status.st_mtime_ns,
                status.st_ino & 0xFFFFFFFF,
                status.st_size & 0xFFFFFFFF,
            )
        )


@dataclass(frozen=True, slots=True)
class Index:
    """The files that git tracks below a folder."""

    files: dict[str, Tracked]
    written: int = 0
    """The time when the index was written, in nanoseconds: file times from then on prove nothing."""
    top: Path | None = None
    """The work tree; None without a repository."""
    git: Path | None = None

    def blob_of(self, path: str, status: os.stat_result) -> str:
        """Return the object id of a file's contents if this status proves that git has them; otherwise ''.

        That holds only in a repository without filters (`bytes_are_gits`).
        """
        tracked = self.files.get(path)
        # A file written no earlier than the index may have changed after git checked it.
        seen = status.st_mtime_ns < self.written and status.st_ctime_ns < self.written
        return tracked.blob if tracked is not None and seen and tracked.describes(status) else ""


NO_INDEX = Index({})


def read_index(root: Path) -> Index:
    """Return the regular files that git tracks below `root` (resolved). Blocking; never raises.

    The result is empty without a readable SHA-1 repository.
    """
    try:
        top = top_folder(root)
        git = git_folder(top) if top is not None else None
        if top is None or git is None or is_sha256(common_folder(git)):
            return NO_INDEX
        data, status = read_bytes(git.resolve() / "index", MAX_BYTES)
        names = parse_index(data)
    except (OSError, ValueError, RuntimeError):
        return NO_INDEX
    below = os.fsencode(root.relative_to(top)) if root != top else b""
    prefix = below + b"/" if below else b""
    files = {
        os.fsdecode(name[len(prefix) :]): each for name, each in names.items() if name.startswith(prefix)
    }
    return Index(files, status.st_mtime_ns, top, git)


def lists_the_same(
    one: PathEntry | None, other: PathEntry | None, objects: ObjectStore, folder: Path | None = None
) -> bool:
    """Return whether two states of an index track the same contents in the same way.

    Neither file times nor the mode of the index count, because reading commands change both. `folder`
    contains the index, for the shared half of a split index. Blocking. False if either cannot be read.
    """
    if one is None or other is None or not one.digest or not other.digest:
        return False
    if one.digest == other.digest:
        return True
    try:
        return index_rows(objects.read(one.digest), folder) == index_rows(objects.read(other.digest), folder)
    except (StoreError, OSError, ValueError, IndexError):
        return False


def index_rows(data: bytes, folder: Path | None = None) -> list[tuple[bytes, bytes]]:
    """Return the entries of an index in order, each as its name and the bytes of mode, id and flags.

    `folder` contains the shared half of a split index. Raises `ValueError` and `OSError`.
    """
    size = _id_size(data)
    found: list[tuple[bytes, bytes]] = []
    end = _HEADER
    for name, start, flags, after in _entries(data, size):
        found.append((name, data[start + 24 : start + 28] + data[start + 40 : start + 40 + size + flags]))
        end = after
    while end + 8 <= len(data) - size:
        length = int.from_bytes(data[end + 4 : end + 8], "big")
        if data[end : end + 4] == b"link":
            return _joined(found, data[end + 8 : end + 8 + length], size, folder)
        end += 8 + length
    return found


def _joined(
    own: list[tuple[bytes, bytes]], link: bytes, size: int, folder: Path | None
) -> list[tuple[bytes, bytes]]:
    """Return the entries of a split index: those without a name replace entries of the shared half."""
    if not any(link[:size]):
        return own
    if folder is None:
        raise ValueError("the shared half of the index is not at hand")
    shared = index_rows(read_bytes(folder / f"sharedindex.{link[:size].hex()}", MAX_BYTES)[0])
    deleted, at = _bits(link, size)
    replaced, _ = _bits(link, at)
    places = {place: shared[place][0] for place in sorted(replaced)}
    unnamed = [rest for name, rest in own if not name]
    found = {name: rest for place, (name, rest) in enumerate(shared) if place not in deleted}
    # The flags include the length of the name, which is 0 in an entry without a name.
    found |= {name: rest[:-2] + found[name][-2:] for name, rest in zip(places.values(), unnamed, strict=True)}
    found |= {name: rest for name, rest in own if name}
    return sorted(found.items())


def _bits(data: bytes, at: int) -> tuple[set[int], int]:
    """Return the positions of the set bits of a compressed bitmap, and the offset of its end.

    The format is git's EWAH: runs, then literal words. Raises `ValueError`.
    """
    words = int.from_bytes(data[at + 4 : at + 8], "big")
    end = at + 8 + 8 * words
    found: set[int] = set()
    place, at = 0, at + 8
    while at < end:
        marker = int.from_bytes(data[at : at + 8], "big")
        run, plain, at = marker >> 1 & 0xFFFFFFFF, marker >> 33, at + 8
        if run * 64 > MAX_BYTES:
            raise ValueError("a bitmap of an index says too much")
        if marker & 1:
            found.update(range(place, place + run * 64))
        place += run * 64
        for _ in range(plain):
            word = int.from_bytes(data[at : at + 8], "big")
            found.update(place + bit for bit in range(64) if word >> bit & 1)
            place, at = place + 64, at + 8
    return found, end + 4


def _id_size(data: bytes) -> int:
    """Return the size of the ids in an index, 20 for SHA-1 or 32 for SHA-256, found by its checksum."""
    if hashlib.sha1(data[:-20], usedforsecurity=False).digest() == data[-20:]:
        return 20
    return 32 if hashlib.sha256(data[:-32]).digest() == data[-32:] else 20


def blob_id(data: bytes) -> str:
    """Return git's SHA-1 id for a file with these contents."""
    return digest_of(data).hex()


def parse_index(data: bytes) -> dict[bytes, Tracked]:
    """Return the regular files of a SHA-1 index. Raises `ValueError` for invalid data."""
    found: dict[bytes, Tracked] = {}
    for name, start, _, _ in _entries(data, 20):
        flags = int.from_bytes(data[start + 60 : start + 62], "big")
        more = int.from_bytes(data[start + 62 : start + 64], "big") if flags & _EXTENDED else 0
        if name and stat.S_ISREG(int.from_bytes(data[start + 24 : start + 28], "big")):
            plain = not (flags & (_ASSUMED | _STAGE) or more & (_SKIPPED | _INTENDED))
            found[name] = Tracked(data[start : start + 60], plain)
    return found


def _entries(data: bytes, size: int) -> Iterator[tuple[bytes, int, int, int]]:
    """Yield for each entry its name, the offset of its start, the number of extra flag bytes, and the offset
    of the next entry.

    `size` is the size of an id in bytes. Raises `ValueError`.
    """
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("no index of a known version")
    at, name, named, fixed = _HEADER, b"", 0, 42 + size
    for _ in range(count):
        start = at
        flags = int.from_bytes(data[at + fixed - 2 : at + fixed], "big")
        extended = bool(flags & _EXTENDED)
        at += fixed + 2 * extended
        if version == 4:
            cut, at = _varint(data, at)
            end = data.index(b"\0", at)
            name = name[: max(0, len(name) - cut)] + data[at:end]
            at = end + 1
        else:
            length = flags & _NAME_MASK
            end = at + length if length < _NAME_MASK else data.index(b"\0", at)
            name = data[at:end]
            at = start + ((end - start + 8) & ~7)
        named += len(name)
        if end > len(data) or len(name) > MAX_NAME or named > MAX_NAMES:
            raise ValueError("the index ends too early, or names too much")
        yield name, start, 2 + 2 * extended, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Parse a number in the format of pack offsets; return it and its end. Raises `ValueError`."""
    value = 0
    for place in range(at, min(at + 5, len(data))):
        byte = data[place]
        value = (value << 7) | (byte & 0x7F)
        if not byte & 0x80:
            return value, place + 1
        value += 1
    raise ValueError("no number of an index")


def is_sha256(common: Path) -> bool:
    """Return whether the settings of the repository `common` choose SHA-256. Blocking; never raises."""
    try:
        text = read_bytes(common / "config", _CONFIG_BYTES)[0].lower()
    except OSError:
        return False
    return b"objectformat" in text and b"sha256" in text


_MAX_BYTES = 1_000_000
_TREE = re.compile(rb"^\s*worktree\s*=\s*\"?([^\"\n]*)\"?\s*$", re.IGNORECASE | re.MULTILINE)


def tree_of_index(root: Path, part: UnitPart) -> str | None:
    """Return the work tree of an index as a path in the workspace; None if unknown or outside. Blocking."""
    inner = root / part.inner
    own = part.rest.rpartition("/")[0]
    if own:
        pointer = _read(inner / own / "gitdir").strip()
        return (
            _inside(root, Path(os.path.normpath(inner / own / os.fsdecode(pointer))).parent)
            if pointer
            else None
        )
    if found := _TREE.findall(_read(inner / "config")):
        return _inside(root, Path(os.path.normpath(inner / os.fsdecode(found[-1].strip()))))
    if is_git_name(inner.name):
        return _inside(root, inner.parent)
    return next((_inside(root, place) for place in _near(root, inner) if _leads_to(place, inner)), None)


def _near(root: Path, inner: Path) -> Iterator[Path]:
    """Yield folders whose `.git` file may point to a repository: those above it, and those next to it."""
    for place in inner.parents:
        yield place
        if place == root:
            break
    try:
        yield from sorted(each for each in inner.parent.iterdir() if each.is_dir() and not each.is_symlink())
    except OSError:
        return


def _leads_to(place: Path, inner: Path) -> bool:
    return (place / ".git").is_file() and git_folder(place) == inner.resolve()


def _inside(root: Path, place: Path) -> str | None:
    try:
        found = place.resolve().relative_to(root).as_posix()
    except (OSError, ValueError, RuntimeError):
        return None
    return TOP if found == "." else found


def _read(file: Path) -> bytes:
    try:
        return read_bytes(file, _MAX_BYTES)[0]
    except (OSError, ValueError):
        return b""

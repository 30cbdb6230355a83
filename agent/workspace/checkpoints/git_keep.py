"""Hard links to git's objects, so that undo finds them even after git removes them.

Objects are only added to a repository, until `git gc` or a user removes some. So each object and pack gets a
hard link in a folder of Hermes. A link takes no space while the repository has the object too, and git does
not list it. If links are not possible (on another file system), small repositories are copied. Others are
reported as not covered.

- `git/KEY/source`: the path of the object folder that is kept, as JSON.
- `git/KEY/.git/objects/…`: the hard links; git can read the folder as a repository.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from agent.core.home import PRIVATE_FILE, private_folder
from agent.workspace.checkpoints.git_index import is_sha256
from tools.kit.files import read_bytes
from tools.kit.lazy_pattern import lazy_pattern

MAX_LOOSE = 60_000
"""The number of loose objects of one repository that get hard links; git packs them from 6,700 on."""
COPIED_BYTES = 200_000_000
"""The size in bytes up to which a repository on another file system is copied."""
MAX_INDEX = 100_000_000
"""The size limit of a pack's index in bytes: about three million objects."""
_VERSION_2, _NAMES = b"\xfftOc\0\0\0\2", 8 + 256 * 4
_TICK = 2_000_000_000
_FAN = tuple(f"{number:02x}" for number in range(256))
_LOOSE = lazy_pattern(r"[0-9a-f]{38}(?:[0-9a-f]{24})?")
_PACK = lazy_pattern(r"pack-[0-9a-f]{40,64}\.(?:pack|idx|keep|promisor|mtimes|rev|bitmap)")
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP)


class GitKeep:
    """The hard links, below `folder`, to the objects in the resolved folder `objects` of one repository."""

    def __init__(self, folder: Path, objects: Path) -> None:
        self._all = folder
        self._objects = objects
        self.place = folder / sha256(os.fsencode(objects)).hexdigest()[:32]
        """A folder with a `.git` that contains only objects."""
        self.reason = ""
        """The reason why not everything is kept; empty if everything is."""
        self._ours = self.place / ".git" / "objects"
        self._seen: dict[str, int] = {}
        self._held: dict[str, set[str]] = {}
        self._copied = 0

    @property
    def source(self) -> Path:
        return self._objects

    def refresh(self) -> Iterator[None]:
        """Create hard links to new objects; yields after each folder of objects.

        Blocking. Raises `OSError` if the folder for the links cannot be used.
        """
        if not self._ours.is_dir():
            self._begin()
        with suppress(OSError):
            os.utime(self.place)
        self.reason = ""
        packed = self._refresh("pack")
        for name in _FAN:
            if self._refresh(name):
                yield
        if packed:
            self._drop_doubles()
        self._borrow()

    def holds(self, ids: Iterable[str]) -> set[str]:
        """Return which of these objects have a hard link of their own; packs are not searched."""
        return {each for each in ids if each[2:] in self._held.get(each[:2], ())}

    def restore_objects(self) -> int:
        """Restore objects missing in the repository; return the number of files. Raises `OSError`."""
        count = 0
        for name in ("pack", *_FAN):
            # The index of a pack comes last, because git reads the pack through it.
            for file in sorted(_names(self._ours / name), key=lambda file: (file.endswith(".idx"), file)):
                target = self._objects / name / file
                if not os.path.lexists(target):
                    self._make(target.parent)
                    _hard_link(self._ours / name / file, target)
                    # Programs that remove a tree often make it writable first, and with it the hard link.
                    target.chmod(0o444)
                    count += 1
        self._make(self._objects / "info")
        return count

    def remove_kept(self) -> None:
        """Remove objects from the repository that have a hard link here. Raises `OSError`."""
        for name in ("pack", *_FAN):
            for file in sorted(_names(self._ours / name)):
                (self._objects / name / file).unlink(missing_ok=True)
            if name != "pack":
                with suppress(OSError):
                    (self._objects / name).rmdir()

    def _make(self, folder: Path) -> None:
        """Create a missing folder of objects, with the mode of its parent."""
        if not folder.is_dir():
            self._objects.mkdir(mode=0o755, parents=True, exist_ok=True)
            folder.mkdir(exist_ok=True)
            folder.chmod(stat.S_IMODE(self._objects.stat().st_mode))

    def _begin(self) -> None:
        private_folder(self._all)
        private_folder(self.place)
        source = self.place / "source"
        descriptor = os.open(source, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE_FILE)
        with os.fdopen(descriptor, "w") as file:
            json.dump(os.fsdecode(self._objects), file)
        git = self.place / ".git"
        for part in ("objects/pack", "objects/info", "refs"):
            (git / part).mkdir(parents=True, exist_ok=True)
        (git / "HEAD").write_text("ref: refs/heads/none\n")
        sha256 = is_sha256(self._objects.parent)
        more = "[extensions]\n\tobjectformat = sha256\n" if sha256 else ""
        (git / "config").write_text(f"[core]\n\trepositoryformatversion = {int(sha256)}\n{more}")
        self._seen.clear()
        self._held.clear()

    def _refresh(self, name: str) -> bool:
        """Update the links of one folder of objects; return whether anything changed."""
        source, target = self._objects / name, self._ours / name
        try:
            modified = source.stat().st_mtime_ns
        except OSError:
            return False
        if self._seen.get(name) == modified:
            return False
        if name not in self._held:
            self._held[name] = set(_names(target))
        held = self._held[name]
        for file in sorted(_names(source) - held, reverse=True):
            if sum(map(len, self._held.values())) >= MAX_LOOSE:
                self.reason = f"has more than {MAX_LOOSE:,} objects that are not packed"
                return True
            if self._take(source / file, target / file):
                held.add(file)
        # Within one tick of its clock a folder may change again without another time.
        if modified < time.time_ns() - _TICK:
            self._seen[name] = modified
        return True

    def _drop_doubles(self) -> None:
        """Remove objects that only Hermes keeps if the repository also has them in a pack.

        This is needed because `git gc` packs everything again.
        """
        packs = self._ours / "pack"
        shared = {name for name in _names(packs) if name.endswith(".idx") and _is_shared(packs / name)}
        packed: set[bytes] = set().union(*(packed_ids(packs / name) for name in shared))
        if not packed:
            return
        for name in {name for name in _names(packs) if name.endswith(".idx")} - shared:
            if packed_ids(packs / name) <= packed:
                for path in packs.glob(f"{name.removesuffix('.idx')}.*"):
                    path.unlink(missing_ok=True)
        for fan in _FAN:
            held = self._held.get(fan, set())
            for name in [each for each in held if bytes.fromhex(fan + each) in packed]:
                if not _is_shared(self._ours / fan / name):
                    (self._ours / fan / name).unlink(missing_ok=True)
                    held.discard(name)

    def _take(self, source: Path, target: Path) -> bool:
        try:
            target.parent.mkdir(exist_ok=True)
            return _linked(source, target)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        try:
            size = source.stat().st_size
            if self._copied + size > COPIED_BYTES:
                self.reason = "is on another file system and is too large to be copied"
                return False
            self._copied += size
            _copied(source, target)
        except OSError:
            self.reason = "is on another file system and could not be copied"
            return False
        return True

    def _borrow(self) -> None:
        """Let git read the objects that the repository borrows from other folders; they are not kept here."""
        try:
            data, _ = read_bytes(self._objects / "info" / "alternates", 100_000)
        except OSError:
            return
        places = [self._objects / os.fsdecode(line) for line in data.split(b"\n") if line.strip()]
        if places:
            self.reason = self.reason or "borrows objects from another repository, which are not kept"
            with suppress(OSError):
                lines = b"".join(os.fsencode(each) + b"\n" for each in places)
                (self._ours / "info" / "alternates").write_bytes(lines)


def packed_ids(index: Path) -> set[bytes]:
    """Return the ids of the objects in a pack, read from its index; empty if the index is invalid.

    Format: Documentation/gitformat-pack.txt of git, version 2.
    """
    try:
        data, _ = read_bytes(index, MAX_INDEX)
    except OSError:
        return set()
    size = 20 if len(index.stem) == len("pack-") + 40 else 32
    count = int.from_bytes(data[_NAMES - 4 : _NAMES], "big")
    if data[:8] != _VERSION_2 or len(data) < _NAMES + count * size:
        return set()
    names = data[_NAMES : _NAMES + count * size]
    return {names[at : at + size] for at in range(0, len(names), size)}


def object_ids(objects: Path) -> str:
    """Return a text with the number and the combined ids of a folder's objects, to detect changes.

    An object that exists twice counts once, so packing makes no difference. Blocking.
    """
    packs = (
        packed_ids(objects / "pack" / name) for name in _names(objects / "pack") if name.endswith(".idx")
    )
    ids = set[bytes]().union(*packs)
    ids |= {bytes.fromhex(fan + name) for fan in _FAN for name in _names(objects / fan)}
    mixed = 0
    for each in ids:
        mixed ^= int.from_bytes(each, "big")
    return f"{len(ids)}:{mixed:x}"


def _is_shared(path: Path) -> bool:
    try:
        return path.lstat().st_nlink > 1
    except OSError:
        return False


def kept_repositories(folder: Path) -> Iterator[Path]:
    """Yield the folder of hard links for each kept repository below `folder`."""
    with suppress(OSError):
        yield from sorted(each for each in folder.iterdir() if each.is_dir() and not each.is_symlink())


def without_repository(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Yield files below `folder` that no repository has any longer: time of removal, size in bytes, path."""
    for place in kept_repositories(folder):
        for path in (place / ".git" / "objects").glob("*/*"):
            with suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and path.parent.name != "info":
                    yield status.st_ctime, status.st_size, path


def tidy(folder: Path, most: int, before: float) -> int:
    """Remove files that no repository has had since the time `before`, or that exceed `most` bytes in all.

    The oldest are removed first. The folders of repositories not used since `before`, and data of older
    versions, are removed completely. Returns the number of bytes of removed files. Blocking.
    """
    freed = 0
    for place in kept_repositories(folder):
        with suppress(OSError):
            if not (place / "source").is_file() or place.stat().st_mtime < before:
                shutil.rmtree(place, ignore_errors=True)
    found = sorted(without_repository(folder))
    size = sum(each[1] for each in found)
    for since, bytes_, path in found:
        if since >= before and size <= most:
            break
        with suppress(OSError):
            path.unlink()
            size -= bytes_
            freed += bytes_
    return freed


def _names(folder: Path) -> set[str]:
    wanted = _PACK if folder.name == "pack" else _LOOSE
    try:
        return {name for name in os.listdir(folder) if wanted.fullmatch(name)}  # noqa: PTH208
    except OSError:
        return set()


def _linked(source: Path, target: Path) -> bool:
    """Create a hard link to a regular file; return whether it exists afterwards.

    Raises `OSError` if files cannot be linked here.
    """
    try:
        if not stat.S_ISREG(source.lstat().st_mode):
            return False
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        return True
    except FileNotFoundError:
        return False
    return True


def _hard_link(source: Path, target: Path) -> None:
    try:
        _linked(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _copied(source, target)


def _copied(source: Path, target: Path) -> None:
    """Copy a file completely or not at all. Raises `OSError`."""
    beside = target.with_name(f"tmp_{target.name}")
    try:
        shutil.copyfile(source, beside, follow_symlinks=False)
        beside.chmod(0o444)
        beside.replace(target)
    except OSError:
        beside.unlink(missing_ok=True)
        raise

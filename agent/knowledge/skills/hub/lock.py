"""The lock file: the source of each installed skill, with the hash of every file.

It is `skills/.hub/lock.json` in the home, next to its previous version. If neither can be read, skills from
outside cannot be told from the user's own. Then no skill in the home is used until the user decides.

The files of one skill in memory, and the checks before they are written to disk. Everything here is pure. The
delivery of a source always becomes a bundle first. So paths, sizes and formats are checked in one place,
before a byte is written.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from agent.core.home import PRIVATE_FILE, PRIVATE_FOLDER, Home
from agent.errors import ExitCode, HermesError
from agent.knowledge.skills.scanner import LARGEST_FILE, MOST_BYTES, MOST_FILES, Verdict
from agent.knowledge.skills.skill import Skill, Trust
from tools.kit.files import lock_file, open_lock, read_plain, write_atomically, write_new
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import steers
from tools.text.words import brief


class HubError(HermesError):
    """Finding, fetching, installing or removing a skill failed. Nothing has changed."""


class HubUnreachableError(HubError):
    """A source did not answer in time, or at all."""

    exit_code = ExitCode.UNREACHABLE


class HubMissingError(HubError):
    """A source does not have the requested item."""


class HubRefusedError(HubError):
    """The content that a source delivered was refused."""

    exit_code = ExitCode.DENIED


class HubLimitError(HubRefusedError):
    """A skill exceeds the limits for skills from outside, or is not text only."""


LONGEST_PATH = 400
LONGEST_NAME = 200
"""Characters of one part of a path."""

SKILL_FILES = ("SKILL.md", "skill.md")

_ARCHIVES = (
    *(".zip", ".tar", ".gz", ".tgz", ".bz2", ".tbz", ".xz", ".txz", ".zst", ".lz4", ".7z", ".rar", ".ar"),
    *(".jar", ".war", ".whl", ".egg", ".apk", ".ipa", ".deb", ".rpm", ".cab", ".iso", ".dmg", ".pyz", ".crx"),
)
_ARCHIVE_MARKS = (
    *(b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"),
    *(b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"!<arch>\n", b"MSCF"),
)
_PROGRAM_MARKS = (b"\x7fELF", b"MZ", b"\xca\xfe\xba\xbe", b"\xfe\xed\xfa", b"\xcf\xfa\xed\xfe", b"\0asm")
_TAR_MARK = slice(257, 262)
_DRIVE = lazy_pattern(r"^[A-Za-z]:")


@dataclass(frozen=True, slots=True)
class SkillFile:
    """One file of a skill. `path` is relative to the skill, with `/`."""

    path: str
    content: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """The size limits of a skill from outside."""

    files: int
    total: int
    """Bytes of all files."""
    each: int
    """Bytes of one file."""
    binaries: bool = False
    """Whether pictures, fonts and the like are accepted. Programs and archives never are."""


STRICT = Limits(MOST_FILES, MOST_BYTES, LARGEST_FILE)
WIDE = Limits(500, 20_000_000, 5_000_000, binaries=True)
"""The limits for a trusted source with `force`."""


def checked(files: Iterable[SkillFile], limits: Limits = STRICT) -> tuple[SkillFile, ...]:
    """Return the files sorted by path. Raises `HubRefusedError` for the first one that is not acceptable."""
    found: dict[str, SkillFile] = {}
    names: dict[str, str] = {}
    total = 0
    for file in files:
        path = safe_path(file.path)
        key = unicodedata.normalize("NFC", path).casefold()
        if key in names:
            raise HubRefusedError(
                "The skill has two files that some disks take for one: "
                f"{brief(names[key])} and {brief(path)}."
            )
        names[key] = path
        total += len(file.content)
        check_count(len(names), total, len(file.content), path, limits)
        _check_form(file, limits)
        found[path] = file
    for key in names:
        parts = key.split("/")
        if any("/".join(parts[:depth]) in names for depth in range(1, len(parts))):
            raise HubRefusedError(f"The skill has {brief(names[key])} below a file of that name.")
    if not any(name in found for name in SKILL_FILES):
        raise HubRefusedError("What was delivered is not a skill: it has no SKILL.md.")
    return tuple(found[path] for path in sorted(found))


def check_count(count: int, total: int, size: int, path: str, limits: Limits) -> None:
    """Raise `HubRefusedError` if the number of files, their total size or the size of one exceeds the
    limits.
    """
    if size > limits.each:
        raise HubLimitError(
            f"{brief(path)} is larger than {limits.each:,} bytes, which a skill's file may have at most."
        )
    if count > limits.files:
        raise HubLimitError(f"The skill has more than {limits.files} files.")
    if total > limits.total:
        raise HubLimitError(f"The skill is larger than {limits.total:,} bytes.")


def safe_path(path: str) -> str:
    """Return `path` if it is a safe relative path on every system. Raises `HubRefusedError`."""
    problem = ""
    parts = path.split("/")
    looks = unicodedata.normalize("NFKC", path)
    if not path or len(path) > LONGEST_PATH or any(len(part.encode()) > LONGEST_NAME for part in parts):
        problem = "is empty or too long"
    elif path.startswith(("/", "~")) or _DRIVE.match(path) or "\\" in looks:
        problem = "is not a path below the skill"
    elif any(part in ("", ".", "..") for part in (*parts, *looks.split("/"))):
        problem = "leads out of the skill or around in it"
    elif (
        steers(path)
        or looks.count("/") >= len(parts)
        or any(part != part.strip() or part.endswith(".") for part in parts)
    ):
        problem = "holds characters that hide or that disks read differently"
    elif any(part.casefold() in (".git", ".hg", ".svn") for part in parts):
        problem = "belongs to a version control system"
    if problem:
        raise HubRefusedError(f"The path {brief(path)!r} {problem}; the skill is not taken.")
    return path


def _check_form(file: SkillFile, limits: Limits) -> None:
    content, name = file.content, file.path.casefold()
    if content.startswith(_PROGRAM_MARKS):
        raise HubRefusedError(f"{brief(file.path)} is a compiled program, which a skill must not bring.")
    is_archive = content.startswith(_ARCHIVE_MARKS) or content[_TAR_MARK] == b"ustar"
    if is_archive or name.endswith(_ARCHIVES):
        raise HubRefusedError(f"{brief(file.path)} is an archive, which a skill must not bring.")
    if b"\0" in content and not limits.binaries:
        raise HubLimitError(f"{brief(file.path)} is not text, and a skill from elsewhere is text only.")


def hashes_of(files: Iterable[SkillFile]) -> dict[str, str]:
    """Return the SHA-256 of each file by path, in hexadecimal."""
    return {file.path: hashlib.sha256(file.content).hexdigest() for file in files}


def tree_digest(hashes: Mapping[str, str]) -> str:
    """Return one SHA-256 over all files: over lines of path, NUL and hash, sorted by path."""
    lines = (f"{path}\0{hashes[path]}\n" for path in sorted(hashes))
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def skill_text(files: Iterable[SkillFile]) -> str:
    """Return the SKILL.md of a bundle. Raises `HubRefusedError` if it is not UTF-8."""
    by_path = {file.path: file.content for file in files}
    content = next(by_path[name] for name in SKILL_FILES if name in by_path)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise HubRefusedError("SKILL.md is not UTF-8 text.") from None


_TAR_OVERHEAD = 2_048
"""Bytes of headers and padding per file of a tar archive."""
_MOST_ENTRIES = 5_000
"""The number of entries read in an archive, folders included."""
_ENCRYPTED = 0x1


def unpack(data: bytes, limits: Limits = STRICT) -> tuple[SkillFile, ...]:
    """Return the files in an archive: `.zip`, `.tar.gz` or `.tar`, recognised by its content.

    A single enclosing folder is removed. Raises `HubRefusedError`.
    """
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        files = tuple(_zip(data, limits))
    elif data.startswith(b"\x1f\x8b"):
        files = tuple(_tar(_inflated(data, limits), limits))
    elif data[257:262] == b"ustar":
        files = tuple(_tar(data, limits))
    else:
        raise HubRefusedError("What was delivered is neither a .zip nor a .tar.gz archive.")
    return _without_wrapper(files)


def _without_wrapper(files: tuple[SkillFile, ...]) -> tuple[SkillFile, ...]:
    tops = {file.path.split("/", 1)[0] for file in files}
    if len(tops) != 1 or any("/" not in file.path or file.path in SKILL_FILES for file in files):
        return files
    return tuple(
        SkillFile(file.path.split("/", 1)[1], file.content, executable=file.executable) for file in files
    )


def _zip(data: bytes, limits: Limits) -> Iterator[SkillFile]:
    total = count = 0
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            _check_entries(len(members))
            for member in members:
                # The name as in the archive, because zipfile changes separators and cuts at NUL.
                name = member.orig_filename
                if member.is_dir():
                    safe_path(name.rstrip("/"))
                    continue
                _check_zip_member(member, name)
                left = min(limits.each, limits.total - total)
                with archive.open(member) as opened:
                    content = opened.read(left + 1)
                count += 1
                total += len(content)
                check_count(count, total, len(content), name, limits)
                yield SkillFile(safe_path(name), content, executable=bool(member.external_attr >> 16 & 0o111))
    except (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, OSError) as error:
        raise HubRefusedError(f"The archive is damaged: {brief(error)}.") from None
    except (NotImplementedError, RuntimeError, ValueError, MemoryError) as error:
        raise HubRefusedError(f"The archive cannot be read: {brief(error)}.") from None


def _check_zip_member(member: zipfile.ZipInfo, name: str) -> None:
    mode = member.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise HubRefusedError(f"{brief(name)} in the archive is a link or a device, which is not taken.")
    if member.flag_bits & _ENCRYPTED:
        raise HubRefusedError("The archive is encrypted.")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise HubRefusedError("The archive is packed in a way that is not taken; use plain zip.")


def _inflated(data: bytes, limits: Limits) -> bytes:
    """Return the decompressed gzip stream, limited to the size of a skill with its tar headers."""
    most = limits.total + (limits.files + 200) * _TAR_OVERHEAD
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        content = stream.decompress(data, most + 1)
    except zlib.error as error:
        raise HubRefusedError(f"The archive is damaged: {brief(error)}.") from None
    if len(content) > most:
        raise HubRefusedError(f"The archive unpacks to more than {limits.total:,} bytes.")
    if not stream.eof:
        raise HubRefusedError("The archive is cut off.")
    return content


def _tar(data: bytes, limits: Limits) -> Iterator[SkillFile]:
    total = count = looked = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            while (member := archive.next()) is not None:
                looked += 1
                _check_entries(looked)
                name = member.name.removeprefix("./")
                if member.isdir():
                    if name not in ("", "."):
                        safe_path(name.rstrip("/"))
                    continue
                if not member.isreg() or member.issparse():
                    raise HubRefusedError(
                        f"{brief(name)} in the archive is a link or a device, which is not taken."
                    )
                count += 1
                total += member.size
                check_count(count, total, member.size, name, limits)
                opened = archive.extractfile(member)
                content = opened.read() if opened is not None else b""
                if len(content) != member.size:
                    raise HubRefusedError("The archive is cut off.")
                yield SkillFile(safe_path(name), content, executable=bool(member.mode & 0o111))
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise HubRefusedError(f"The archive is damaged: {brief(error)}.") from None


def _check_entries(count: int) -> None:
    if count > _MOST_ENTRIES:
        raise HubRefusedError(f"The archive has more than {_MOST_ENTRIES:,} entries.")


MOST_FOLDER_FILES = WIDE.files * 2
MOST_FOLDER_BYTES = WIDE.total * 2
NOT_PLAIN = "not a plain file"
"""The value in place of the hash of a link or a device."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OF_THE_DESKTOP = frozenset({".DS_Store"})
"""Files left by a file manager that are not part of a skill."""

Signature = tuple[tuple[str, int, int, int, int], ...]


def signature(folder: Path) -> Signature:
    """Return values that change when any file does: path, times, size and number. Raises `HubError`."""
    return tuple(
        (name, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        for name, status in _files(folder)
    )


def hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file by relative path. Raises `HubError` for unreadable files."""
    found: dict[str, str] = {}
    for name, status in _files(folder):
        if stat.S_ISREG(status.st_mode):
            found[name] = hashlib.sha256(_content(folder, name)).hexdigest()
        else:
            found[name] = NOT_PLAIN
    return found


def read_files(folder: Path) -> tuple[SkillFile, ...]:
    """Read all files of a skill. Raises `HubError`, also if there are links."""
    found = []
    for name, status in _files(folder):
        if not stat.S_ISREG(status.st_mode):
            raise HubError(f"{brief(name)} in {brief(folder, 200)} is {NOT_PLAIN}.")
        executable = bool(status.st_mode & 0o111)
        found.append(SkillFile(name, _content(folder, name), executable=executable))
    return tuple(found)


def write_files(folder: Path, files: Iterable[SkillFile]) -> None:
    """Write checked files into a new private folder. Raises `HubError`."""
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True)
        for file in files:
            path = folder / file.path
            path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            write_new(path, file.content, 0o700 if file.executable else 0o600, durable=True)
    except OSError as error:
        raise HubError(f"{brief(folder, 200)} cannot be written: {error.strerror or error}.") from None


def _files(folder: Path) -> list[tuple[str, os.stat_result]]:
    """Return all entries that are not folders, sorted by path, each with its file status."""
    found: list[tuple[str, os.stat_result]] = []
    total = 0
    waiting = [folder]
    try:
        while waiting:
            here = waiting.pop()
            with os.scandir(here) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        waiting.append(Path(entry.path))
                    elif entry.name not in _OF_THE_DESKTOP:
                        found.append((Path(entry.path).relative_to(folder).as_posix(), status))
                        total += status.st_size
                    if len(found) + len(waiting) > MOST_FOLDER_FILES or total > MOST_FOLDER_BYTES:
                        raise HubError(f"{brief(folder, 200)} has more files than a skill can have.")
    except OSError as error:
        raise HubError(f"{brief(folder, 200)} cannot be read: {error.strerror or error}.") from None
    return sorted(found, key=lambda each: each[0])


def _content(folder: Path, name: str) -> bytes:
    try:
        descriptor = os.open(folder / name, _READ)
        with os.fdopen(descriptor, "rb") as opened:
            content = opened.read(MOST_FOLDER_BYTES + 1)
    except OSError as error:
        raise HubError(f"{brief(name)} cannot be read: {error.strerror or error}.") from None
    if len(content) > MOST_FOLDER_BYTES:
        raise HubError(f"{brief(name)} is larger than a skill can be.")
    return content


SourceKind = Literal["github", "git", "folder", "well-known", "marketplace", "clawhub", "lobehub"]


@dataclass(frozen=True, slots=True)
class SkillOffer:
    """A skill that a source offers. All texts come from outside."""

    source: str
    """The name of the source, or its kind if it has none in the settings."""
    kind: SourceKind
    item: str
    """The source's identifier of the skill."""
    name: str
    description: str = ""
    version: str = ""
    """A commit, a version or a digest that identifies the content; empty if the source does not say."""
    address: str = ""
    """The location of the source: an address or a folder."""
    origin: str = ""
    """The basis of trust, such as `openai/skills/pdf` on GitHub; empty for an unknown source."""
    notes: tuple[str, ...] = ()
    """Notes for the user before agreeing."""


@dataclass(frozen=True, slots=True)
class FetchedSkill:
    """The files of a skill as delivered, within limits and with safe paths."""

    offer: SkillOffer
    files: tuple[SkillFile, ...]
    notes: tuple[str, ...] = field(default=())


class SkillSource(Protocol):
    """A source of skills. Every method may touch network or disk, and raises `HubError`."""

    def search(self, query: str, limit: int) -> tuple[SkillOffer, ...]:
        """Return matching skills, best first; an empty query lists all."""
        ...

    def inspect(self, item: str, version: str = "") -> SkillOffer:
        """Return the source's description of one skill, without fetching it."""
        ...

    def fetch(self, item: str, version: str = "", limits: Limits = STRICT) -> FetchedSkill:
        """Return the files of one skill."""
        ...


def matches(query: str, *texts: str) -> int:
    """Return how well the texts match a query, 0 for not at all. The first text, a name, weighs most."""
    words = query.casefold().split()
    if not words:
        return 1
    name, rest = texts[0].casefold(), " ".join(texts[1:]).casefold()
    if not all(word in name or word in rest for word in words):
        return 0
    if name == query.casefold().strip():
        return 4
    return 3 if all(word in name for word in words) else 2


VERSION = 1
LARGEST = 20_000_000
_HEX = lazy_pattern(r"[0-9a-f]{64}")
_PLACE = lazy_pattern(r"(?!.*\.\.)[^/\0\\][^\0\\]*")
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class LockFileError(HubError):
    """Neither the lock file nor its previous version can be read."""


_OTHER_VERSION = "it is of another version of Hermes"


@dataclass(frozen=True, slots=True)
class LockedSkill:
    """One installed skill."""

    name: str
    folder: str
    """Its folder below the skills of the home, such as `installed/pdf`."""
    source: str
    kind: SourceKind
    url: str
    item: str
    version: str
    """The fetched commit, version or digest; empty if the source has none."""
    trust: Trust
    verdict: Verdict
    files: Mapping[str, str]
    """SHA-256 by path, as delivered."""
    approved: str
    """The digest of all files that may be used: as delivered, or as approved by the user later."""
    installed: float
    """Seconds since 1970."""

    @property
    def digest(self) -> str:
        """Return the digest of all files as delivered."""
        return tree_digest(self.files)


class LockFile:
    """The lock file of one home. Every method touches the disk."""

    def __init__(self, home: Home) -> None:
        self.skills = home.root / "skills"
        self.folder = self.skills / ".hub"
        self.path = self.folder / "lock.json"
        self.before = self.folder / "lock.json.bak"

    def read(self) -> dict[str, LockedSkill]:
        """Return the installed skills by name. Raises `LockFileError`."""
        problem = ""
        for path in (self.path, self.before):
            try:
                return _parse(read_plain(path, LARGEST))
            except FileNotFoundError:
                continue
            except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
                problem = problem or getattr(error, "strerror", None) or _cause(error)
        if not problem:
            return {}
        raise LockFileError(
            f"The lock file {self.path} cannot be read: {problem}; bring it back, or move it away, "
            "and every skill of yours counts as your own."
        )

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """Return a value that changes with the lock file."""
        found = []
        for path in (self.path, self.before):
            try:
                status = path.stat()
                found.append((status.st_mtime_ns, status.st_size, status.st_ino))
            except OSError:
                found.append((0, 0, 0))
        return tuple(found)

    def write(self, skills: Mapping[str, LockedSkill]) -> None:
        """Replace the file, keeping the previous version. Raises `HubError`."""
        rows = {name: asdict(skills[name]) for name in sorted(skills)}
        content = json.dumps({"version": VERSION, "skills": rows}, ensure_ascii=False, indent=1).encode()
        try:
            self._private()
            try:
                old = read_plain(self.path, LARGEST)
                _parse(old)
                write_atomically(self.before, old, PRIVATE_FILE)
            except (OSError, ValueError, TypeError, KeyError, RecursionError):
                pass  # nothing worth keeping
            write_atomically(self.path, content, PRIVATE_FILE)
        except OSError as error:
            raise HubError(f"{self.path} cannot be written: {error.strerror or error}.") from None

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock on installed skills, so that no other process changes them. Raises `HubError`."""
        try:
            self._private()
            descriptor = open_lock(self.folder / "lock")
        except OSError as error:
            raise HubError(f"{self.folder} cannot be used: {error.strerror or error}.") from None
        try:
            lock_file(descriptor)
            yield
        finally:
            os.close(descriptor)

    def place(self, skill: LockedSkill) -> Path:
        """Return the folder of an installed skill."""
        return self.skills / skill.folder

    def _private(self) -> None:
        self.folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)


def _parse(content: bytes) -> dict[str, LockedSkill]:
    """Parse the file. Raises `ValueError`, `TypeError` or `KeyError` for invalid content."""
    if len(content) > LARGEST:
        raise ValueError("too large")
    data = json.loads(content)
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise ValueError(_OTHER_VERSION)
    rows = data["skills"]
    if not isinstance(rows, dict):
        raise TypeError("no rows")
    return {name: locked_skill(row) for name, row in rows.items() if _check_name(name, row)}


def _check_name(name: str, row: Any) -> bool:
    if not isinstance(row, dict) or row.get("name") != name:
        raise ValueError("a row of another name")
    return True


def locked_skill(row: Mapping[str, Any]) -> LockedSkill:
    """Parse a row of a lock file or snapshot. Raises `ValueError`, `TypeError` or `KeyError`."""
    texts = ("name", "folder", "source", "kind", "url", "item", "version", "trust", "verdict", "approved")
    values = {key: row[key] for key in texts}
    files = dict(row["files"])
    is_sound = (
        all(isinstance(value, str) for value in values.values())
        and _PLACE.fullmatch(values["folder"]) is not None
        and values["kind"] in get_args(SourceKind)
        and values["trust"] in get_args(Trust)
        and values["verdict"] in get_args(Verdict)
        and _HEX.fullmatch(values["approved"]) is not None
        and bool(files)
        and all(isinstance(key, str) and _HEX.fullmatch(value) for key, value in files.items())
    )
    if not is_sound:
        raise ValueError("a row that is damaged")
    return LockedSkill(**values, files=files, installed=float(row["installed"]))


def _cause(error: Exception) -> str:
    return _OTHER_VERSION if str(error) == _OTHER_VERSION else "it holds no list of skills"


SNAPSHOT_VERSION = 1
_TEXTS = ("name", "category", "source", "url", "item", "version", "digest")


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """One skill of a snapshot: its source, its version, and the expected digest of its files."""

    name: str
    category: str
    source: str
    kind: SourceKind
    url: str
    item: str
    version: str
    digest: str


def render_snapshot(rows: Iterable[LockedSkill]) -> str:
    """Return the snapshot as JSON."""
    listed = [
        SnapshotRow(
            row.name,
            row.folder.partition("/")[0],
            row.source,
            row.kind,
            row.url,
            row.item,
            row.version,
            row.digest,
        )
        for row in rows
    ]
    data = {
        "version": SNAPSHOT_VERSION,
        "skills": [asdict(row) for row in sorted(listed, key=lambda row: row.name)],
    }
    return json.dumps(data, ensure_ascii=False, indent=1) + "\n"


def parse_snapshot(content: bytes) -> tuple[SnapshotRow, ...]:
    """Parse a snapshot. Raises `HubError`."""
    try:
        data = json.loads(content)
        if data["version"] != SNAPSHOT_VERSION:
            raise HubError("The list of skills is of another version than this Hermes reads.")
        return tuple(_row(each) for each in data["skills"])
    except (ValueError, TypeError, KeyError, RecursionError):
        raise HubError("The file is not a list of skills that `hermes skills snapshot` wrote.") from None


def _row(record: Mapping[str, Any]) -> SnapshotRow:
    values = {key: record[key] for key in _TEXTS}
    if not all(isinstance(value, str) for value in values.values()):
        raise ValueError("a row that is damaged")
    if record["kind"] not in get_args(SourceKind):
        raise ValueError("a kind that is not known")
    return SnapshotRow(**values, kind=record["kind"])


MEND = "`hermes skills audit` shows it"


class SkillApprovals:
    """The check of every discovered skill against its approved files; hashes are cached until a file
    changes.
    """

    def __init__(self, home: Home) -> None:
        self._lock = LockFile(home)
        self._stamp: tuple[tuple[int, int, int], ...] | None = None
        self._rows: Mapping[Path, LockedSkill] = {}
        self._broken = False
        self._known: dict[Path, tuple[Signature, str]] = {}

    def doubt(self, skill: Skill) -> str:
        """Return why a skill must not be used, as a clause; empty if it may be. Touches the disk."""
        if skill.scope != "user" or not skill.folder.is_relative_to(self._lock.skills):
            return ""
        self._refresh()
        if self._broken:
            return f"the lock file of installed skills cannot be read; {MEND}"
        row = self._rows.get(skill.folder)
        if row is None:
            return ""
        try:
            found = self._digest(skill.folder)
        except HubError as error:
            return brief(str(error).rstrip("."), 200)
        return "" if found == row.approved else f"its files changed since it was installed; {MEND}"

    def _refresh(self) -> None:
        stamp = self._lock.stamp()
        if stamp == self._stamp:
            return
        try:
            self._rows = {self._lock.place(row): row for row in self._lock.read().values()}
            self._broken = False
        except LockFileError:
            self._broken = True
        self._stamp = stamp

    def _digest(self, folder: Path) -> str:
        stamp = signature(folder)
        known = self._known.get(folder)
        if known is None or known[0] != stamp:
            known = (stamp, tree_digest(hashes(folder)))
            self._known[folder] = known
        return known[1]

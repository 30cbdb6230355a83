"""The files of one skill in memory, and the checks before they are written to disk.

The delivery of a source always becomes a bundle first. So paths, sizes and formats are checked in one place,
before a byte is written.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from agent.core.home import PRIVATE_FOLDER
from agent.errors import ExitCode, HermesError
from agent.knowledge.skills.scanner import LARGEST_FILE, MOST_BYTES, MOST_FILES
from tools.kit.files import write_new
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
"""The maximum length of one part of a path, in bytes."""

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
    """The maximum number of bytes of all files."""
    each: int
    """The maximum number of bytes of one file."""
    binaries: bool = False
    """Whether images, fonts and the like are accepted. Programs and archives never are."""


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
    """Raise `HubLimitError` if the number of files, their total size or the size of one exceeds the
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
"""The maximum number of entries read in an archive, folders included."""
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
    """Return the decompressed gzip stream. Raises `HubRefusedError` if it is damaged or over the limits."""
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
    import tarfile  # here, as a start needs the rest of this module only

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
"""The value used instead of a hash for a link or a device."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OF_THE_DESKTOP = frozenset({".DS_Store"})
"""Files left by a file manager that are not part of a skill."""

Signature = tuple[tuple[str, int, int, int, int], ...]


def signature(folder: Path) -> Signature:
    """Return values that change when any file does: path, times, size and inode. Raises `HubError`."""
    return tuple(
        (name, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        for name, status in _files(folder)
    )


def hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file by path, `NOT_PLAIN` for links and devices. Raises `HubError`."""
    found: dict[str, str] = {}
    for name, status in _files(folder):
        if stat.S_ISREG(status.st_mode):
            found[name] = hashlib.sha256(_content(folder, name)).hexdigest()
        else:
            found[name] = NOT_PLAIN
    return found


def read_files(folder: Path) -> tuple[SkillFile, ...]:
    """Return all files of a skill. Raises `HubError`, also if there are links."""
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
    """Return all entries other than folders, by path, each with its file status. Raises `HubError`."""
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
    """A commit, a version or a digest that identifies the content; empty if the source gives none."""
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
    """A source of skills. Every method may use the network or the disk, and may raise `HubError`."""

    def search(self, query: str, limit: int) -> tuple[SkillOffer, ...]:
        """Return up to `limit` matching skills, best first; any for an empty query."""
        ...

    def inspect(self, item: str, version: str = "") -> SkillOffer:
        """Return the source's description of one skill, without fetching it."""
        ...

    def fetch(self, item: str, version: str = "", limits: Limits = STRICT) -> FetchedSkill:
        """Return the files of one skill."""
        ...


def matches(query: str, *texts: str) -> int:
    """Return how well the texts match a query, 0 (not at all) to 4. The first text, a name, weighs most."""
    words = query.casefold().split()
    if not words:
        return 1
    name, rest = texts[0].casefold(), " ".join(texts[1:]).casefold()
    if not all(word in name or word in rest for word in words):
        return 0
    if name == query.casefold().strip():
        return 4
    return 3 if all(word in name for word in words) else 2

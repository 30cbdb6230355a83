"""The files of one skill in memory, and what keeps them from being written to a disk.

Everything here is pure. Whatever a source delivers becomes a bundle first, so that
paths, sizes and forms are judged once and in one place, before a byte is written.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.knowledge.skills.hub.problems import HubLimitError, HubRefusedError
from agent.knowledge.skills.scanner import LARGEST_FILE, MOST_BYTES, MOST_FILES
from tools.text.safe_text import steers
from tools.text.words import brief

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
_DRIVE = re.compile(r"^[A-Za-z]:")


@dataclass(frozen=True, slots=True)
class SkillFile:
    """One file of a skill. `path` is below the skill, with `/`."""

    path: str
    content: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a skill from elsewhere may bring."""

    files: int
    total: int
    """Bytes of all files."""
    each: int
    """Bytes of one file."""
    binaries: bool = False
    """Whether pictures, fonts and the like are taken. Programs and archives never are."""


STRICT = Limits(MOST_FILES, MOST_BYTES, LARGEST_FILE)
WIDE = Limits(500, 20_000_000, 5_000_000, binaries=True)
"""For a trusted source when the person insists."""


def checked(files: Iterable[SkillFile], limits: Limits = STRICT) -> tuple[SkillFile, ...]:
    """The files in the order of their paths. Raises `HubRefusedError` for the first that is not taken."""
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
        raise HubRefusedError("What was delivered is no skill: it has no SKILL.md.")
    return tuple(found[path] for path in sorted(found))


def check_count(count: int, total: int, size: int, path: str, limits: Limits) -> None:
    """Raises `HubRefusedError` when a file is the one too many. Sizes are bytes."""
    if size > limits.each:
        raise HubLimitError(
            f"{brief(path)} is larger than {limits.each:,} bytes, which a skill's file may have at most."
        )
    if count > limits.files:
        raise HubLimitError(f"The skill has more than {limits.files} files.")
    if total > limits.total:
        raise HubLimitError(f"The skill is larger than {limits.total:,} bytes.")


def safe_path(path: str) -> str:
    """`path` if it names a place below the skill on every system. Raises `HubRefusedError`."""
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
        raise HubLimitError(f"{brief(file.path)} is no text, and a skill from elsewhere is text only.")


def hashes_of(files: Iterable[SkillFile]) -> dict[str, str]:
    """SHA-256 of each file by path, in hexadecimal."""
    return {file.path: hashlib.sha256(file.content).hexdigest() for file in files}


def tree_digest(hashes: Mapping[str, str]) -> str:
    """One SHA-256 over all files: lines of path, NUL and hash in the order of the paths."""
    lines = (f"{path}\0{hashes[path]}\n" for path in sorted(hashes))
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def skill_text(files: Iterable[SkillFile]) -> str:
    """The SKILL.md of a bundle. Raises `HubRefusedError` when it is not UTF-8."""
    by_path = {file.path: file.content for file in files}
    content = next(by_path[name] for name in SKILL_FILES if name in by_path)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise HubRefusedError("SKILL.md is not UTF-8 text.") from None

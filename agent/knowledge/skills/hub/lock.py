"""The lock file: the source of each installed skill, with the hash of every file.

It is `skills/.hub/lock.json` in the home, next to its previous version. If neither can be read, skills from
outside cannot be distinguished from the user's own. Then no skill in the home is used until the user decides.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from agent.core.home import PRIVATE_FILE, PRIVATE_FOLDER, Home
from agent.knowledge.skills.hub.bundle import HubError, Signature, SourceKind, hashes, signature, tree_digest
from agent.knowledge.skills.scanner import Verdict
from agent.knowledge.skills.skill import Skill, Trust
from tools.kit.files import lock_file, open_lock, read_plain, write_atomically
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.words import brief

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
    """One installed skill, as recorded in the lock file."""

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
    """The time of installation, in seconds since 1970."""

    @property
    def digest(self) -> str:
        """The digest of all files as delivered."""
        return tree_digest(self.files)


class LockFile:
    """The lock file of one home. Every method touches the disk."""

    def __init__(self, home: Home) -> None:
        self.skills = home.root / "skills"
        self.folder = self.skills / ".hub"
        self.path = self.folder / "lock.json"
        self.before = self.folder / "lock.json.bak"

    def read(self) -> dict[str, LockedSkill]:
        """Return the installed skills by name; empty without a lock file. Raises `LockFileError`."""
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
        """Return a value that changes with the lock file or its previous version."""
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
        """Hold the lock on installed skills in this block; other processes wait. Raises `HubError`."""
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
    """Return the skills as a snapshot in JSON; `parse_snapshot` reads it."""
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
    """Return the skills listed in a snapshot. Raises `HubError`."""
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

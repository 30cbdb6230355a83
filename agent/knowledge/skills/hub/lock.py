"""The lock file: what was installed from where, with the hash of every file.

It lies in `skills/.hub/lock.json` of the home, beside the version before it. Where both
cannot be read nothing tells a skill from elsewhere from one's own, so none of the home is
used until a person decides.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from agent.core.home import PRIVATE_FILE, PRIVATE_FOLDER, Home
from agent.knowledge.skills.hub.bundle import tree_digest
from agent.knowledge.skills.hub.problems import HubError
from agent.knowledge.skills.hub.source import SourceKind
from agent.knowledge.skills.scanner import Verdict
from agent.knowledge.skills.trust import Trust
from tools.kit.files import lock_file, open_lock, read_plain, write_atomically

VERSION = 1
LARGEST = 20_000_000
_HEX = re.compile(r"[0-9a-f]{64}")
_PLACE = re.compile(r"(?!.*\.\.)[^/\0\\][^\0\\]*")
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class LockFileError(HubError):
    """The lock file cannot be read, and neither can the one before it."""


_OTHER_VERSION = "it is of another version of Hermes"


@dataclass(frozen=True, slots=True)
class LockedSkill:
    """One installed skill."""

    name: str
    folder: str
    """Where it lies below the skills of the home, such as `installed/pdf`."""
    source: str
    kind: SourceKind
    url: str
    item: str
    version: str
    """The commit, version or digest that was fetched; empty if the source has none."""
    trust: Trust
    verdict: Verdict
    files: Mapping[str, str]
    """SHA-256 by path, as the source delivered them."""
    approved: str
    """The digest of all files as they may be used: as delivered, or as a person approved them later."""
    installed: float
    """Seconds since 1970."""

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
        """What is installed, by name. Raises `LockFileError`."""
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
        """What changes when the lock file changes."""
        found = []
        for path in (self.path, self.before):
            try:
                status = path.stat()
                found.append((status.st_mtime_ns, status.st_size, status.st_ino))
            except OSError:
                found.append((0, 0, 0))
        return tuple(found)

    def write(self, skills: Mapping[str, LockedSkill]) -> None:
        """Replace it, keeping the version before. Raises `HubError`."""
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
    def held(self) -> Iterator[None]:
        """Nobody else changes installed skills meanwhile. Raises `HubError`."""
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
        """The folder of an installed skill."""
        return self.skills / skill.folder

    def _private(self) -> None:
        self.folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)


def _parse(content: bytes) -> dict[str, LockedSkill]:
    """Raises `ValueError`, `TypeError` or `KeyError` for anything that was not written here."""
    if len(content) > LARGEST:
        raise ValueError("too large")
    data = json.loads(content)
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise ValueError(_OTHER_VERSION)
    rows = data["skills"]
    if not isinstance(rows, dict):
        raise TypeError("no rows")
    return {name: locked_skill(row) for name, row in rows.items() if _named(name, row)}


def _named(name: str, row: Any) -> bool:
    if not isinstance(row, dict) or row.get("name") != name:
        raise ValueError("a row of another name")
    return True


def locked_skill(row: Mapping[str, Any]) -> LockedSkill:
    """A row of a lock file or snapshot. Raises `ValueError`, `TypeError` or `KeyError`."""
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

"""Reading files of other programs: bounded, never followed out of their folder, never a traceback.

Whatever cannot be read gets a sentence in `ForeignFiles.problems` and counts as not there.
"""

from __future__ import annotations

import json
import re
import sqlite3
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.core.config.problem import shown

LARGEST = 4_000_000
"""Bytes of a settings file that is read."""
LARGEST_SESSION = 512_000_000
MOST = 20_000
"""Entries of one folder that are looked at."""

_COMMENTS = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')


class ForeignFiles:
    """Reads below one folder. What a link leads out of it is left alone."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.problems: list[str] = []

    def _named(self, path: Path) -> str:
        """A path as it is told: from the folder on."""
        return shown(str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path), 120)

    def text(self, path: Path, largest: int = LARGEST) -> str | None:
        """The text of a file; None when it is not there or cannot be used."""
        try:
            if not path.is_file():
                return None
            if not path.resolve().is_relative_to(self.root):
                self.problems.append(f"{self._named(path)} leads out of the folder and was left alone.")
                return None
            if path.stat().st_size > largest:
                self.problems.append(f"{self._named(path)} is larger than {largest // 1_000_000} MB.")
                return None
            return path.read_bytes().decode("utf-8-sig", "replace").replace("\0", "")
        except OSError as error:
            self.unreadable(path, error)
            return None

    def unreadable(self, path: Path, error: Exception) -> None:
        """Note what cannot be read, and why."""
        reason = getattr(error, "strerror", None) or error
        self.problems.append(f"{self._named(path)} cannot be read: {shown(str(reason), 120)}.")

    def json(self, path: Path) -> dict[str, Any]:
        """A JSON object, comments and trailing commas allowed; empty when there is none."""
        text = self.text(path)
        if text is None:
            return {}
        try:
            found = json.loads(without_comments(text))
        except (ValueError, RecursionError) as error:
            self.problems.append(f"{self._named(path)} is no JSON ({shown(str(error))}).")
            return {}
        return found if isinstance(found, dict) else {}

    def toml(self, path: Path) -> dict[str, Any]:
        """A TOML table; empty when there is none."""
        text = self.text(path)
        if text is None:
            return {}
        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            self.problems.append(f"{self._named(path)} is no TOML ({shown(str(error))}).")
            return {}

    def files(self, folder: Path, pattern: str) -> list[Path]:
        """Files below a folder by a glob, sorted; at most `MOST`."""
        found: list[Path] = []
        try:
            for path in folder.glob(pattern):
                found.append(path)
                if len(found) == MOST:
                    self.problems.append(
                        f"{self._named(folder)} has more than {MOST:,} files; others were left."
                    )
                    break
        except OSError as error:
            self.unreadable(folder, error)
        return sorted(found)

    def skills(self, *folders: Path) -> tuple[Path, ...]:
        """The folders with a skill below these, each once."""
        found = [file.parent for folder in folders for file in self.files(folder, "**/SKILL.md")]
        inside = [path for path in found if path.resolve().is_relative_to(self.root)]
        return tuple(dict.fromkeys(inside))


def without_comments(text: str) -> str:
    """JSON without the comments and trailing commas that some programs allow in it."""
    plain = _COMMENTS.sub(lambda found: found[1] or " ", text)
    return _TRAILING.sub(lambda found: found[1] or "", plain)


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines; lines that are none are left out. Raises `OSError`."""
    if path.stat().st_size > LARGEST_SESSION:
        raise ValueError(f"it is larger than {LARGEST_SESSION // 1_000_000} MB")
    with path.open("r", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                yield found


def database(path: Path) -> sqlite3.Connection:
    """A database, for reading only. Raises `sqlite3.Error`."""
    # Without a log beside it nobody writes, and then not even a lock is taken.
    alone = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro{alone}", uri=True, timeout=5)


def text_of(value: Any) -> str:
    """A value as text: text as it is, nothing as nothing, all else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []

"""The prompt history: JSON lines in a file of the project.

Several processes may append to the file. It is cut to the newest `KEPT` entries; damaged lines are skipped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path

from tools.kit.files import file_lock, write_atomically

KEPT = 1_000
"""The maximum number of entries."""
LARGEST = 200_000
"""The maximum characters of an entry."""


class History:
    """The entries of one project, oldest first, and a position in them.

    With `path` None the entries last only for this session; a function is called for the path on first use.
    `load` and `store` access the disk and belong in a thread; other methods use only memory.
    """

    def __init__(self, path: Path | Callable[[], Path] | None = None) -> None:
        self._wanted = path
        self._entries: list[str] = []
        self._at: int | None = None
        self._draft = ""
        self.is_walking = False
        """Whether the prompt shows an entry of the history."""

    @cached_property
    def _path(self) -> Path | None:
        return self._wanted() if callable(self._wanted) else self._wanted

    @property
    def entries(self) -> Sequence[str]:
        return self._entries

    def load(self) -> None:
        """Read the file; entries added during the read stay newest. A missing file is an empty history."""
        if self._path is None:
            return
        entries = _distinct([*_read(self._path), *self._entries])
        if self._at is not None:
            # If an entry is shown already, it stays shown.
            self._at = max(self._at + len(entries) - len(self._entries), 0)
        self._entries = entries

    def add(self, text: str) -> bool:
        """Make `text` the newest entry and reset the position; return False if it is blank or too large."""
        self.leave()
        if not text.strip() or len(text) > LARGEST:
            return False
        self._entries = _distinct([*self._entries, text])
        return True

    def store(self, text: str) -> None:
        """Append an entry to the file. Raises `OSError`."""
        if self._path is None:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        line = json.dumps({"text": text}) + "\n"
        with _lock(self._path):
            size = _append(self._path, line.encode())
            # Counting lines needs a read, which only a file of some size is worth.
            if size > KEPT * 40:
                _shorten(self._path)

    # Walking

    def older(self, draft: str) -> str | None:
        """Return the previous entry, None at the oldest; the first step saves `draft`."""
        at = len(self._entries) if self._at is None else self._at
        if at == 0:
            return None
        if self._at is None:
            self._draft = draft
        self._at = at - 1
        self.is_walking = True
        return self._entries[self._at]

    def newer(self) -> str | None:
        """Return the next entry, or the draft after the newest one; None if no entry is shown."""
        if self._at is None:
            return None
        self._at += 1
        if self._at < len(self._entries):
            return self._entries[self._at]
        draft = self._draft
        self.leave()
        return draft

    def leave(self) -> None:
        """Reset the position: the shown entry becomes an independent text."""
        self._at = None
        self._draft = ""
        self.is_walking = False


class HistorySearch:
    """An incremental search through entries, newest first. Case matters only if the query has capitals."""

    def __init__(self, entries: Sequence[str]) -> None:
        self._entries = list(reversed(entries))
        self._folded = [entry.lower() for entry in self._entries]
        self.query = ""
        self._found: list[int] = list(range(len(self._entries)))
        self._at = 0

    @property
    def match(self) -> str | None:
        """The current match, or None."""
        return self._entries[self._found[self._at]] if self._found and self.query else None

    @property
    def place(self) -> tuple[int, int]:
        """Return the number of the current match, from 1, and of all matches; (0, 0) without a match."""
        return (self._at + 1, len(self._found)) if self.match is not None else (0, 0)

    @property
    def span(self) -> tuple[int, int]:
        """Return the position of the query in the match; (0, 0) without a match."""
        if self.match is None:
            return 0, 0
        start = self._within(self._found[self._at]).find(self.query)
        return start, start + len(self.query)

    def look_for(self, query: str) -> None:
        """Change the query. The current entry stays if it matches, else the next older match is shown."""
        shown = self._found[self._at] if self._found and self.query else 0
        self.query = query
        self._found = [index for index in range(len(self._entries)) if query in self._within(index)]
        older = (at for at, index in enumerate(self._found) if index >= shown)
        self._at = next(older, 0)

    def step(self, count: int) -> None:
        """Move `count` matches back (forward if negative), at most to the ends."""
        self._at = min(max(self._at + count, 0), max(len(self._found) - 1, 0))

    def _within(self, index: int) -> str:
        plain = self.query == self.query.lower()
        # Lower case can change a text's length; then exact offsets matter more than ignoring case.
        if plain and len(self._folded[index]) == len(self._entries[index]):
            return self._folded[index]
        return self._entries[index]


def _distinct(entries: Sequence[str]) -> list[str]:
    """Return the newest `KEPT` entries, each only at its last use."""
    newest: dict[str, None] = {}
    for entry in reversed(entries):
        if len(newest) == KEPT:
            break
        newest.setdefault(entry)
    return list(reversed(newest))


def _read(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    found: list[str] = []
    for line in data.splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        text = entry.get("text") if isinstance(entry, dict) else None
        if isinstance(text, str) and text.strip() and len(text) <= LARGEST:
            found.append(text.encode("utf-8", "replace").decode())
    return found


def _append(path: Path, line: bytes) -> int:
    """Append a line, on a new line even if a crash cut off the last one; return the new size in bytes."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=0) as file:
        os.fchmod(file.fileno(), 0o600)
        size = file.seek(0, os.SEEK_END)
        if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
            line = b"\n" + line
        view = memoryview(line)
        while view:
            view = view[file.write(view) :]
        return size + len(line)


def _shorten(path: Path) -> None:
    """Rewrite the file with the kept entries once it holds 50 % more."""
    if path.read_bytes().count(b"\n") <= KEPT * 3 // 2:
        return
    entries = _distinct(_read(path))
    lines = [json.dumps({"text": entry}).encode() + b"\n" for entry in entries]
    write_atomically(path, lines, 0o600)


def _lock(path: Path) -> AbstractContextManager[int]:
    """Lock the history against other processes; the lock is a separate file, as the history is replaced."""
    return file_lock(path.with_name(path.name + ".lock"))

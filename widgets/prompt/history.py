"""The history of the prompt: one JSON line each in a file of the project.

Several processes may append to one file; the file is kept at the newest
`KEPT` entries, and read without failing on lines that are damaged.
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
"""Entries that are kept."""
LARGEST = 200_000
"""Characters of the largest entry that is kept."""


class History:
    """The entries of one project, oldest first, and a walk through them.

    `path` None keeps them for this session only; a function tells it when it is first needed.
    `load` and `store` touch the disk and belong into a thread; everything else is memory.
    """

    def __init__(self, path: Path | Callable[[], Path] | None = None) -> None:
        self._wanted = path
        self._entries: list[str] = []
        self._at: int | None = None
        self._draft = ""
        self.is_walking = False
        """Whether an entry is shown rather than a text of its own."""

    @cached_property
    def _path(self) -> Path | None:
        return self._wanted() if callable(self._wanted) else self._wanted

    @property
    def entries(self) -> Sequence[str]:
        return self._entries

    def load(self) -> None:
        """Read the file; entries added meanwhile stay the newest. A missing file is an empty history."""
        if self._path is None:
            return
        entries = _distinct([*_read(self._path), *self._entries])
        if self._at is not None:
            # Who walks already stays on the entry that is shown.
            self._at = max(self._at + len(entries) - len(self._entries), 0)
        self._entries = entries

    def add(self, text: str) -> bool:
        """Make `text` the newest entry and end the walk. False when it is blank or too large to keep."""
        self.leave()
        if not text.strip() or len(text) > LARGEST:
            return False
        self._entries = _distinct([*self._entries, text])
        return True

    def store(self, text: str) -> None:
        """Append an entry to the file. Raises OSError when that is impossible."""
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
        """The entry before the one shown; the first step keeps `draft`. None at the oldest."""
        at = len(self._entries) if self._at is None else self._at
        if at == 0:
            return None
        if self._at is None:
            self._draft = draft
        self._at = at - 1
        self.is_walking = True
        return self._entries[self._at]

    def newer(self) -> str | None:
        """The entry after the one shown, at last the draft. None when nothing is being walked."""
        if self._at is None:
            return None
        self._at += 1
        if self._at < len(self._entries):
            return self._entries[self._at]
        draft = self._draft
        self.leave()
        return draft

    def leave(self) -> None:
        """End the walk: what is shown is a text of its own now."""
        self._at = None
        self._draft = ""
        self.is_walking = False


class HistorySearch:
    """An incremental search through entries, newest first. Case matters only when the query has capitals."""

    def __init__(self, entries: Sequence[str]) -> None:
        self._entries = list(reversed(entries))
        self._folded = [entry.lower() for entry in self._entries]
        self.query = ""
        self._found: list[int] = list(range(len(self._entries)))
        self._at = 0

    @property
    def match(self) -> str | None:
        """The entry that is shown, or None when nothing matches."""
        return self._entries[self._found[self._at]] if self._found and self.query else None

    @property
    def place(self) -> tuple[int, int]:
        """Which match is shown, from 1, and how many there are; (0, 0) without one."""
        return (self._at + 1, len(self._found)) if self.match is not None else (0, 0)

    @property
    def span(self) -> tuple[int, int]:
        """Where the query stands in the match."""
        if self.match is None:
            return 0, 0
        start = self._within(self._found[self._at]).find(self.query)
        return start, start + len(self.query)

    def look_for(self, query: str) -> None:
        """Change the query. The entry shown stays while it matches, else the next older one is shown."""
        shown = self._found[self._at] if self._found and self.query else 0
        self.query = query
        self._found = [index for index in range(len(self._entries)) if query in self._within(index)]
        older = (at for at, index in enumerate(self._found) if index >= shown)
        self._at = next(older, 0)

    def step(self, count: int) -> None:
        """Go `count` matches further back (forward when negative); the ends hold."""
        self._at = min(max(self._at + count, 0), max(len(self._found) - 1, 0))

    def _within(self, index: int) -> str:
        plain = self.query == self.query.lower()
        # Lower case can change the length of a text; then its own offsets are worth more than its case.
        if plain and len(self._folded[index]) == len(self._entries[index]):
            return self._folded[index]
        return self._entries[index]


def _distinct(entries: Sequence[str]) -> list[str]:
    """The newest `KEPT` entries, each only where it was last used."""
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
    """Add a whole line, also behind one that a crash left unfinished. Returns the new size in bytes."""
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
    """Rewrite the file with what is kept, once it holds half as much again."""
    if path.read_bytes().count(b"\n") <= KEPT * 3 // 2:
        return
    entries = _distinct(_read(path))
    lines = [json.dumps({"text": entry}).encode() + b"\n" for entry in entries]
    write_atomically(path, lines, 0o600)


def _lock(path: Path) -> AbstractContextManager[int]:
    """Lock the file against all other processes. The lock has a file of its own, as that one is replaced."""
    return file_lock(path.with_name(path.name + ".lock"))

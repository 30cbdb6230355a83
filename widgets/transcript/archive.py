"""Storage of unused items outside memory, in an unnamed file that disappears with the process."""

from __future__ import annotations

import json
import zlib
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

from tools.kit.unnamed_file import UnnamedFile
from tools.results import DiffDetail, Display, TextDetail
from widgets.transcript.parts import (
    AnswerItem,
    CallItem,
    DocumentEntry,
    Fold,
    Item,
    NoticeItem,
    ReasoningItem,
    UserItem,
)

KINDS: Mapping[str, type[Item]] = {
    kind.__name__: kind for kind in (UserItem, ReasoningItem, AnswerItem, CallItem, NoticeItem)
}
UNREADABLE = NoticeItem("error", "This part of the conversation could not be read back from the disk.")


class Archive:
    """Entries by document index; each can be read any number of times.

    The file only grows: a changed entry is appended again. An entry that cannot be written (disk full, not
    plain data) stays in memory. The format is JSON, not pickle, because another process of the same user
    could write to the file.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.file = UnnamedFile(folder)
        self._below, self._above = _Records(), _Records()
        """The records of the entries from 0 on, and of those from -1 downwards."""
        self._held: dict[int, DocumentEntry] = {}
        """The entries that could not be written."""

    def write(self, index: int, entry: DocumentEntry) -> None:
        """Write an entry or its new state."""
        self._held.pop(index, None)
        try:
            chosen = entry.chosen.value if entry.chosen else None
            kind = type(entry.item).__name__
            record = [entry.gap, entry.age, chosen, kind, _fields(entry.item)]
            data = zlib.compress(json.dumps(record, default=_fields, separators=(",", ":")).encode(), 1)
            start = self.file.append(data)
        except (OSError, TypeError, ValueError, RecursionError):
            self._held[index] = entry
            return
        records, at = self._records(index)
        records.store(at, start, len(data))

    def read(self, index: int) -> DocumentEntry:
        """Return a written entry; a notice if the disk has lost it."""
        held = self._held.get(index)
        if held is not None:
            return held
        records, at = self._records(index)
        try:
            return _unpack(self.file.read(records.starts[at], records.sizes[at]))
        except (OSError, TypeError, ValueError, LookupError, RecursionError, zlib.error):
            return DocumentEntry(UNREADABLE, gap=True)

    def clear(self) -> None:
        """Forget everything."""
        self._below, self._above = _Records(), _Records()
        self._held.clear()
        self.file.clear()

    def _records(self, index: int) -> tuple[_Records, int]:
        return (self._below, index) if index >= 0 else (self._above, ~index)


class _Records:
    """Positions and sizes of the records in the file, as plain numbers, one of each per item."""

    def __init__(self) -> None:
        self.starts = array("Q")
        self.sizes = array("Q")

    def store(self, at: int, start: int, size: int) -> None:
        missing = [0] * (at + 1 - len(self.starts))
        self.starts.extend(missing)
        self.sizes.extend(missing)
        self.starts[at], self.sizes[at] = start, size


def _unpack(data: bytes) -> DocumentEntry:
    gap, age, chosen, kind, values = json.loads(zlib.decompress(data))
    if kind == CallItem.__name__:
        values[2] = _display(*values[2])
    elif kind == UserItem.__name__:
        values[3] = tuple(values[3])
    entry = DocumentEntry(KINDS[kind](*values), gap, age)
    entry.chosen = Fold(chosen) if chosen else None
    return entry


def _fields(value: Any) -> list[Any]:
    """Return the field values of a dataclass in order. Raises `TypeError` for other values."""
    names = getattr(type(value), "__match_args__", None)
    if names is None:
        raise TypeError(f"A {type(value).__name__} is not plain data.")
    return [getattr(value, name) for name in names]


def _display(
    verb: str, subject: str, summary: str, detail: list[str] | None, picture: str, exit_code: int | None
) -> Display:
    """Build a display from its fields; a detail of two fields is a text, one of one field a diff."""
    found = None if detail is None else TextDetail(*detail) if len(detail) == 2 else DiffDetail(*detail)
    return Display(verb, subject, summary, found, picture, exit_code)


class DocumentEntries:
    """Entries by index: appended ones count up from 0, prepended ones count down.

    The most recently used ones are in memory, as many as the owner allows; others are archived and loaded on
    access. Archiving changes nothing but the access time.
    """

    def __init__(self, archive: Archive) -> None:
        self.first = 0
        """The index of the first entry."""
        self.stop = 0
        """The index after the last one."""
        self._archive = archive
        self._here: OrderedDict[int, DocumentEntry] = OrderedDict()
        """The entries in memory, the one used last at the end."""

    def __len__(self) -> int:
        return self.stop - self.first

    @property
    def in_memory(self) -> int:
        """The number of entries in memory."""
        return len(self._here)

    def __getitem__(self, index: int) -> DocumentEntry:
        entry = self._here.get(index)
        if entry is None:
            entry = self._here[index] = self._fetch(index)
        else:
            self._here.move_to_end(index)
        return entry

    def __iter__(self) -> Iterator[DocumentEntry]:
        """Iterate over the entries in memory, in order."""
        return iter([entry for _, entry in sorted(self._here.items(), key=itemgetter(0))])

    def here(self, index: int) -> DocumentEntry | None:
        """Return an entry if it is in memory, without marking it as used."""
        return self._here.get(index)

    def peek(self, index: int) -> Item:
        """Return an item without loading it into memory."""
        entry = self._here.get(index)
        return (self._fetch(index) if entry is None else entry).item

    def append(self, entry: DocumentEntry) -> None:
        """Add an entry at the end."""
        self._here[self.stop] = entry
        self.stop += 1

    def prepend(self, entry: DocumentEntry) -> None:
        """Add an entry before the first. It is archived before others, because it has not been viewed."""
        self.first -= 1
        self._here[self.first] = entry
        self._here.move_to_end(self.first, last=False)

    def put_away(self) -> int | None:
        """Archive the least recently used entry; return its index, None if all are being written."""
        index = next((index for index, entry in self._here.items() if not entry.open), None)
        if index is not None:
            entry = self._here.pop(index)
            entry.parts, entry.heights = None, []
            if entry.written != entry.state:
                self._archive.write(index, entry)
        return index

    def _fetch(self, index: int) -> DocumentEntry:
        if not self.first <= index < self.stop:
            raise IndexError(f"There is no item {index}.")
        entry = self._archive.read(index)
        entry.written = entry.state
        return entry

"""Items that nobody looks at, out of memory: in a file without a name that ends with the process."""

from __future__ import annotations

import json
import weakref
import zlib
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

from tools.results import DiffDetail, Display, TextDetail
from widgets.transcript.parts import (
    AnswerItem,
    CallItem,
    CutItem,
    DocumentEntry,
    Fold,
    Item,
    NoticeItem,
    ReasoningItem,
    UserItem,
)

KINDS: Mapping[str, type[Item]] = {
    kind.__name__: kind for kind in (UserItem, ReasoningItem, AnswerItem, CallItem, NoticeItem, CutItem)
}
UNREADABLE = NoticeItem("error", "This part of the conversation could not be read back from the disk.")


class Archive:
    """Entries by their index in the document; each comes back as it was, as often as it is read.

    The file is readable for nobody else and has no name, so nothing is left of it however the process
    ends. It only grows: an entry that has changed is written behind the others, once more. What cannot be
    written, because the disk is full or the item is not plain data, stays in memory.
    It is JSON and not pickle: another process of the same person could write into it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        """Where the file is made; None: the system's folder for such files."""
        self._file: IO[bytes] | None = None
        self._close: weakref.finalize[..., Archive] | None = None
        self._below, self._above = _Records(), _Records()
        """Where the entries from 0 on lie, and those from -1 downwards."""
        self._end = 0
        self._held: dict[int, DocumentEntry] = {}
        """What could not be written."""

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._end

    def write(self, index: int, entry: DocumentEntry) -> None:
        """Take in an entry, or its new state."""
        self._held.pop(index, None)
        try:
            chosen = entry.chosen.value if entry.chosen else None
            kind = type(entry.item).__name__
            record = [entry.gap, entry.age, chosen, kind, _fields(entry.item)]
            data = zlib.compress(json.dumps(record, default=_fields, separators=(",", ":")).encode(), 1)
            file = self._open_file()
            file.seek(self._end)
            if file.write(data) != len(data):
                raise OSError("The disk is full.")
        except (OSError, TypeError, ValueError, RecursionError):
            self._held[index] = entry
            return
        records, at = self._records(index)
        records.store(at, self._end, len(data))
        self._end += len(data)

    def read(self, index: int) -> DocumentEntry:
        """An entry that was written. Of one the disk has lost a notice stands in."""
        held = self._held.get(index)
        if held is not None:
            return held
        records, at = self._records(index)
        try:
            file = self._open_file()
            file.seek(records.starts[at])
            return _unpack(file.read(records.sizes[at]))
        except (OSError, TypeError, ValueError, LookupError, RecursionError, zlib.error):
            return DocumentEntry(UNREADABLE, gap=True)

    def clear(self) -> None:
        """Forget everything."""
        self._below, self._above = _Records(), _Records()
        self._held.clear()
        self._end = 0
        if self._close is not None:
            self._close()
            self._file = self._close = None

    def _records(self, index: int) -> tuple[_Records, int]:
        return (self._below, index) if index >= 0 else (self._above, ~index)

    def _open_file(self) -> IO[bytes]:
        if self._file is None:
            import tempfile

            self._file = tempfile.TemporaryFile(buffering=0, dir=self.folder)  # noqa: SIM115 - as long as self
            self._close = weakref.finalize(self, self._file.close)
        return self._file


class _Records:
    """Where records begin in the file and how long they are, as plain numbers: there is one for each item."""

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
    """The fields of a dataclass in their order. Raises `TypeError` for anything else."""
    names = getattr(type(value), "__match_args__", None)
    if names is None:
        raise TypeError(f"A {type(value).__name__} is no plain data.")
    return [getattr(value, name) for name in names]


def _display(verb: str, subject: str, summary: str, detail: list[str] | None, picture: str) -> Display:
    """A display from its fields; a detail of two fields is a text, one of one field a diff."""
    found = None if detail is None else TextDetail(*detail) if len(detail) == 2 else DiffDetail(*detail)
    return Display(verb, subject, summary, found, picture)


class DocumentEntries:
    """Entries by index. What is appended counts on from 0, what is prepended down from the first.

    Those used last are in memory, as many as the owner leaves there; all others are put away, and come
    back when they are asked for. Which ones are put away changes nothing but the time that takes.
    """

    def __init__(self, archive: Archive) -> None:
        self.first = 0
        """The index of the first one."""
        self.stop = 0
        """The index behind the last one."""
        self._archive = archive
        self._here: OrderedDict[int, DocumentEntry] = OrderedDict()
        """Those in memory, the one used last at the end."""

    def __len__(self) -> int:
        return self.stop - self.first

    @property
    def in_memory(self) -> int:
        """How many are in memory."""
        return len(self._here)

    def __getitem__(self, index: int) -> DocumentEntry:
        entry = self._here.get(index)
        if entry is None:
            entry = self._here[index] = self._fetch(index)
        else:
            self._here.move_to_end(index)
        return entry

    def __iter__(self) -> Iterator[DocumentEntry]:
        """Those in memory, in their order."""
        return iter([entry for _, entry in sorted(self._here.items(), key=itemgetter(0))])

    def here(self, index: int) -> DocumentEntry | None:
        """An entry if it is in memory; it does not count as used."""
        return self._here.get(index)

    def peek(self, index: int) -> Item:
        """An item that stays where it is."""
        entry = self._here.get(index)
        return (self._fetch(index) if entry is None else entry).item

    def append(self, entry: DocumentEntry) -> None:
        """Add one at the end."""
        self._here[self.stop] = entry
        self.stop += 1

    def prepend(self, entry: DocumentEntry) -> None:
        """Add one above the first. It is the first to be put away: nobody has looked at it."""
        self.first -= 1
        self._here[self.first] = entry
        self._here.move_to_end(self.first, last=False)

    def put_away(self) -> int | None:
        """Put away the one used longest ago; its index, None if all that are here are being written."""
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

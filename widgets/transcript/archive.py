"""Items that nobody looks at, out of memory: in a file without a name that ends with the process."""

from __future__ import annotations

import json
import weakref
import zlib
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from tools.results import DiffDetail, Display, TextDetail
from widgets.transcript.document_entry import DocumentEntry
from widgets.transcript.items import (
    AnswerItem,
    CallItem,
    CutItem,
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
    written, because the disk is full or the item is no plain data, stays in memory.
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
        """Take in an entry, or what has become of it."""
        self._held.pop(index, None)
        try:
            chosen = entry.chosen.value if entry.chosen else None
            kind = type(entry.item).__name__
            record = [entry.gap, entry.age, chosen, kind, _fields(entry.item)]
            data = zlib.compress(json.dumps(record, default=_fields, separators=(",", ":")).encode(), 1)
            file = self._opened()
            file.seek(self._end)
            if file.write(data) != len(data):
                raise OSError("The disk is full.")
        except (OSError, TypeError, ValueError, RecursionError):
            self._held[index] = entry
            return
        records, at = self._records(index)
        records.put(at, self._end, len(data))
        self._end += len(data)

    def read(self, index: int) -> DocumentEntry:
        """An entry that was written. Of one the disk has lost a notice stands in."""
        held = self._held.get(index)
        if held is not None:
            return held
        records, at = self._records(index)
        try:
            file = self._opened()
            file.seek(records.starts[at])
            return _unpacked(file.read(records.sizes[at]))
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

    def _opened(self) -> IO[bytes]:
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

    def put(self, at: int, start: int, size: int) -> None:
        missing = [0] * (at + 1 - len(self.starts))
        self.starts.extend(missing)
        self.sizes.extend(missing)
        self.starts[at], self.sizes[at] = start, size


def _unpacked(data: bytes) -> DocumentEntry:
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

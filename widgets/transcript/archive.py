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
from widgets.transcript.entries import Entry
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
    """Entries and their heights, last in, first out; each comes back as it was.

    The file is readable for nobody else and has no name, so nothing is left of it however the process
    ends. What cannot be written, because the disk is full or the item is no plain data, stays in memory.
    It is JSON and not pickle: another process of the same person could write into it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        """Where the file is made; None: the system's folder for such files."""
        self._file: IO[bytes] | None = None
        self._close: weakref.finalize[..., Archive] | None = None
        self._starts = array("Q")
        """Where each record begins in the file."""
        self._end = 0
        self._held: dict[int, tuple[Entry, int]] = {}
        """What could not be written, by its position."""

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._end

    def push(self, entry: Entry, height: int) -> None:
        """Take in an entry that is `height` rows high."""
        try:
            data = _packed(entry, height)
            file = self._opened()
            file.seek(self._end)
            file.write(data)
        except (OSError, TypeError, ValueError, RecursionError):
            self._held[len(self._starts)] = entry, height
            data = b""
        self._starts.append(self._end)
        self._end += len(data)

    def pop(self) -> tuple[Entry, int]:
        """Give back the entry that came last, and its height. Of one the disk has lost a notice stands in."""
        found = self._read(-1)
        self._end = self._starts.pop()
        self._held.pop(len(self._starts), None)
        return found

    def peek(self, back: int) -> Item:
        """An item that stays where it is: -1 is the last, -2 the one before."""
        return self._read(back)[0].item

    def clear(self) -> None:
        """Forget everything."""
        del self._starts[:]
        self._held.clear()
        self._end = 0
        if self._close is not None:
            self._close()
            self._file = self._close = None

    def _read(self, back: int) -> tuple[Entry, int]:
        held = self._held.get(len(self._starts) + back)
        if held is not None:
            return held
        start, end = self._starts[back], self._end if back == -1 else self._starts[back + 1]
        try:
            file = self._opened()
            file.seek(start)
            return _unpacked(file.read(end - start))
        except (OSError, TypeError, ValueError, LookupError, RecursionError, zlib.error):
            return Entry(UNREADABLE, gap=True), 2

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            import tempfile

            self._file = tempfile.TemporaryFile(buffering=0, dir=self.folder)  # noqa: SIM115 - as long as self
            self._close = weakref.finalize(self, self._file.close)
        return self._file


def _packed(entry: Entry, height: int) -> bytes:
    chosen = entry.chosen.value if entry.chosen else None
    kind = type(entry.item).__name__
    record = [height, entry.gap, entry.age, chosen, kind, _fields(entry.item)]
    return zlib.compress(json.dumps(record, default=_fields, separators=(",", ":")).encode(), 1)


def _unpacked(data: bytes) -> tuple[Entry, int]:
    height, gap, age, chosen, kind, values = json.loads(zlib.decompress(data))
    if kind == CallItem.__name__:
        values[2] = _display(*values[2])
    entry = Entry(KINDS[kind](*values), gap, age)
    entry.chosen = Fold(chosen) if chosen else None
    return entry, height


def _fields(value: Any) -> list[Any]:
    """The fields of a dataclass in their order. Raises `TypeError` for anything else."""
    names = getattr(type(value), "__match_args__", None)
    if names is None:
        raise TypeError(f"A {type(value).__name__} is no plain data.")
    return [getattr(value, name) for name in names]


def _display(verb: str, subject: str, summary: str, detail: list[str] | None) -> Display:
    """A display from its fields; a detail of two fields is a text, one of one field a diff."""
    if detail is None:
        return Display(verb, subject, summary)
    return Display(verb, subject, summary, TextDetail(*detail) if len(detail) == 2 else DiffDetail(*detail))

"""The items of a document in their order: a bounded number in memory, all others in the archive."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from operator import itemgetter

from widgets.transcript.archive import Archive
from widgets.transcript.document_entry import DocumentEntry
from widgets.transcript.items import Item


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
            entry = self._here[index] = self._fetched(index)
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
        return (self._fetched(index) if entry is None else entry).item

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

    def _fetched(self, index: int) -> DocumentEntry:
        if not self.first <= index < self.stop:
            raise IndexError(f"There is no item {index}.")
        entry = self._archive.read(index)
        entry.written = entry.state
        return entry

"""The entries of one memory file, and what writing does to them. Pure functions, no disk.

A file is plain text: entries parted by a line that holds only `§`. What is
written is checked as a whole: a batch applies completely or not at all, against
the size that results from all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tools.text.safe_text import clean
from tools.text.words import shorten

SEPARATOR = "§"
DELIMITER = f"\n{SEPARATOR}\n"

PREVIEW = 80
"""Characters of an entry that an error quotes."""

Action = Literal["add", "replace", "remove"]
Entries = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryOperation:
    """One change. `old_text` is a part of the entry that is meant, or all of it; `add` needs none."""

    action: Action
    content: str = ""
    old_text: str = ""


class MemoryWriteError(Exception):
    """A write that was refused; nothing has changed. The message is one sentence with the mend."""


def parse(text: str) -> Entries:
    """The entries of a file, stripped, in order; of equal ones the first stays."""
    entries: list[str] = []
    lines: list[str] = []
    for line in [*text.splitlines(), SEPARATOR]:
        if line.strip() == SEPARATOR:
            entries.append("\n".join(lines).strip())
            lines = []
        else:
            lines.append(line)
    return tuple(dict.fromkeys(entry for entry in entries if entry))


def render(entries: Entries) -> str:
    """The text of a file that holds these entries."""
    return DELIMITER.join(entries) + "\n" if entries else ""


def size(entries: Entries) -> int:
    """Characters that count against the limit: the entries and what stands between them."""
    return len(DELIMITER.join(entries))


def usage(entries: Entries, limit: int) -> str:
    """How full the file is: `1,474/2,200`."""
    return f"{size(entries):,}/{limit:,}"


def applied(entries: Entries, operations: Sequence[MemoryOperation], limit: int) -> Entries:
    """The entries after all operations, in order. Raises `MemoryWriteError`, and then none of them counts.

    An entry that is already there is accepted without a change. Only the size at the end counts, and a
    write that makes an overfull file smaller is accepted.
    """
    if not operations:
        raise MemoryWriteError("There is nothing to write; give an action, or at least one operation.")
    result = list(entries)
    for number, operation in enumerate(operations, 1):
        try:
            _apply(result, operation)
        except MemoryWriteError as error:
            if len(operations) == 1:
                raise
            raise MemoryWriteError(
                f"Operation {number} of {len(operations)}: {error} None of the operations was applied."
            ) from None
    changed = tuple(result)
    if size(changed) > limit and size(changed) > size(entries):
        raise MemoryWriteError(
            f"Memory holds at most {limit:,} characters; this write would make it {size(changed):,} "
            f"({size(changed) - limit:,} too many). Replace or remove entries in the same batch."
        )
    return changed


def _apply(entries: list[str], operation: MemoryOperation) -> None:
    content = _content(operation.content)
    if operation.action == "add":
        if not content:
            raise MemoryWriteError("An entry needs content; nothing was added.")
        if content not in entries:
            entries.append(content)
        return
    index = _find(entries, operation.old_text)
    if operation.action == "remove":
        del entries[index]
        return
    if not content:
        raise MemoryWriteError("A replacement needs content; use remove to delete the entry.")
    if content in entries and entries.index(content) != index:
        del entries[index]
    else:
        entries[index] = content


def _content(text: str) -> str:
    content = clean(text).strip()
    if any(line.strip() == SEPARATOR for line in content.splitlines()):
        raise MemoryWriteError(
            f"An entry cannot hold a line with only {SEPARATOR}, which parts entries; add each by itself."
        )
    return content


def _find(entries: Sequence[str], old_text: str) -> int:
    """Where the one entry is that is `old_text` or contains it."""
    wanted = clean(old_text).strip()
    if not wanted:
        raise MemoryWriteError("old_text is empty; give a part of the entry that only it contains.")
    if wanted in entries:
        return list(entries).index(wanted)
    found = [index for index, entry in enumerate(entries) if wanted in entry]
    if not found:
        raise MemoryWriteError(
            f"No entry contains {preview(wanted)!r}; the entries are listed in current_entries."
        )
    if len(found) > 1:
        quoted = "; ".join(repr(preview(entries[index])) for index in found[:5])
        raise MemoryWriteError(
            f"{len(found)} entries contain {preview(wanted)!r}: {quoted}. Be more specific in old_text."
        )
    return found[0]


def preview(text: str) -> str:
    """The beginning of an entry on one line."""
    line = " ".join(text.split())
    return shorten(line, PREVIEW)

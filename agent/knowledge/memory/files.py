"""The memory files on disk: locked, written atomically, and without losing the user's edits.

Every method touches the disk and must run in a thread. A write holds the lock of the folder, reads the
current content and applies the change. Then it writes the origins, with the hash of the new version, and last
the file. A crash in between leaves the old file, and a version of Hermes is never mistaken for the user's. If
the user saves the file in the meantime, the write starts again.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import HermesError
from agent.knowledge.memory.scopes import leftovers, replace_content
from tools.kit.files import lock_file, open_lock, read_plain, write_atomically
from tools.text.safe_text import clean
from tools.text.words import shorten

SEPARATOR = "§"
DELIMITER = f"\n{SEPARATOR}\n"

PREVIEW = 80
"""The maximum number of characters of an entry that an error quotes."""

Action = Literal["add", "replace", "remove"]
Entries = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryOperation:
    """One change of a memory. `old_text` is all or part of the affected entry; `add` needs none."""

    action: Action
    content: str = ""
    old_text: str = ""


class MemoryWriteError(Exception):
    """A refused write; nothing has changed. The message is one sentence with the fix."""


def parse(text: str) -> Entries:
    """Return the entries of a file, stripped and in order; of duplicates only the first is kept."""
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
    """Return the text of a file with these entries."""
    return DELIMITER.join(entries) + "\n" if entries else ""


def size(entries: Entries) -> int:
    """Return the number of characters that count against the limit: those of entries and separators."""
    return len(DELIMITER.join(entries))


def usage(entries: Entries, limit: int) -> str:
    """Return how full the file is, in characters: `1,474/2,200`."""
    return f"{size(entries):,}/{limit:,}"


def apply_operations(entries: Entries, operations: Sequence[MemoryOperation], limit: int) -> Entries:
    """Return the entries after all operations. Raises `MemoryWriteError` if one cannot be applied.

    Adding an existing entry has no effect. Only the final size counts. A write that makes an overfull file
    smaller is accepted.
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
    """Return the index of the only entry that equals or contains `old_text`. Raises `MemoryWriteError`."""
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
    """Return the beginning of an entry on one line."""
    line = " ".join(text.split())
    return shorten(line, PREVIEW)


VERSION = 1
MOST_VERSIONS = 64
"""The maximum number of remembered versions; an undo may restore any of them."""
MOST_ENTRIES = 2_000
"""The maximum number of entries with a stored origin. Removed ones count, as an undo restores both."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The time and the session in which an entry was written, and whether agent or user wrote it."""

    created: float
    """The time in seconds since the epoch."""
    session: str = ""
    """The session; empty if the user wrote it by hand or on the command line."""
    node: int | None = None
    """The id of the message of that session at which it was written."""
    by: str = "agent"
    """`agent`, `person`, or `file` if it was found in a file edited by the user."""


@dataclass(frozen=True, slots=True)
class Origins:
    """The metadata stored for one memory file."""

    versions: tuple[str, ...] = ()
    """SHA-256 of the contents that Hermes wrote, oldest first."""
    entries: Mapping[str, Origin] = field(default_factory=dict)
    """Origins by SHA-256 of the entry's text."""

    def of(self, entry: str) -> Origin | None:
        """Return the origin of an entry; None if it is unknown."""
        return self.entries.get(digest(entry))

    def wrote(self, content: bytes) -> bool:
        """Return whether Hermes wrote a file with exactly this content."""
        return hashlib.sha256(content).hexdigest() in self.versions

    def with_version(self, content: bytes) -> Origins:
        """Return these origins with one more version written by Hermes."""
        new = hashlib.sha256(content).hexdigest()
        versions = [*(each for each in self.versions if each != new), new]
        return Origins(tuple(versions[-MOST_VERSIONS:]), self.entries)

    def with_entries(self, texts: tuple[str, ...], origin: Origin) -> Origins:
        """Return these origins, with `origin` for each text that has none yet."""
        new = {key: origin for text in texts if (key := digest(text)) not in self.entries}
        entries = dict([*self.entries.items(), *new.items()][-MOST_ENTRIES:])
        return Origins(self.versions, entries)


def digest(entry: str) -> str:
    """Return the SHA-256 of an entry's text."""
    return hashlib.sha256(entry.encode("utf-8", "surrogatepass")).hexdigest()


def dump(origins: Origins) -> bytes:
    """Return the origins as JSON, which `load` reads."""
    data = {
        "version": VERSION,
        "versions": list(origins.versions),
        "entries": {key: asdict(origin) for key, origin in origins.entries.items()},
    }
    return json.dumps(data, ensure_ascii=False, indent=1).encode()


def load(content: bytes) -> Origins | None:
    """Parse the origins in a file's content; return None if it holds none. Broken entries are left out."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("version") != VERSION:
        return None
    versions, entries = data.get("versions"), data.get("entries")
    if not isinstance(versions, list) or not isinstance(entries, dict):
        return None
    read = {key: origin for key, value in entries.items() if (origin := _origin(value)) is not None}
    return Origins(tuple(each for each in versions if isinstance(each, str))[-MOST_VERSIONS:], read)


def _origin(value: Any) -> Origin | None:
    if not isinstance(value, dict) or not isinstance(created := value.get("created"), int | float):
        return None
    session, node, by = value.get("session", ""), value.get("node"), value.get("by", "agent")
    if not isinstance(session, str) or not isinstance(by, str) or not isinstance(node, int | None):
        return None
    return Origin(float(created), session, node, by)


_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

LARGEST = 1_000_000
"""The maximum size of a memory file in bytes; a larger file is refused."""
MOST_TRIES = 8
"""The maximum number of attempts at a write while another program keeps writing the file."""


class MemoryFileError(HermesError):
    """An unusable memory file. The message names the file, the cause and the fix."""


@dataclass(frozen=True, slots=True)
class MemoryContents:
    """The current content of one memory file."""

    path: Path
    entries: Entries
    origins: Origins
    limit: int
    """The limit in characters."""
    exists: bool = True
    note: str = ""
    """A notice for the user about this read or write; usually empty."""
    on_disk: bool = True
    """Whether `path` is a file; otherwise it only names the remote service."""


class MemoryFile:
    """One memory file. Two processes may use it at once."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self.limit = limit

    @property
    def origins_path(self) -> Path:
        """The path of the file with the origins."""
        return self.path.with_name(f".{self.path.stem}.origins.json")

    def read(self) -> MemoryContents:
        """Return the contents on disk. Raises `MemoryFileError` for a file that is not a memory file."""
        content = self._content()
        origins, _ = self._origins()
        if content is None:
            return MemoryContents(self.path, (), origins, self.limit, exists=False)
        return MemoryContents(self.path, self._parse(content), origins, self.limit)

    def write(
        self, operations: Sequence[MemoryOperation], origin: Origin
    ) -> tuple[MemoryContents, MemoryContents]:
        """Apply operations; return the contents before and after.

        If the user edited the file in the meantime, a copy of that version is saved next to it and its
        entries count. Raises `MemoryWriteError` for operations that cannot be applied and `MemoryFileError`
        for an unusable file; nothing has changed then.
        """
        with self._locked():
            for attempt in range(MOST_TRIES):
                time.sleep(0.02 * attempt)
                if (done := self._try(operations, origin)) is not None:
                    return done
        raise self._busy()

    def _try(
        self, operations: Sequence[MemoryOperation], origin: Origin
    ) -> tuple[MemoryContents, MemoryContents] | None:
        """Try a write once; return the contents before and after, None if the file changed meanwhile."""
        notes = self._settle()
        content = self._content()
        origins, problem = self._origins()
        entries = () if content is None else self._parse(content)
        notes += [problem] if problem else []
        before = MemoryContents(self.path, entries, origins, self.limit, content is not None)
        new = apply_operations(entries, operations, self.limit)
        if content is not None and not origins.wrote(content):
            notes.append(self._keep(content, len(entries)))
            origins = origins.with_entries(entries, Origin(time.time(), by="file"))
        origins = origins.with_entries(new, origin)
        if new != entries or notes or content is None:
            replaced = self._replace(render(new).encode(), origins, content)
            if replaced is None:
                return None
            origins = replaced
        return before, MemoryContents(self.path, new, origins, self.limit, note=" ".join(notes))

    def adopt(self, origin: Origin, *, make: bool = False) -> MemoryContents:
        """Record the file's content as known, because the user edited it through Hermes; return the content.

        With `make` an empty file is created if there is none.
        """
        with self._locked():
            content = self._content()
            made = content is None and make
            if made:
                content = b""
            origins, _ = self._origins()
            entries = () if content is None else self._parse(content)
            origins = origins.with_entries(entries, origin)
            if content is not None:
                adopted = self._replace(content, origins, None if made else content)
                if adopted is None:
                    raise self._busy()
                origins = adopted
            return MemoryContents(self.path, entries, origins, self.limit, content is not None)

    def _content(self) -> bytes | None:
        """Return the bytes of the file; None if there is none. Raises `MemoryFileError`."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise self._unusable("it is not a plain file")
            with os.fdopen(file, "rb", closefd=False) as opened:
                content = opened.read(LARGEST + 1)
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        finally:
            os.close(file)
        if len(content) > LARGEST:
            raise self._unusable(f"it is larger than {LARGEST:,} bytes")
        return content

    def _parse(self, content: bytes) -> Entries:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise self._unusable("it is not UTF-8 text") from None
        if "\0" in text:
            raise self._unusable("it holds NUL bytes")
        return parse(text)

    def _unusable(self, cause: str) -> MemoryFileError:
        return MemoryFileError(f"{self.path} cannot be used as memory: {cause}; fix it or move it away.")

    def _origins(self) -> tuple[Origins, str]:
        """Return the stored origins, and a description of what is wrong with them (empty if nothing)."""
        try:
            content = read_plain(self.origins_path, LARGEST * 4)
        except FileNotFoundError:
            return Origins(), ""
        except OSError:
            content = b""
        known = load(content)
        if known is None:
            return Origins(), f"{self.origins_path.name} was unreadable; where entries came from is lost."
        return known, ""

    def _keep(self, content: bytes, count: int) -> str:
        """Copy the user's version next to the file; return a sentence about it. Raises `MemoryFileError`."""
        copy = self._copy_path()
        try:
            write_atomically(copy, content, PRIVATE_FILE, follow_links=False)
        except OSError as error:
            reason = error.strerror or str(error)
            raise MemoryFileError(
                f"Cannot keep a copy of {self.path}: {reason}; nothing was written."
            ) from error
        entries = "entry was" if count == 1 else f"{count} entries were"
        return f"{self.path.name} was edited by hand; its {entries} kept, and that version is {copy.name}."

    def _copy_path(self) -> Path:
        """Return an unused path for a copy of the user's version; its name contains the time."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        copy = self.path.with_name(f"{self.path.name}.bak.{stamp}")
        number = 1
        while copy.exists():
            number += 1
            copy = self.path.with_name(f"{self.path.name}.bak.{stamp}-{number}")
        return copy

    def _settle(self) -> list[str]:
        """Remove files left behind by killed writes, and return sentences about those that were kept.

        A file that Hermes did not write is kept under another name.
        """
        notes: list[str] = []
        for left in leftovers(self.path):
            try:
                if self._origins()[0].wrote(read_plain(left, LARGEST)):
                    left.unlink()
                else:
                    copy = self._copy_path()
                    left.rename(copy)
                    notes.append(f"A version of {self.path.name} that was put aside is {copy.name}.")
            except OSError:
                continue
        return notes

    def _replace(self, content: bytes, origins: Origins, seen: bytes | None) -> Origins | None:
        """Write the origins and the file, and return the origins.

        Returns None without writing if the file's content is no longer `seen`.
        """
        origins = origins.with_version(content)
        try:
            write_atomically(self.origins_path, dump(origins), PRIVATE_FILE, follow_links=False)
        except OSError as error:
            cause = error.strerror or str(error)
            raise self._unusable(f"{self.origins_path.name} beside it cannot be written ({cause})") from error
        try:
            return origins if replace_content(self.path, content, seen) else None
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error

    def _busy(self) -> MemoryFileError:
        return MemoryFileError(
            f"Another program keeps writing {self.path}; nothing was written, try again when it is done."
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the folder inside this block; other processes wait for it."""
        private_folder(self.path.parent)
        try:
            lock = open_lock(self.path.with_name(".lock"))
        except OSError as error:
            raise self._unusable(f"its lock cannot be made ({error.strerror})") from error
        try:
            lock_file(lock)
            yield
        finally:
            os.close(lock)

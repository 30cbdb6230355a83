"""The memory files on disk: locked, atomic, and careful with what a person wrote into them.

Every method touches the disk and belongs into a thread. A write holds the lock of
its folder, reads what is there now, applies the change to that, writes the origins
(with the hash of the new version) and then the file: a crash in between leaves the
old file, and no version of ours is ever taken for a person's. A person who saves the
file between the reading and the writing makes the write begin anew.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import HermesError
from agent.knowledge.memory.entries import Entries, MemoryOperation, applied, parse, render
from agent.knowledge.memory.origins import Origin, Origins, dump, load
from agent.knowledge.memory.placing import leftovers, put
from tools.kit.files import lock_file, open_lock, read_plain, write_atomically

_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

LARGEST = 1_000_000
"""Bytes of a memory file that is read; what is larger is no memory."""
MOST_TRIES = 8
"""Times that a write begins anew because another program wrote the file meanwhile."""


class MemoryFileError(HermesError):
    """A memory file that cannot be used. The message names the file, the cause and the mend."""


@dataclass(frozen=True, slots=True)
class MemoryContents:
    """One memory file as it is now."""

    path: Path
    entries: Entries
    origins: Origins
    limit: int
    """Characters it may hold."""
    exists: bool = True
    note: str = ""
    """What a person should hear about this read or write; empty as a rule."""
    on_disk: bool = True
    """Whether `path` is a file; else it only says who keeps the notes."""


class MemoryFile:
    """One file of entries. Two processes may use it at once."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self.limit = limit

    @property
    def origins_path(self) -> Path:
        """Where the origins of its entries are kept."""
        return self.path.with_name(f".{self.path.stem}.origins.json")

    def read(self) -> MemoryContents:
        """The entries as they are on disk. Raises `MemoryFileError` for a file that is no memory."""
        content = self._content()
        origins, _ = self._origins()
        if content is None:
            return MemoryContents(self.path, (), origins, self.limit, exists=False)
        return MemoryContents(self.path, self._parse(content), origins, self.limit)

    def write(
        self, operations: Sequence[MemoryOperation], origin: Origin
    ) -> tuple[MemoryContents, MemoryContents]:
        """Apply operations; what was there before, and what is there now.

        What a person wrote into the file meanwhile is kept: their version is copied beside it, their
        entries count. Raises `MemoryWriteError` for operations that cannot be applied and
        `MemoryFileError` for a file that cannot be used; nothing has changed then.
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
        """One try of a write; None if another program wrote the file meanwhile."""
        notes = self._settle()
        content = self._content()
        origins, problem = self._origins()
        entries = () if content is None else self._parse(content)
        notes += [problem] if problem else []
        before = MemoryContents(self.path, entries, origins, self.limit, content is not None)
        new = applied(entries, operations, self.limit)
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
        """Take the file as it is for one that Hermes knows: a person edited it through Hermes.

        With `make` an empty file is made where there is none.
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
        """The bytes of the file; None if there is none."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise self._unusable("it is no plain file")
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
        return MemoryFileError(f"{self.path} cannot be used as memory: {cause}; mend it or move it away.")

    def _origins(self) -> tuple[Origins, str]:
        """What is kept beside the file, and what is wrong with it."""
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
        """Copy the version of a person beside the file; the sentence that says so."""
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
        """A free name for a version of a person, with the time."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        copy = self.path.with_name(f"{self.path.name}.bak.{stamp}")
        number = 1
        while copy.exists():
            number += 1
            copy = self.path.with_name(f"{self.path.name}.bak.{stamp}-{number}")
        return copy

    def _settle(self) -> list[str]:
        """Clear away what a killed write left behind; what Hermes did not write itself is kept, and named."""
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
        """Write origins and file; None if the file is not what was `seen` any more."""
        origins = origins.with_version(content)
        try:
            write_atomically(self.origins_path, dump(origins), PRIVATE_FILE, follow_links=False)
        except OSError as error:
            cause = error.strerror or str(error)
            raise self._unusable(f"{self.origins_path.name} beside it cannot be written ({cause})") from error
        try:
            return origins if put(self.path, content, seen) else None
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error

    def _busy(self) -> MemoryFileError:
        return MemoryFileError(
            f"Another program keeps writing {self.path}; nothing was written, try again when it is done."
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the folder; other processes wait for it."""
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

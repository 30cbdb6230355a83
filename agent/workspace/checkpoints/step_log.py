"""The log of the steps of one session: an append-only file with one record per line of text.

    <length, 8 hex digits> <beginning of the SHA-256, 16 hex digits> <JSON, ASCII>

The first record is the head: format, session and `floor` (steps up to it were deleted; numbering continues
after it). Each record is written by one call, under a lock on the file. An incomplete line at the end, left
by a killed process or a power failure, is removed by the next append. A damaged line in the middle is skipped
and reported. Its number stays used, so later positions keep their meaning.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import ConfigError, StoreError
from agent.workspace.checkpoints.entries import (
    Coverage,
    PathChange,
    Step,
    StepKind,
    UnitMark,
    change_of,
    change_record,
    step_of,
    step_record,
)
from agent.workspace.checkpoints.objects import TEMPORARY, ObjectStore, store_error, write_all
from agent.workspace.checkpoints.root_identity import identity
from tools.kit.files import is_open_at, lock_file, write_atomically
from tools.kit.lazy_pattern import lazy_pattern

FORMAT = 1

WAIT_SECONDS = 20.0


def lock(descriptor: int, path: Path, *, exclusive: bool, seconds: float = WAIT_SECONDS) -> None:
    """Lock an open file. Raises `BusyError` after `seconds`, `OSError` if the file cannot be locked."""
    if not lock_file(descriptor, shared=not exclusive, seconds=seconds):
        raise BusyError(f"Another process keeps {path} locked; wait for it or end it, and try again.")


class BusyError(StoreError):
    """Raised if another process is using the store."""


INLINE_BYTES = 64 * 1024
"""The size in bytes of JSON above which changes are stored as a separate object."""
SUFFIX = ".log"
COMPLETE = Coverage()

_NAME = lazy_pattern(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,150}")
_OPEN = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class StepLogFlaw:
    """An unusable part of a step log."""

    place: int
    """The number of the line in the file, from 1."""
    sentence: str


@dataclass(frozen=True, slots=True)
class Needs:
    """The objects that one step needs."""

    number: int
    created: float
    digests: frozenset[str]
    """The contents before and after the step, and its changes if they are stored as an object."""
    size: int
    """The size of the step's record in bytes."""


@dataclass(slots=True)
class _Reading:
    """The progress of reading a log file."""

    inode: tuple[int, int] = (0, 0)
    offset: int = 0
    """The position in bytes after the last complete line."""
    lines: int = 0
    floor: int = 0
    last: int = 0
    headed: bool = False


def usable_name(session: str) -> bool:
    """Return whether a session's step log can have this name. Pure."""
    return _NAME.fullmatch(session) is not None


class StepLog:
    """The steps of one session. Threads of a process share one object; processes share the file."""

    def __init__(self, folder: Path, session: str, objects: ObjectStore) -> None:
        if not usable_name(session):
            raise StoreError(f"{session[:80]!r} cannot be the name of a session's checkpoints.")
        self.session = session
        self.path = folder / f"{session}{SUFFIX}"
        self._objects = objects
        self._mutex = threading.RLock()
        self._forget()

    @property
    def last(self) -> int:
        """Return the number of the last step; 0 if there is none. Raises `StoreError`."""
        with self._mutex:
            self._refresh()
            return self._read.last

    @property
    def floor(self) -> int:
        """Return the lowest position that can be restored; older steps were deleted. Raises `StoreError`."""
        with self._mutex:
            self._refresh()
            return self._read.floor

    def steps(self, after: int = 0) -> tuple[Step, ...]:
        """Return the steps with numbers above `after`, oldest first, including those of other processes.

        A step with a damaged record or damaged changes is left out: see `flaws`. Raises `StoreError`.
        """
        with self._mutex:
            self._refresh()
            if not self._steps or self._steps[0].number > after:
                return tuple(self._steps)
            found = len(self._steps)
            while found and self._steps[found - 1].number > after:
                found -= 1
            return tuple(self._steps[found:])

    def flaws(self) -> tuple[StepLogFlaw, ...]:
        """Return the unusable parts of the step log. Raises `StoreError`."""
        with self._mutex:
            self._refresh()
            return tuple(self._flaws)

    def needs(self) -> tuple[Needs, ...]:
        """Return the objects that each step needs, oldest step first. Raises `StoreError`."""
        with self._mutex:
            self._refresh()
            for step in self._steps[len(self._needs) :]:
                self._needs.append(_needs(step, *self._rest[step.number]))
            return tuple(self._needs)

    def append(
        self,
        *,
        kind: StepKind,
        session: str,
        call: str,
        label: str,
        root: str,
        changes: Iterable[PathChange],
        coverage: Coverage = COMPLETE,
        created: float | None = None,
        after: int = 0,
        git: str = "",
        units: Mapping[str, UnitMark] | None = None,
        place: str | None = None,
        perhaps: tuple[str, ...] = (),
    ) -> Step:
        """Add a step and return it with its number: one more than the last, and above `after`.

        Contents named by `changes` must already be in the object store. The record is passed to the operating
        system before this function returns, so it survives a killed process. Raises `StoreError`; the log is
        then unchanged.
        """
        created = time.time() if created is None else created
        kept = tuple(changes)
        extra = self._written_changes(kept)
        with self._mutex, self._locked() as descriptor:
            self._refresh(descriptor)
            number = max(self._read.last, after) + 1
            place = identity(Path(root)) if place is None else place
            marks = units or {}
            told = (kept, coverage, git, marks, place, perhaps)
            step = Step(number, kind, session, call, label, created, root, *told)
            line = _line(step_record(step) | extra)
            self._extend(descriptor, line)
            self._remember(step, extra, len(line))
            return step

    def prune(self, floor: int) -> None:
        """Delete the steps up to `floor` by writing a new file and renaming it.

        Raises `StoreError`; the log is then unchanged.
        """
        with self._mutex, self._locked(create=False) as descriptor:
            self._refresh(descriptor)
            if floor <= self._read.floor:
                return
            kept = self._records_above(descriptor, floor)
            head = _head(self.session, min(floor, self._read.last))
            self._replace(b"".join([head, *kept]))
            self._forget()

    def drop(self) -> None:
        """Delete the log. Raises `StoreError`."""
        with self._mutex, self._locked(create=False):
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                raise store_error(error, self.path.parent, "cleared") from error
            self._forget()

    def _forget(self) -> None:
        self._read = _Reading()
        self._steps: list[Step] = []
        self._flaws: list[StepLogFlaw] = []
        self._rest: dict[int, tuple[str, int]] = {}
        self._needs: list[Needs] = []

    def _remember(self, step: Step, record: dict[str, Any], size: int) -> None:
        self._steps.append(step)
        self._rest[step.number] = str(record.get("changes_in", "")), size
        self._read.last = step.number

    def _written_changes(self, changes: tuple[PathChange, ...]) -> dict[str, Any]:
        records = [change_record(change) for change in changes]
        # One by one, because a hundred thousand at once would block the event loop.
        text = f"[{','.join(json.dumps(record, separators=(',', ':')) for record in records)}]"
        if len(text) <= INLINE_BYTES:
            return {"changes": records}
        return {"changes_in": self._objects.add(text.encode())}

    def _extend(self, descriptor: int, line: bytes) -> None:
        """Write one record after the last complete line; if that fails, leave the file unchanged."""
        end = self._read.offset
        try:
            self._cut(descriptor, end)
            if not end:
                line = _head(self.session, 0) + line
                self._read.headed = True
                self._read.lines += 1
            try:
                write_all(descriptor, line)
            except OSError:
                os.ftruncate(descriptor, end)
                raise
        except OSError as error:
            self._forget()
            raise store_error(error, self.path.parent, "written") from error
        self._read.offset += len(line)
        self._read.lines += 1

    def _cut(self, descriptor: int, end: int) -> None:
        """Remove an incomplete line, left by a killed process or a power cut, from the end of the file."""
        size = os.fstat(descriptor).st_size
        if size == end:
            return
        head = _head(self.session, 0)
        torn = os.pread(descriptor, len(head), end)
        if (end and self._read.headed) or head.startswith(torn) or not torn.strip(b"\0"):
            os.ftruncate(descriptor, end)
        else:
            raise StoreError(f"{self.path} holds no steps of Hermes; move it away. It was left as it is.")

    def _refresh(self, descriptor: int | None = None) -> None:
        """Read the records appended by other processes since, or all records if the file was replaced."""
        if descriptor is None:
            try:
                descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                self._forget()
                return
            except OSError as error:
                raise store_error(error, self.path.parent, "read") from error
            try:
                self._refresh(descriptor)
            finally:
                os.close(descriptor)
            return
        try:
            status = os.fstat(descriptor)
            identity = (status.st_dev, status.st_ino)
            if identity != self._read.inode or status.st_size < self._read.offset:
                self._forget()
                self._read.inode = identity
            if status.st_size > self._read.offset:
                self._take_all(_pread(descriptor, self._read.offset, status.st_size))
        except OSError as error:
            raise store_error(error, self.path.parent, "read") from error

    def _take_all(self, data: bytes) -> None:
        whole = data.rfind(b"\n") + 1
        try:
            for line in data[:whole].splitlines(keepends=True):
                self._read.lines += 1
                self._read.offset += len(line)
                self._take(_record(line), len(line))
            if whole and not self._read.headed and not self._steps:
                raise StoreError(f"{self.path} holds no steps of Hermes; move it away. It was left as it is.")
        except StoreError:
            self._forget()
            raise

    def _take(self, record: dict[str, Any] | None, size: int) -> None:
        read = self._read
        if record is not None and "line" in record:
            read.headed = True
            read.floor = read.last = _floor(record, self.session)
        elif record is not None:
            self._take_step(record, size)
        elif read.lines == 1:
            self._flaws.append(StepLogFlaw(1, "The head of the line is damaged."))
        else:
            # Every line but the head has a number, even if it cannot be read.
            read.last += 1
            self._flaws.append(StepLogFlaw(read.lines, f"The record of step {read.last} is damaged."))

    def _take_step(self, record: dict[str, Any], size: int) -> None:
        number = record["number"]
        if not self._read.headed and not self._steps:
            self._read.floor = number - 1
        self._read.last = number
        try:
            self._remember(step_of(record, self._changes(record)), record, size)
        except (StoreError, ValueError, RecursionError) as error:
            sentence = f"Step {number} cannot be used: {str(error).rstrip('.')}."
            self._flaws.append(StepLogFlaw(self._read.lines, sentence))

    def _changes(self, record: dict[str, Any]) -> tuple[PathChange, ...]:
        records = record.get("changes")
        if records is None:
            records = _items(self._objects.read(str(record.get("changes_in", ""))).decode())
        elif not isinstance(records, list):
            raise ValueError("its changes are not a list")
        return tuple(change_of(each) for each in records)

    def _records_above(self, descriptor: int, floor: int) -> list[bytes]:
        """Return the lines of the steps above `floor`. A damaged line counts as the next number."""
        kept: list[bytes] = []
        number = self._read.floor
        data = _pread(descriptor, 0, self._read.offset)
        for place, line in enumerate(data.splitlines(keepends=True)):
            record = _record(line)
            if place == 0 and (record is None or "line" in record):
                continue
            number = record["number"] if record is not None else number + 1
            if number > floor:
                kept.append(line)
        return kept

    def _replace(self, data: bytes) -> None:
        try:
            write_atomically(self.path, data, PRIVATE_FILE, replace_any=True, prefix=TEMPORARY)
        except OSError as error:
            raise store_error(error, self.path.parent, "written") from error

    @contextmanager
    def _locked(self, *, create: bool = True) -> Iterator[int]:
        """Open and lock the current log file inside this block. Raises `StoreError`."""
        while True:
            descriptor = self._open(create)
            try:
                try:
                    lock(descriptor, self.path, exclusive=True)
                    current = is_open_at(descriptor, self.path)
                except OSError as error:
                    raise store_error(error, self.path.parent, "written") from error
                if current:
                    yield descriptor
                    return
            finally:
                os.close(descriptor)

    def _open(self, create: bool) -> int:
        try:
            return os.open(self.path, _OPEN | (os.O_CREAT if create else 0), PRIVATE_FILE)
        except FileNotFoundError as error:
            if not create:
                raise MissingLineError(f"There are no checkpoints of session {self.session}.") from None
            if self.path.parent.is_dir():
                raise store_error(error, self.path.parent, "written") from error
        except OSError as error:
            raise store_error(error, self.path.parent, "written") from error
        try:
            private_folder(self.path.parent)
        except ConfigError as error:
            raise StoreError(str(error)) from error
        return self._open(create)


def _items(text: str) -> Iterator[Any]:
    """Yield the items of a JSON list that `append` wrote, one by one. Raises `ValueError`."""
    decode = json.JSONDecoder().raw_decode
    if text == "[]":
        return
    before, place = "[", 0
    while text[place : place + 1] == before:
        item, place = decode(text, place + 1)
        yield item
        before = ","
    if text[place:] != "]":
        raise ValueError("its changes are not a list")


def _needs(step: Step, spilled: str, size: int) -> Needs:
    entries = (entry for change in step.changes for entry in (change.before, change.after))
    digests = {entry.digest for entry in entries if entry is not None and entry.digest}
    return Needs(step.number, step.created, frozenset(digests | {spilled} if spilled else digests), size)


class MissingLineError(StoreError):
    """Raised if a session has no recorded steps, or all were deleted."""


def _head(session: str, floor: int) -> bytes:
    return _line({"line": FORMAT, "session": session, "floor": floor})


def _floor(record: dict[str, Any], session: str) -> int:
    if record["line"] != FORMAT or type(record.get("floor")) is not int:
        raise StoreError(
            f"The checkpoints of session {session} are of format {record['line']!r}, which this "
            "Hermes does not know; update Hermes. They were left as they are."
        )
    return record["floor"]


def _line(record: dict[str, Any]) -> bytes:
    payload = json.dumps(record, separators=(",", ":")).encode()
    return b"%08x %s %s\n" % (len(payload), sha256(payload).hexdigest()[:16].encode(), payload)


def _record(line: bytes) -> dict[str, Any] | None:
    """Parse a line as a head or a numbered step; None if it is damaged."""
    payload = line[26:-1]
    if line[:26] != b"%08x %s " % (len(payload), sha256(payload).hexdigest()[:16].encode()):
        return None
    try:
        record = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    number = record.get("number")
    return record if "line" in record or (type(number) is int and number > 0) else None


def _pread(descriptor: int, start: int, end: int) -> bytes:
    parts: list[bytes] = []
    while start < end and (part := os.pread(descriptor, min(end - start, 1 << 24), start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)

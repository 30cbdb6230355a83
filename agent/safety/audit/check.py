"""Verification that no line of an audit log was changed, removed, inserted or moved."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from agent.safety.audit.log import (
    MENDED,
    START,
    AuditError,
    ChainMark,
    canonical,
    digest,
    files,
    locked,
    number,
    parse_record,
    read_head,
)
from tools.text.words import plural

MOST_PROBLEMS = 200
"""The number of problems after which the check stops."""
LONGEST_LINE = 64_000_000
"""The limit in bytes on one line that is read, larger than any entry."""


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A sentence about a problem or note. `line` counts from 1; 0 means the whole file or log."""

    file: str
    line: int
    sentence: str


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The result of checking an audit log: the numbers of lines and files, and the findings."""

    records: int
    files: int
    problems: tuple[AuditFinding, ...]
    """Findings that neither a crash nor a full disk can explain."""
    notes: tuple[AuditFinding, ...]
    """Harmless findings: lines left incomplete by a crash."""

    @property
    def sound(self) -> bool:
        return not self.problems


def verify(folder: Path) -> AuditReport:
    """Check every line of the log in `folder`. Blocking. Raises `AuditError` if it cannot be read."""
    try:
        if not folder.is_dir():
            return AuditReport(0, 0, (), ())
        with locked(folder, shared=True):
            sizes = [(path, path.lstat().st_size) for path in files(folder)]
            head = read_head(folder)
        check = _Check(head)
        for path, size in sizes:
            check.file(path, size)
        check.end((folder / "head").exists())
    except OSError as error:
        raise AuditError(
            f"The audit log in {folder} cannot be read: {error.strerror or error}; check its permissions."
        ) from error
    return AuditReport(check.records, len(sizes), tuple(check.problems), tuple(check.notes))


class _Check:
    """A check of the chain of hashes. After an error it continues from the data of the faulty line."""

    def __init__(self, head: ChainMark | None) -> None:
        self._head = head
        self.records = 0
        self.problems: list[AuditFinding] = []
        self.notes: list[AuditFinding] = []
        self._last: ChainMark | None = None
        self._number = 0
        self._torn: bytes | None = None
        """A line that is not an entry, until the next line shows that a crash left it incomplete."""
        self._at = ("", 0)

    def file(self, path: Path, size: int) -> None:
        """Check the next file of the log, up to `size` bytes."""
        place = number(path)
        self._at = (path.name, 0)
        if place != self._number + 1:
            self._wrong(f"a file is missing before it: {place - self._number - 1} of them")
        self._number = place
        self._torn_unexplained()
        for count, (line, whole) in enumerate(_lines(path, size), 1):
            if len(self.problems) >= MOST_PROBLEMS:
                return
            self._at = (path.name, count)
            if whole:
                self._line(line)
            elif line:
                self._note(f"a crash tore the last line ({len(line):,} bytes); the next ruling will say so")

    def end(self, has_head: bool) -> None:
        """Report problems that show only at the end of the log. `has_head` is true if `head` exists."""
        self._torn_unexplained()
        head, last = self._head, self._last or ChainMark()
        self._at = ("head", 0)
        if head is None and (has_head or last.seq):
            state = "cannot be read" if has_head else "is missing"
            self._wrong(f"it {state}, so lines cut off at the end would not be missed")
        elif head is not None and head.seq > last.seq:
            once = plural(head.seq, "line")
            self._wrong(f"the log once had {once} and ends at {last.seq:,}: lines were cut off")

    def _line(self, line: bytes) -> None:
        record = parse_record(line)
        if record is None:
            self._torn_unexplained()
            self._torn = line
            return
        self.records += 1
        if self._torn is not None:
            said = record.get("kind") == MENDED and record.get("sha256") == sha256(self._torn).hexdigest()
            if said and record.get("torn") == len(self._torn):
                self._note(f"a crash tore the line before ({len(self._torn):,} bytes)")
                self._torn = None
            else:
                self._torn_unexplained()
        if canonical(record) != line or digest(record) != record["hash"]:
            self._wrong("it was changed: its hash does not fit")
        self._link(record["seq"], record["previous"])
        self._last = ChainMark(record["seq"], record["hash"])
        if self._head is not None and self._head.seq == self._last.seq and self._head != self._last:
            self._wrong("it is not the line that was written in this place")

    def _link(self, seq: int, previous: str) -> None:
        """Report a problem if a line does not follow the previous one."""
        last = self._last or ChainMark()
        if seq == last.seq + 1 and previous == last.hash:
            return
        if seq > last.seq + 1:
            self._wrong(f"before it, {plural(seq - last.seq - 1, 'line')} went missing")
        elif seq <= last.seq:
            self._wrong(f"it stands in the wrong place: number {seq:,} after {last.seq:,}")
        elif previous == START:
            self._wrong("it says that it is the first line, and is not")
        else:
            self._wrong("the line before it is not the one it was written after")

    def _torn_unexplained(self) -> None:
        if self._torn is not None:
            self._torn = None
            file, line = self._at
            self.problems.append(
                AuditFinding(file, max(line - 1, 0), "a line is not a ruling and nothing explains it")
            )

    def _wrong(self, sentence: str) -> None:
        self.problems.append(AuditFinding(*self._at, sentence))

    def _note(self, sentence: str) -> None:
        self.notes.append(AuditFinding(*self._at, sentence))


def _lines(path: Path, size: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines in the first `size` bytes without line breaks, and whether each had one."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        left = size
        while left > 0 and (line := file.readline(min(left, LONGEST_LINE))):
            left -= len(line)
            yield line.removesuffix(b"\n"), line.endswith(b"\n")

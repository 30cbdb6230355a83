"""Reading a file in pieces, and recording what a task has seen of it."""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools.context import FileMemory, SeenFile
from tools.files.text_files import SAMPLE_BYTES, binary_kind, decode_line, mark_of
from tools.kit.files import MAX_WHOLE_BYTES, open_file
from tools.kit.lazy_pattern import lazy_pattern
from tools.kit.threads import Stopped
from tools.text.words import plural


def digest_of(data: bytes, status: os.stat_result) -> str:
    """Return the digest of a file: SHA-256 of its bytes, or `stat_digest` for a large file."""
    return hashlib.sha256(data).hexdigest() if len(data) <= MAX_WHOLE_BYTES else stat_digest(status)


def stat_digest(status: os.stat_result) -> str:
    """Return a substitute for the digest of a file too large to be hashed each time, made of its status."""
    return f"stat:{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def warning_before_change(files: FileMemory, path: Path, digest: str, name: str) -> str | None:
    """Return a warning if `path`, with content `digest`, differs from what the agent last saw; else None."""
    seen = files.seen_file(path)
    if seen is None or seen.digest == digest:
        return None
    return f"{name} had changed on disk since you last saw it; check that nothing of that change is lost."


def remember_written(files: FileMemory, path: Path, data: bytes, status: os.stat_result) -> None:
    """Record that the agent knows the whole file, although no region of it was shown."""
    files.remember(path, SeenFile(digest_of(data, status)))


CHUNK_BYTES = 1 << 20
MAX_COUNTED_BYTES = 2 << 30
"""Bytes read for counting lines after the window is complete."""
MAX_LINE_CHARS = 2_000
_MAX_LINE_BYTES = 4 * MAX_LINE_CHARS + 4


@dataclass(frozen=True, slots=True)
class BinaryFile:
    """A file that is not text. `kind` names its type."""

    kind: str


@dataclass(slots=True)
class Window:
    """Lines of a file from `offset` (from 1), and facts about the file that were found while reading."""

    lines: list[str]
    total_lines: int | None
    """The number of lines in the file; None if it is too large to be counted."""
    size: int
    """The size of the file in bytes."""
    digest: str
    encoding: str
    crlf: bool
    """Whether the lines shown end in CR LF."""


@dataclass(slots=True)
class _Scan:
    """The state while a file is read: complete lines are counted, and the requested ones collected."""

    offset: int
    limit: int
    lines: list[str] = field(default_factory=list)
    complete: int = 0
    held: bytearray = field(default_factory=bytearray)
    """The start of the line that is not complete yet."""
    held_bytes: int = 0
    crlf: int = 0
    encoding: str = "utf-8"

    @property
    def wants(self) -> bool:
        return len(self.lines) < self.limit

    def feed(self, chunk: bytes) -> None:
        """Process the next piece of the file, as an 8-bit text."""
        start = 0
        if self.complete + 1 < self.offset or not self.wants:
            start = self._skip(chunk)
        while start < len(chunk) and self.wants:
            stop = chunk.find(b"\n", start)
            self._hold(chunk[start : stop if stop >= 0 else len(chunk)])
            if stop < 0:
                return
            self._end_line()
            start = stop + 1
        if start < len(chunk):
            self._skip(chunk[start:])

    def finish(self) -> int:
        """Return the number of lines in the text."""
        if not self.held_bytes:
            return self.complete
        if self.wants and self.complete + 1 >= self.offset:
            self._end_line()
            return self.complete
        return self.complete + 1

    def _skip(self, chunk: bytes) -> int:
        """Count the lines outside the window without keeping them; return where it begins in `chunk`."""
        missing = max(self.offset - 1 - self.complete, 0) if self.wants else len(chunk) + 1
        newlines = chunk.count(b"\n")
        if newlines < missing:
            self.complete += newlines
            last = chunk.rfind(b"\n")
            self.held_bytes = len(chunk) - last - 1 + (self.held_bytes if last < 0 else 0)
            return len(chunk)
        start = 0
        for _ in range(missing):
            start = chunk.index(b"\n", start) + 1
        self.complete += missing
        self.held_bytes = 0
        return start

    def _hold(self, piece: bytes) -> None:
        self.held_bytes += len(piece)
        room = _MAX_LINE_BYTES - len(self.held)
        self.held += piece[: max(room, 0)]

    def _end_line(self) -> None:
        line = bytes(self.held)
        cut = self.held_bytes - len(line)
        if not cut and line.endswith(b"\r"):
            line = line[:-1]
            self.crlf += 1
        self.lines.append(_shown_line(line, cut))
        if not cut and not _is_utf8(line):
            self.encoding = "cp1252 (a guess, as it is not UTF-8)"
        self.held.clear()
        self.held_bytes = 0
        self.complete += 1


def scan(path: Path, offset: int, limit: int, stop: threading.Event) -> Window | BinaryFile:
    """Return `limit` lines from line `offset`, or a binary file's type. Raises `OSError` and `Stopped`."""
    with os.fdopen(open_file(path), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        first = file.read(CHUNK_BYTES) or b""
        kind = binary_kind(path.name, first[:SAMPLE_BYTES])
        if kind is not None:
            return BinaryFile(kind)
        mark = mark_of(first)
        state = _Scan(offset, limit)
        sha = hashlib.sha256() if status.st_size <= MAX_WHOLE_BYTES else None
        read = 0
        counted = True
        chunks = _chunks(lambda: file.read(CHUNK_BYTES) or b"", first, sha.update if sha else None)
        for piece in _as_8_bit(chunks, mark):
            if stop.is_set():
                raise Stopped
            state.feed(piece)
            read += len(piece)
            if not state.wants and read > MAX_COUNTED_BYTES:
                counted = False
                break
        total = state.finish() if counted else None
        return Window(
            lines=state.lines,
            total_lines=total,
            size=status.st_size,
            digest=sha.hexdigest() if sha is not None else stat_digest(status),
            encoding=mark[1] if mark else state.encoding,
            crlf=state.crlf > 0,
        )


def _chunks(
    read: Callable[[], bytes], first: bytes, observe: Callable[[bytes], object] | None
) -> Iterator[bytes]:
    chunk = first
    while chunk:
        if observe is not None:
            observe(chunk)
        yield chunk
        chunk = read()


def _as_8_bit(chunks: Iterator[bytes], mark: tuple[bytes, str] | None) -> Iterator[bytes]:
    """Yield the text in an encoding in which a newline is one byte. Wide encodings become UTF-8."""
    if mark is None:
        yield from chunks
        return
    skipped, encoding = mark
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for index, chunk in enumerate(chunks):
        body = chunk[len(skipped) :] if index == 0 else chunk
        yield decoder.decode(body).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown_line(line: bytes, cut: int) -> str:
    """Return a line as text; a long one is cut, with a note of the missing length."""
    text = decode_line(line) if not cut else line.decode("utf-8", "replace")
    if len(text) <= MAX_LINE_CHARS and not cut:
        return text
    missing = len(text) - MAX_LINE_CHARS + cut
    return f"{text[:MAX_LINE_CHARS]} … [{plural(missing, 'more byte' if cut else 'more character')}]"


CUT_LINE = lazy_pattern(r" … \[\d[\d,]* more (?:byte|character)s?\]$", re.MULTILINE)
"""The end of a line that is shown in part."""

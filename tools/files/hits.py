"""The part of a search's result that is shown."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tools.files.paths import printable
from tools.files.text_files import decode_line

MAX_HITS = 50_000
"""Hits after which a search ends."""
MAX_SHOWN_CHARS = 60_000
"""Characters of lines in one result."""
MAX_LINE_CHARS = 400
_MAX_CONTEXT_CHARS = 200
_LEAD_CHARS = 100
"""Characters kept before a match when its line is shortened."""


@dataclass(slots=True)
class FileHit:
    """One matching line (or, for a pattern over lines, several) and the lines around it."""

    path: str
    line: int
    content: str
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"path": self.path, "line": self.line, "content": self.content}
        if self.before:
            data["before"] = self.before
        if self.after:
            data["after"] = self.after
        return data


@dataclass(slots=True)
class _File:
    """What one file contributes; it counts only once the file turned out to be text."""

    path: str
    hits: list[FileHit] = field(default_factory=list)
    count: int = 0
    chars: int = 0
    waiting: list[tuple[int, str]] = field(default_factory=list)
    """Context lines that may belong before the next hit."""


@dataclass
class FileHits:
    """Counts all hits and keeps those from number `offset` (from 0) on, `limit` at most."""

    offset: int
    limit: int
    context: int
    prefix: str = ""
    """What stands before the paths of the search to make them paths as shown."""
    accepts: Callable[[str], bool] = lambda path: True
    """Whether hits in a path (relative to the searched folder) may be shown."""
    fits: Callable[[str], bool] = lambda path: True
    """Whether a path is one that was asked for."""

    total: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    shown: list[FileHit] = field(default_factory=list)
    omitted: int = 0
    """Hits in files whose content is not shown."""
    full: bool = False
    """Whether `MAX_SHOWN_CHARS` ended the part that is shown."""
    _chars: int = 0
    _file: _File | None = None

    def take_all(self, records: Iterable[bytes]) -> bool:
        """Take records until there are too many hits; returns whether they were all taken."""
        for record in records:
            try:
                parsed = json.loads(record)
            except ValueError:
                continue
            self._take(parsed["type"], parsed["data"])
            if self.total >= MAX_HITS:
                return False
        if self._file is not None:
            # The search was stopped within a file.
            self._take("end", {})
        return True

    def _take(self, kind: str, data: dict[str, Any]) -> None:
        match kind:
            case "begin":
                self._file = _File(_path(data))
            case "match" if self._file is not None:
                self._match(self._file, data)
            case "context" if self._file is not None:
                self._context(self._file, data)
            case "end" if self._file is not None:
                if data.get("binary_offset") is None and self._file.count and self.fits(self._file.path):
                    self._settle(self._file)
                self._file = None

    def _match(self, file: _File, data: dict[str, Any]) -> None:
        file.count += 1
        number = self.total + file.count
        if not self.offset < number <= self.offset + self.limit:
            file.waiting.clear()
            return
        raw = _bytes(data["lines"]).removesuffix(b"\n").removesuffix(b"\r")
        submatches = data.get("submatches") or [{"start": 0}]
        line = int(data["line_number"])
        before = [text for number, text in file.waiting if number >= line - self.context]
        file.waiting.clear()
        file.hits.append(FileHit(file.path, line, _shortened(raw, int(submatches[0]["start"])), before))

    def _context(self, file: _File, data: dict[str, Any]) -> None:
        number = int(data["line_number"])
        text = decode_line(_bytes(data["lines"]).rstrip(b"\r\n"))
        if len(text) > _MAX_CONTEXT_CHARS:
            text = text[:_MAX_CONTEXT_CHARS] + "…"
        last = file.hits[-1] if file.hits and self.total + file.count <= self.offset + self.limit else None
        if last is not None and number <= last.line + last.content.count("\n") + self.context:
            last.after.append(text)
        else:
            file.waiting.append((number, text))
            del file.waiting[: -self.context]

    def _settle(self, file: _File) -> None:
        if not self.accepts(file.path):
            self.omitted += file.count
            return
        path = self.prefix + printable(file.path)
        self.counts[path] = file.count
        self.total += file.count
        for hit in file.hits:
            self._chars += len(hit.content) + sum(map(len, hit.before)) + sum(map(len, hit.after))
            if self._chars > MAX_SHOWN_CHARS and self.shown:
                self.full = True
            if self.full:
                return
            hit.path = path
            self.shown.append(hit)


def _path(data: dict[str, Any]) -> str:
    return os.fsdecode(_bytes(data["path"])).removeprefix("./")


def _bytes(value: dict[str, str]) -> bytes:
    """A text of the records: as it is, or in base64 where it is no UTF-8."""
    if "text" in value:
        return value["text"].encode("utf-8", "surrogatepass")
    return base64.b64decode(value["bytes"])


def _shortened(line: bytes, start: int) -> str:
    """The line as text, cut to the surroundings of the match at byte `start` when it is long."""
    text = decode_line(line)
    if len(text) <= MAX_LINE_CHARS:
        return text
    first = max(len(decode_line(line[:start])) - _LEAD_CHARS, 0)
    first = min(first, len(text) - MAX_LINE_CHARS)
    cut = text[first : first + MAX_LINE_CHARS]
    return ("…" if first else "") + cut + ("…" if first + MAX_LINE_CHARS < len(text) else "")

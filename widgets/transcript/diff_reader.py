"""A unified diff read into files, hunks and numbered lines. Nothing of it is lost: the rest are notes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)$")
_FILE = re.compile(r'diff --git "?a/(.*?)"? "?b/(.*?)"?$')
_TOLD = re.compile(
    r"index [0-9a-f]+\.\.|(?:dis)?similarity index |(?:rename|copy) (?:from|to) "
    r"|(?:new|deleted) file mode 100644"
)
"""Lines that say nothing the title does not."""
_NOWHERE = "/dev/null"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a hunk. `sign` is a blank, `+` or `-`, or a backslash for a remark of the diff itself.

    `number` counts in the old file for removed lines, else in the new one; 0 is unknown.
    """

    sign: str
    text: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class DiffHunk:
    """Changed lines and those around them. `section` is what the diff says about the place."""

    section: str
    lines: list[DiffLine] = field(default_factory=list)


@dataclass(slots=True)
class DiffFile:
    """What happened to one file. Text among `parts` is what the diff says outside of its hunks."""

    old: str = ""
    new: str = ""
    parts: list[DiffHunk | str] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The name the file has now, or had."""
        return self.old if self.new in ("", _NOWHERE) else self.new

    @property
    def title(self) -> str:
        """The name of the file and what happened to it as a whole."""
        if self.old == _NOWHERE:
            return f"{self.path} · new file"
        if self.new == _NOWHERE:
            return f"{self.path} · deleted"
        if self.old and self.old != self.new:
            return f"{self.old} → {self.new}"
        return self.path


def read_diff(diff: str) -> list[DiffFile]:
    """The files of a unified diff, in order."""
    reader = _Reader()
    lines = diff.removesuffix("\n").split("\n")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        reader.read(line, following)
    return reader.files


class _Reader:
    """Reads a diff line by line. What a hunk announced decides what its lines mean."""

    def __init__(self) -> None:
        self.files: list[DiffFile] = []
        self._hunk: DiffHunk | None = None
        self._old = self._new = 0  # numbers of the next lines
        self._old_left = self._new_left = 0.0  # lines still announced

    def read(self, line: str, following: str) -> None:
        if self._hunk and self._takes(line):
            return
        if line.startswith("\\") and self._hunk:
            self._hunk.lines.append(DiffLine("\\", line[1:].strip()))
        elif found := _HUNK.match(line):
            old, old_count, new, new_count, section = found.groups()
            self._old, self._new = int(old), int(new)
            self._old_left, self._new_left = float(old_count or 1), float(new_count or 1)
            self._open(section)
        elif line.startswith("@@"):
            self._start_unnumbered(line.strip("@ "))
        elif found := _FILE.match(line):
            self._next_file(DiffFile(found[1], found[2]))
        elif line.startswith("--- ") and following.startswith("+++ "):
            self._name(_path(line), _path(following))
        elif line.startswith("+++ ") and self.files and self._file().new == _path(line):
            pass
        elif line[:1] in ("+", "-"):
            self._start_unnumbered("")
            self._takes(line)
        elif line.strip() and not _TOLD.match(line):
            self._hunk = None
            self._file().parts.append(line)

    def _takes(self, line: str) -> bool:
        """Whether the line belongs to the open hunk."""
        sign, text = line[:1] or " ", line[1:]
        if self._hunk is None or (self._old_left <= 0 and self._new_left <= 0):
            return False
        if sign == "+" and self._new_left > 0:
            self._add(DiffLine("+", text, self._new), new=1)
        elif sign == "-" and self._old_left > 0:
            self._add(DiffLine("-", text, self._old), old=1)
        elif sign == " " and (line or self._old):
            self._add(DiffLine(" ", text, self._new), old=1, new=1)
        else:
            return False
        return True

    def _add(self, line: DiffLine, old: int = 0, new: int = 0) -> None:
        if self._hunk:
            self._hunk.lines.append(line)
        self._old_left -= old
        self._new_left -= new
        self._old += old if self._old else 0
        self._new += new if self._new else 0

    def _start_unnumbered(self, section: str) -> None:
        self._old = self._new = 0
        self._old_left = self._new_left = float("inf")
        self._open(section)

    def _open(self, section: str) -> None:
        file = self._file()
        self._hunk = DiffHunk(section)
        file.parts.append(self._hunk)

    def _file(self) -> DiffFile:
        if not self.files:
            self._next_file(DiffFile())
        return self.files[-1]

    def _next_file(self, file: DiffFile) -> None:
        self._hunk = None
        self.files.append(file)

    def _name(self, old: str, new: str) -> None:
        if not self.files or any(isinstance(part, DiffHunk) for part in self.files[-1].parts):
            self._next_file(DiffFile())
        self._hunk = None
        self.files[-1].old, self.files[-1].new = old, new


def _path(line: str) -> str:
    """The path in a line such as `--- a/src/money.py`, without a date behind it."""
    path = line[4:].split("\t")[0].strip().strip('"')
    return path[2:] if path[:2] in ("a/", "b/") else path

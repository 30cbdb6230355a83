"""Reading unified diffs as models write them: the lines count, their numbers are only a help."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from tools.files.diff_headers import GitHeader, Name, backed_up, plain_pair, read_git_header, read_name
from tools.files.operations import (
    AddFile,
    DeleteFile,
    Kind,
    Operation,
    PatchError,
    PatchHunk,
    PatchLine,
    UpdateFile,
    content_of,
)

HUNK_HEADER = re.compile(
    r"@@+ -(?P<old>\d{1,9})(?:,(?P<old_count>\d{1,9}))?"
    r" \+(?P<new>\d{1,9})(?:,(?P<new_count>\d{1,9}))? @@+(?P<hint>.*)$"
)
_NO_NEWLINE = "\\ "
_BINARY = re.compile(r"(?:Binary files|Files) .+ and .+ differ$")
_VERSION = re.compile(r"\d+\.\d+")
"""What mail of git puts below a patch, after `-- `."""
_NO_LINES = ("@@", "diff ", "Index: ", "index ", "```", "~~~", "*** ", "Binary files ", "Only in ")
"""What stands between hunks and belongs to none."""


def looks_unified(lines: Sequence[str]) -> bool:
    """Whether the lines hold the two headers of a unified diff, or git's header of a file."""
    reader = _Reader(lines)
    return any(
        reader.headers_at(index) or lines[index].startswith("diff --git ") for index in range(len(lines))
    )


def parse_unified(lines: Sequence[str]) -> tuple[Operation, ...]:
    """The operations of a unified diff, in order. Raises `PatchError`."""
    return _Reader(lines).run()


class _Reader:
    """Walks over the lines of a diff; `_index` is the next line to read."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._index = 0
        self._hunks = 0

    def run(self) -> tuple[Operation, ...]:
        operations: list[Operation] = []
        while self._index < len(self._lines):
            if self._at().startswith("diff --git "):
                operations.extend(self._git_section())
            elif self.headers_at(self._index):
                operations.append(self._file_section())
            elif self._at().startswith("@@"):
                raise PatchError(
                    f"PatchLine {self._index + 1} of the patch: a hunk of no file; "
                    "put --- and +++ lines before it."
                )
            elif _BINARY.match(self._at()):
                raise PatchError("The diff changes a binary file; only text files can be patched.")
            else:
                self._index += 1
        if not operations:
            raise PatchError("The diff changes nothing; add hunks with + or - lines.")
        return tuple(operations)

    def headers_at(self, index: int) -> bool:
        """Whether the `---` and `+++` lines of a file stand here."""
        return (
            index + 1 < len(self._lines)
            and self._lines[index].startswith("--- ")
            and self._lines[index + 1].startswith("+++ ")
        )

    def _at(self) -> str:
        return self._lines[self._index] if self._index < len(self._lines) else ""

    def _git_section(self) -> list[Operation]:
        """What follows `diff --git`: extended headers, then perhaps a file section."""
        first = self._at().removeprefix("diff --git ").rstrip()
        self._index += 1
        start = self._index
        while self._index < len(self._lines) and not self._at().startswith(("diff --git ", "@@")):
            if self.headers_at(self._index):
                header = read_git_header(first, self._lines[start : self._index])
                return [self._file_section(header)]
            self._index += 1
        return _without_hunks(read_git_header(first, self._lines[start : self._index]))

    def _file_section(self, git: GitHeader | None = None) -> Operation:
        old, new = (read_name(line[4:]) for line in self._lines[self._index : self._index + 2])
        self._index += 2
        hunks: list[PatchHunk] = []
        while self._at().startswith("@@") or (not hunks and self._at()[:1] in ("+", "-", " ") and self._at()):
            hunks.append(self._hunk(old.text if new.is_nowhere else new.text))
            while self._index < len(self._lines) and not self._at().strip():
                self._index += 1
        if git is not None:
            return _git_operation(git, old, new, tuple(hunks))
        return _operation(old, new, tuple(hunks))

    def _hunk(self, path: str) -> PatchHunk:
        opening = self._at() if self._at().startswith("@@") else ""
        if opening.startswith("@@@ "):
            raise PatchError("The diff is one of a merge (@@@); send one with a single old side.")
        header = HUNK_HEADER.match(opening)
        self._index += bool(opening)
        self._hunks += 1
        stop = (self._counted_stop(header) if header else None) or self._prefixed_stop()
        lines: list[PatchLine] = []
        final_newline: bool | None = None
        for text in self._lines[self._index : stop]:
            if text.startswith(_NO_NEWLINE):
                final_newline = bool(lines) and lines[-1].kind == "-"
            else:
                lines.append(_line(text))
        self._index = stop
        if all(line.kind == " " for line in lines) and final_newline is None:
            raise PatchError(f"Hunk {self._hunks} of {path} changes nothing; mark lines with + or -.")
        hint = (header["hint"] if header else _hint(opening)).strip()
        start = int(header["old"]) if header else None
        return PatchHunk(
            self._hunks, tuple(lines), (hint,) if hint else (), old_start=start, final_newline=final_newline
        )

    def _counted_stop(self, header: re.Match[str]) -> int | None:
        """Where the hunk ends by its counts; None when they do not agree with the lines."""
        old_left = int(header["old_count"] or 1)
        new_left = int(header["new_count"] or 1)
        index = self._index
        while index < len(self._lines) and (old_left > 0 or new_left > 0):
            kind = self._lines[index][:1] or " "
            if kind not in " +-\\":
                return None
            old_left -= kind in " -"
            new_left -= kind in " +"
            index += 1
        if index < len(self._lines) and self._lines[index].startswith(_NO_NEWLINE):
            index += 1
        more = index < len(self._lines) and self._lines[index][:1] in (" ", "+", "-")
        if old_left or new_left or (more and not self._ends_at(index)):
            return None
        return index

    def _ends_at(self, index: int) -> bool:
        """Whether the hunk before line `index` is over although the line could belong to one."""
        if self.headers_at(index):
            return True
        behind = self._lines[index + 1] if index + 1 < len(self._lines) else ""
        return self._lines[index] == "-- " and _VERSION.match(behind) is not None

    def _prefixed_stop(self) -> int:
        """Where the hunk ends by what its lines begin with. Blank lines at the end are only space."""
        index = self._index
        while index < len(self._lines) and not self._ends_at(index):
            if self._lines[index][:1] not in ("", " ", "+", "-", "\\"):
                behind = self._behind_unmarked(index)
                if behind is None:
                    break
                index = behind
            index += 1
        while index > self._index and not self._lines[index - 1]:
            index -= 1
        return index

    def _behind_unmarked(self, index: int) -> int | None:
        """The changed line behind lines whose leading space was forgotten; None if they are something else.

        What is taken for lines of the file has to be found in it all the same.
        """
        while index < len(self._lines) and not self._ends_at(index):
            line = self._lines[index]
            if line[:1] in ("+", "-"):
                return index
            if not line or line.startswith(_NO_LINES):
                return None
            index += 1
        return None


def _hint(opening: str) -> str:
    """The line that `@@ def name @@` names; nothing where the text is only dots and numbers."""
    text = opening.strip("@ ")
    return text if re.search(r"[^\W\d]", text) else ""


def _line(text: str) -> PatchLine:
    """A line of a hunk; one without a mark is a kept line whose space was forgotten."""
    is_marked = text[:1] in (" ", "+", "-")
    return PatchLine(cast("Kind", text[0]), text[1:]) if is_marked else PatchLine(" ", text)


def _git_operation(git: GitHeader, old: Name, new: Name, hunks: tuple[PatchHunk, ...]) -> Operation:
    """What a section of git does; its own headers decide on names and on whether the file is new."""
    names = git.renames
    if names is None:
        git.check(old)
        git.check(new)
        names = (git.name, git.name) if git.name else plain_pair(old, new)
    if old.is_nowhere or git.creates:
        return AddFile(names[1], content_of(hunks), git.executable)
    if new.is_nowhere or git.deletes:
        return DeleteFile(names[0], hunks)
    move_to = names[1] if names[0] != names[1] else None
    return UpdateFile(names[0], hunks, move_to, executable=git.executable)


def _operation(old: Name, new: Name, hunks: tuple[PatchHunk, ...]) -> Operation:
    """What a section with nothing but `---` and `+++` lines does."""
    path, target = plain_pair(old, new)
    if old.is_nowhere or (old.is_epoch and not any(hunk.old for hunk in hunks)):
        return AddFile(target, content_of(hunks))
    if new.is_nowhere or (new.is_epoch and not any(hunk.new for hunk in hunks)):
        return DeleteFile(path, hunks)
    if meant := backed_up(path, target):
        path = target = meant
    if not hunks and path == target:
        raise PatchError(f"The diff for {path} has no hunks; add some with + or - lines.")
    if path == target:
        return UpdateFile(path, hunks)
    rests = [name.partition("/")[2] for name in (path, target)]
    same_rest = (rests[0],) if rests[0] and rests[0] == rests[1] else ()
    return UpdateFile(path, hunks, target, other_names=(target, *same_rest))


def _without_hunks(git: GitHeader) -> list[Operation]:
    """The operation of a git section that has only extended headers."""
    if git.renames:
        return [UpdateFile(git.renames[0], (), git.renames[1], executable=git.executable)]
    if git.name is None:
        return []
    if git.creates:
        return [AddFile(git.name, "", git.executable)]
    if git.deletes:
        return [DeleteFile(git.name)]
    return [] if git.executable is None else [UpdateFile(git.name, (), executable=git.executable)]

"""Reading unified diffs as models write them: the lines count, their numbers are only a help."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from tools.files.operations import AddFile, DeleteFile, Hunk, Kind, Line, Operation, PatchError, UpdateFile

HUNK_HEADER = re.compile(
    r"@@+ -(?P<old>\d{1,9})(?:,(?P<old_count>\d{1,9}))?"
    r" \+(?P<new>\d{1,9})(?:,(?P<new_count>\d{1,9}))? @@+(?P<hint>.*)$"
)
_GIT_NAMES = re.compile(r"diff --git (?P<old>\"?a/.*?) (?P<new>\"?b/.*)$")
_NOWHERE = "/dev/null"
_NO_NEWLINE = "\\ "


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
                    f"Line {self._index + 1} of the patch: a hunk of no file; "
                    "put --- and +++ lines before it."
                )
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
        names = _GIT_NAMES.match(self._at())
        self._index += 1
        extended: list[str] = []
        while self._index < len(self._lines) and not self._at().startswith(("diff --git ", "@@")):
            if self.headers_at(self._index):
                return [self._file_section()]
            extended.append(self._at())
            self._index += 1
        return _git_without_hunks(names, extended)

    def _file_section(self) -> Operation:
        old, new = _paths(self._lines[self._index][4:], self._lines[self._index + 1][4:])
        self._index += 2
        hunks: list[Hunk] = []
        while self._at().startswith("@@"):
            hunks.append(self._hunk(new if old == _NOWHERE else old))
            while self._index < len(self._lines) and not self._at().strip():
                self._index += 1
        if old == new:
            if not hunks:
                raise PatchError(f"The diff for {old} has no hunks; add some with + or - lines.")
            return UpdateFile(old, tuple(hunks))
        if old == _NOWHERE:
            return AddFile(new, _content(hunks))
        return DeleteFile(old) if new == _NOWHERE else UpdateFile(old, tuple(hunks), new)

    def _hunk(self, path: str) -> Hunk:
        header = HUNK_HEADER.match(self._at())
        self._index += 1
        self._hunks += 1
        stop = (self._counted_stop(header) if header else None) or self._prefixed_stop()
        lines: list[Line] = []
        final_newline: bool | None = None
        for text in self._lines[self._index : stop]:
            if text.startswith(_NO_NEWLINE):
                final_newline = bool(lines) and lines[-1].kind == "-"
            else:
                lines.append(Line(cast("Kind", text[:1] or " "), text[1:]))
        self._index = stop
        if all(line.kind == " " for line in lines) and final_newline is None:
            raise PatchError(f"Hunk {self._hunks} of {path} changes nothing; mark lines with + or -.")
        hint = header["hint"].strip() if header else ""
        start = int(header["old"]) if header else None
        return Hunk(
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
        if old_left or new_left or (more and not self.headers_at(index)):
            return None
        return index

    def _prefixed_stop(self) -> int:
        """Where the hunk ends by what its lines begin with. Blank lines at the end are only space."""
        index = self._index
        while index < len(self._lines):
            line = self._lines[index]
            if line[:1] not in ("", " ", "+", "-", "\\") or self.headers_at(index):
                break
            index += 1
        while index > self._index and not self._lines[index - 1]:
            index -= 1
        return index


def _git_without_hunks(names: re.Match[str] | None, extended: Sequence[str]) -> list[Operation]:
    """The operation of a git section that has only extended headers."""
    values: dict[str, str] = {}
    for line in extended:
        for header in ("rename from ", "rename to ", "copy from ", "new file", "deleted file"):
            if line.startswith(header):
                values[header] = _unquoted(line[len(header) :])
        if line.startswith(("GIT binary patch", "Binary files ")):
            raise PatchError("The diff changes a binary file; only text files can be patched.")
    if "copy from " in values:
        raise PatchError("The diff copies a file; add the copy with *** Add File instead.")
    if "rename from " in values and "rename to " in values:
        return [UpdateFile(values["rename from "], (), values["rename to "])]
    if names is None:
        return []
    old, new = _paths(names["old"], names["new"])
    if "new file" in values:
        return [AddFile(new, "")]
    return [DeleteFile(old)] if "deleted file" in values else []


def _content(hunks: Sequence[Hunk]) -> str:
    lines = [line for hunk in hunks for line in hunk.new]
    ends_open = bool(hunks) and hunks[-1].final_newline is False
    return "\n".join(lines) + ("" if ends_open or not lines else "\n")


def _paths(old: str, new: str) -> tuple[str, str]:
    """The names in two headers, without time stamps and without git's `a/` and `b/`."""
    old, new = _unquoted(old.split("\t")[0]), _unquoted(new.split("\t")[0])
    if not old or not new:
        raise PatchError("A --- or +++ line of the diff names no file.")
    prefixed = old.startswith("a/") or old == _NOWHERE, new.startswith("b/") or new == _NOWHERE
    if all(prefixed):
        return old.removeprefix("a/"), new.removeprefix("b/")
    return old, new


def _unquoted(name: str) -> str:
    """A name as git writes it when it holds special characters: in quotes, bytes as octal numbers."""
    name = name.strip()
    if len(name) < 2 or name[0] != '"' or name[-1] != '"':
        return name
    octal = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8) & 255), name[1:-1])
    plain = re.sub(r"\\(.)", lambda match: {"t": "\t", "n": "\n"}.get(match[1], match[1]), octal)
    try:
        return plain.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return plain

"""Reading patches in the V4A notation.

    *** Begin Patch
    *** Update File: src/app.py
    @@ class Account
     kept line
    -removed line
    +added line
    *** End Patch

Models are sloppy about the frame, so the frame lines, the space after `***`,
the `+` of blank added lines and code fences around it all are optional. What
could change a file in a way that was not meant is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.files.matching import unescape
from tools.files.operations import (
    AddFile,
    DeleteFile,
    Operation,
    PatchError,
    PatchHunk,
    PatchLine,
    UpdateFile,
)
from tools.files.unified import HUNK_HEADER, looks_unified, parse_unified

_HEADER = re.compile(r"\*\*\* ?(?P<verb>Update|Add|Delete|Move) File: ?(?P<rest>.*?)\s*$")
_MOVE_TO = re.compile(r"\*\*\* ?Move to: ?(?P<path>.*?)\s*$")
_END_OF_FILE = re.compile(r"\*\*\* ?End of File\s*$")
_BEGIN = re.compile(r"\*\*\* ?Begin Patch\s*$")
_END = re.compile(r"\*\*\* ?End Patch\s*$")
_FENCE = re.compile(r"(```|~~~)[\w+-]*\s*$")
_HEREDOC = re.compile(r"<<-?\s*['\"]?(?P<word>\w+)['\"]?")
_WIDEST_FRAME = 3
"""Lines of a heredoc or fence that may stand before the patch."""


def parse_patch(text: str) -> tuple[Operation, ...]:
    """The operations of a patch in V4A or unified-diff notation, in order. Raises `PatchError`."""
    if "\0" in text:
        raise PatchError("The patch holds a NUL byte; it can only change text files.")
    if "\n" not in text:
        # One line that speaks of line ends was escaped once too often.
        text = unescape(text)
    lines = _unframed(text.replace("\r\n", "\n").split("\n"))
    is_framed = any(_BEGIN.match(line) for line in lines)
    if any(_HEADER.match(line.lstrip() if is_framed else line) for line in lines):
        return _Parser().run(_without_diff_headers(lines))
    bare = [line for line in lines if not (_BEGIN.match(line) or _END.match(line))]
    if looks_unified(bare):
        return parse_unified(bare)
    raise PatchError(
        "The patch holds no operation; start it with *** Begin Patch and *** Update File: path "
        "(or Add File, Delete File, Move File)."
    )


@dataclass
class _Section:
    """One operation while its lines come in."""

    verb: str
    path: str
    number: int
    hunks: list[PatchHunk] = field(default_factory=list)
    lines: list[PatchLine] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    old_start: int | None = None
    at_end: bool = False
    move_to: str | None = None
    added: list[str] = field(default_factory=list)
    blanks: int = 0
    """Blank lines not yet known to be kept lines rather than space between sections."""


class _Parser:
    """Reads line by line; each public step leaves the parser ready for the next line."""

    def __init__(self) -> None:
        self._operations: list[Operation] = []
        self._section: _Section | None = None
        self._hunks = 0

    def run(self, lines: list[str]) -> tuple[Operation, ...]:
        inside = not any(_BEGIN.match(line) for line in lines)
        for number, line in enumerate(lines, 1):
            if _BEGIN.match(line):
                self._finish()
                inside = True
            elif _END.match(line):
                self._finish()
                inside = False
            elif inside or _HEADER.match(line):
                inside = True
                self._read(number, line)
            else:
                self._check_outside(number, line)
        self._finish()
        return tuple(self._operations)

    def _read(self, number: int, line: str) -> None:
        if self._section is None:
            line = line.lstrip()
        header = _HEADER.match(line)
        if header:
            self._finish()
            self._open(number, header["verb"], header["rest"])
        elif self._section is None:
            self._check_outside(number, line, inside=True)
        elif line.startswith("***") and not (_MOVE_TO.match(line) or _END_OF_FILE.match(line)):
            raise PatchError(
                f"PatchLine {number} of the patch: {line.strip()!r} is no known header; "
                "lines of the file itself start with a space, + or -."
            )
        elif self._section.verb == "Update":
            self._read_update(self._section, number, line)
        elif self._section.verb == "Add":
            self._read_add(self._section, number, line)
        elif line.strip() and not _FENCE.match(line):
            raise PatchError(
                f"Line {number} of the patch: a {self._section.verb} File section has no lines of its own."
            )

    def _open(self, number: int, verb: str, rest: str) -> None:
        path = _unquoted(rest)
        move_to = None
        if verb == "Move":
            path, arrow, target = rest.partition(" -> ")
            path, move_to = _unquoted(path), _unquoted(target)
            if not arrow or not move_to:
                raise PatchError(f"Line {number} of the patch: write *** Move File: old -> new.")
        if not path:
            raise PatchError(f"Line {number} of the patch: {verb} File names no path.")
        self._section = _Section(verb, path, number, move_to=move_to)

    def _read_update(self, section: _Section, number: int, line: str) -> None:
        move = _MOVE_TO.match(line)
        if move:
            if section.move_to or not move["path"]:
                raise PatchError(f"Line {number} of the patch: one *** Move to: with a path, please.")
            section.move_to = _unquoted(move["path"])
        elif _END_OF_FILE.match(line):
            section.at_end = True
        elif line.startswith("@@"):
            self._read_hint(section, line)
        elif not line:
            section.blanks += 1
        elif line.startswith("\\ "):
            return  # the remark of diffs about a missing final newline
        elif not (_FENCE.match(line) and not section.lines):
            self._add_line(section, line)

    def _read_hint(self, section: _Section, line: str) -> None:
        if section.lines:
            self._finish_hunk(section)
        section.blanks = 0
        numbered = HUNK_HEADER.match(line)
        if numbered:
            section.old_start = int(numbered["old"])
            hint = numbered["hint"].strip()
        else:
            hint = line[2:].strip().removesuffix("@@").strip()
        if hint:
            section.hints.append(hint)

    def _add_line(self, section: _Section, line: str) -> None:
        if section.at_end:
            self._finish_hunk(section)
        if section.lines:
            section.lines.extend([PatchLine(" ", "")] * section.blanks)
        section.blanks = 0
        match line[0]:
            case " " | "+" | "-" as kind:
                section.lines.append(PatchLine(kind, line[1:]))
            case _:
                # The space of a kept line was forgotten. It has to be found in the file all the same.
                section.lines.append(PatchLine(" ", line))

    def _read_add(self, section: _Section, number: int, line: str) -> None:
        if line.startswith("+"):
            section.added.extend([""] * section.blanks if section.added else [])
            section.blanks = 0
            section.added.append(line[1:])
        elif not line.strip():
            section.blanks += 1
        elif not (_END_OF_FILE.match(line) or _FENCE.match(line) or line.startswith("\\ ")):
            raise PatchError(f"Line {number} of the patch: each line of an added file starts with +.")

    def _finish_hunk(self, section: _Section) -> None:
        """Close the hunk that is being read; blank lines at its very end were only space."""
        self._hunks += 1
        lines = tuple(section.lines)
        if not lines:
            raise PatchError(f"Hunk {self._hunks} of {section.path} is empty; add lines with + or -.")
        if all(line.kind == " " for line in lines):
            raise PatchError(f"Hunk {self._hunks} of {section.path} changes nothing; mark lines with + or -.")
        section.hunks.append(
            PatchHunk(self._hunks, lines, tuple(section.hints), section.at_end, section.old_start)
        )
        section.lines, section.hints = [], []
        section.at_end, section.old_start, section.blanks = False, None, 0

    def _finish(self) -> None:
        section, self._section = self._section, None
        if section is None:
            return
        if section.lines or section.hints:
            self._finish_hunk(section)
        match section.verb:
            case "Add":
                content = "".join(line + "\n" for line in section.added)
                self._operations.append(AddFile(section.path, content))
            case "Delete":
                self._operations.append(DeleteFile(section.path))
            case _:
                if not section.hunks and section.move_to is None:
                    raise PatchError(
                        f"The section for {section.path} changes nothing; add hunks with + or - lines."
                    )
                self._operations.append(UpdateFile(section.path, tuple(section.hunks), section.move_to))

    def _check_outside(self, number: int, line: str, *, inside: bool = False) -> None:
        """Outside of sections only space, fences and the frame of a heredoc are meaningless."""
        if self._operations and re.match(r"(\+|-|@@)", line):
            raise PatchError(f"Line {number} of the patch stands outside of any section: {line.strip()!r}.")
        if line.startswith("***") and (self._operations or inside):
            raise PatchError(f"Line {number} of the patch: {line.strip()!r} is no known header.")


def _unframed(lines: list[str]) -> list[str]:
    """`lines` with code fences and the frame of a heredoc around them blanked; numbers stay the same."""
    lines = list(lines)
    words: list[str] = []
    for index, line in enumerate(lines[:_WIDEST_FRAME]):
        heredoc = _HEREDOC.search(line)
        if heredoc:
            words.append(heredoc["word"])
        elif line.strip() and not _FENCE.match(line):
            break
        lines[index] = ""
    while lines and (not lines[-1] or _FENCE.match(lines[-1]) or lines[-1].strip(" '\"") in words):
        lines.pop()
    return _unpadded(lines)


def _without_diff_headers(lines: list[str]) -> list[str]:
    """`lines` with the `---` and `+++` lines of a diff blanked that repeat the name in a header."""
    lines = list(lines)
    for index, line in enumerate(lines[:-3]):
        names, first = lines[index + 1 : index + 3], lines[index + 3]
        is_pair = names[0].startswith("--- ") and names[1].startswith("+++ ")
        if is_pair and first.startswith("@@") and _HEADER.match(line.lstrip()):
            lines[index + 1 : index + 3] = ["", ""]
    return lines


def _unpadded(lines: list[str]) -> list[str]:
    """`lines` without an indentation of the whole patch, or of its frame lines alone."""
    first = next((index for index, line in enumerate(lines) if line), 0)
    if not lines or lines[first][:1] not in (" ", "\t") or not _BEGIN.match(lines[first].strip()):
        return lines
    padding = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
    if all(line.startswith(padding) for line in lines if line.strip()):
        return [line.removeprefix(padding) for line in lines]
    lines[first] = lines[first].strip()
    if _END.match(lines[-1].strip()):
        lines[-1] = lines[-1].strip()
    return lines


def _unquoted(path: str) -> str:
    path = path.strip()
    for quote in "\"'`":
        if len(path) > 2 and path[0] == quote == path[-1]:
            return path[1:-1]
    return path

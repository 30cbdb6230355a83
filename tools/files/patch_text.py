"""Reading patches: the V4A format and unified differences, as operations on files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, cast

from tools.files.matching import unescape
from tools.kit.lazy_pattern import lazy_pattern
from tools.results import ToolError

Kind = Literal[" ", "+", "-"]
"""A line of a hunk is kept, added or removed."""


class PatchError(ToolError):
    """Raised for a patch that cannot be read or does not fit the files. Nothing was written."""


@dataclass(frozen=True, slots=True)
class PatchLine:
    """One line of a hunk."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class PatchHunk:
    """One change within a file. `number` counts from 1 over the whole patch, for messages."""

    number: int
    lines: tuple[PatchLine, ...]
    hints: tuple[str, ...] = ()
    """Lines above the change, outermost first: `@@ class Account`."""
    at_end: bool = False
    """Whether the change touches the end of the file."""
    old_start: int | None = None
    """The number of the first old line, from 1; None if the patch does not state it."""
    final_newline: bool | None = None
    """Whether the file should end in a newline, if the patch says so."""

    @property
    def old(self) -> list[str]:
        """Return the lines to find in the file."""
        return [line.text for line in self.lines if line.kind != "+"]

    @property
    def new(self) -> list[str]:
        """Return the resulting lines."""
        return [line.text for line in self.lines if line.kind != "-"]


@dataclass(frozen=True, slots=True)
class AddFile:
    path: str
    content: str
    executable: bool | None = None
    """Whether the file should be executable; None leaves it to the user's defaults."""


@dataclass(frozen=True, slots=True)
class UpdateFile:
    """A change to a file; with `move_to` the file is also renamed."""

    path: str
    hunks: tuple[PatchHunk, ...]
    move_to: str | None = None
    other_names: tuple[str, ...] = ()
    """Alternative names if `path` does not exist; the file is not moved then."""
    executable: bool | None = None
    """Whether the file should be executable; None: unchanged."""

    @property
    def may_create(self) -> bool:
        """Return whether the update only adds content to an empty file, so that the file may be missing."""
        return bool(self.hunks) and all(hunk.old_start == 0 and not hunk.old for hunk in self.hunks)


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """The deletion of a file. `hunks`, if any, must be all of its content."""

    path: str
    hunks: tuple[PatchHunk, ...] = ()


def content_of(hunks: Sequence[PatchHunk]) -> str:
    """Return the content of a file that consists of the additions in `hunks`."""
    lines = [line for hunk in hunks for line in hunk.new]
    ends_open = bool(hunks) and hunks[-1].final_newline is False
    return "\n".join(lines) + ("" if ends_open or not lines else "\n")


Operation = AddFile | UpdateFile | DeleteFile


_STAMP = lazy_pattern(
    r"[\t ]+(?P<date>\d{4}-\d\d-\d\d)[ T](?P<time>\d\d:\d\d:\d\d)(?:[.,]\d+)?"
    r"(?: ?(?P<zone>[+-]\d\d:?\d\d|Z))?\s*$"
)
_SAME_NAMES = lazy_pattern(r"(?P<letter>\w)/(?P<name>.+) (?!(?P=letter))\w/(?P=name)")
_QUOTED_NAMES = lazy_pattern(r'("\w/(?:[^"\\]|\\.)+") ("\w/(?:[^"\\]|\\.)+")')
_PREFIX = lazy_pattern(r"[abciow]/")
_BACKUPS = (".orig", ".old", ".bak", ".new", "~")
_MODE = lazy_pattern(
    r"(?P<verb>new file mode|new mode|deleted file mode|old mode|index \S+) (?P<mode>\d{6})$"
)
_LINK, _SUBMODULE = "120000", "160000"


@dataclass(frozen=True, slots=True)
class Name:
    """The name in one `---` or `+++` line."""

    text: str
    is_nowhere: bool = False
    """Whether it is `/dev/null` or an equivalent."""
    is_stamped: bool = False
    is_epoch: bool = False
    """Whether the time stamp is the start of 1970, which GNU diff uses for a missing file."""


@dataclass(frozen=True, slots=True)
class GitHeader:
    """The lines between `diff --git` and the hunks."""

    names: str
    renames: tuple[str, str] | None = None
    creates: bool = False
    deletes: bool = False
    executable: bool | None = None

    @property
    def name(self) -> str | None:
        """Return the name of the file if the first line gives the same name twice; else None."""
        same = _SAME_NAMES.fullmatch(self.names)
        if same:
            return same["name"]
        quoted = _QUOTED_NAMES.fullmatch(self.names)
        pair = [unquoted(name)[2:] for name in quoted.groups()] if quoted else []
        return pair[0] if pair and pair[0] == pair[1] else None

    def check(self, name: Name) -> None:
        """Raise `PatchError` if a `---` or `+++` line names a file that the first line does not."""
        if name.is_nowhere or '"' in self.names:
            return
        bare = name.text[2:] if _PREFIX.match(name.text) else name.text
        if not re.search(rf"(?:^|[/ ]){re.escape(bare)}(?: |$)", self.names):
            raise PatchError(
                f"The diff names {bare} below `diff --git {self.names}`; give both the same names."
            )


def read_git_header(first: str, lines: Sequence[str]) -> GitHeader:
    """Parse the header beginning with `first`, without `diff --git`. Raises `PatchError` for non-text."""
    values: dict[str, str] = {}
    executable: bool | None = None
    for line in lines:
        if line.startswith(("GIT binary patch", "Binary files ")):
            raise PatchError("The diff changes a binary file; only text files can be patched.")
        for header in ("rename from ", "rename to ", "copy from ", "new file", "deleted file"):
            if line.startswith(header):
                values[header] = unquoted(line[len(header) :])
        if mode := _MODE.match(line.rstrip()):
            executable = _executable(mode["verb"], mode["mode"], executable)
    if "copy from " in values:
        raise PatchError("The diff copies a file; add the copy with *** Add File instead.")
    renames = (values.get("rename from ", ""), values.get("rename to ", ""))
    return GitHeader(
        first,
        renames if all(renames) else None,
        creates="new file" in values,
        deletes="deleted file" in values,
        executable=executable,
    )


def read_name(text: str) -> Name:
    """Parse the name in a `---` or `+++` line, given without that prefix. Raises `PatchError` if missing."""
    stamp = _STAMP.search(text)
    remark = "" if stamp else text.partition("\t")[2]
    name = unquoted(text[: stamp.start()] if stamp else text.split("\t")[0])
    if not name:
        raise PatchError("A --- or +++ line of the diff names no file.")
    return Name(
        name,
        is_nowhere=name == "/dev/null" or remark.strip() == "(nonexistent)",
        is_stamped=stamp is not None,
        is_epoch=stamp is not None and _is_epoch(stamp),
    )


def plain_pair(old: Name, new: Name) -> tuple[str, str]:
    """Return the old and the new name, without git's prefixes or the first folder of `diff -r`."""
    pair = old.text, new.text
    bare = old.text[2:], new.text[2:]
    if old.is_nowhere or new.is_nowhere:
        named = new if old.is_nowhere else old
        return bare if named.text.startswith(("a/", "b/")) else pair
    letters = {text[0] for text in pair if _PREFIX.match(text)}
    if letters == {"a", "b"} or (len(letters) == 2 and bare[0] == bare[1]):
        return bare
    rests = [text.partition("/")[2] for text in pair]
    if old.is_stamped and new.is_stamped and rests[0] and rests[0] == rests[1] and pair[0] != pair[1]:
        return rests[0], rests[1]
    return pair


def backed_up(old: str, new: str) -> str | None:
    """Return the name of the original file if one of two names is that of its backup; else None."""
    for suffix in _BACKUPS:
        if old == new + suffix:
            return new
        if new == old + suffix:
            return old
    return None


def unquoted(name: str) -> str:
    """Decode a name with special characters as git writes it: in quotes, bytes as octal numbers."""
    name = name.strip()
    if len(name) < 2 or name[0] != '"' or name[-1] != '"':
        return name
    octal = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8) & 255), name[1:-1])
    plain = re.sub(r"\\(.)", lambda match: {"t": "\t", "n": "\n"}.get(match[1], match[1]), octal)
    try:
        return plain.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return plain


def _executable(verb: str, mode: str, known: bool | None) -> bool | None:
    if mode == _LINK:
        raise PatchError("The diff changes a symbolic link; make or remove it with a command.")
    if mode == _SUBMODULE:
        raise PatchError("The diff changes a submodule; use git for that.")
    if verb == "new mode":
        return mode == "100755"
    return True if verb == "new file mode" and mode == "100755" else known


def _is_epoch(stamp: re.Match[str]) -> bool:
    zone = stamp["zone"] or "+0000"
    try:
        moment = datetime.fromisoformat(f"{stamp['date']}T{stamp['time']}{zone}")
    except ValueError:
        return False
    return moment.timestamp() == 0


HUNK_HEADER = lazy_pattern(
    r"@@+ -(?P<old>\d{1,9})(?:,(?P<old_count>\d{1,9}))?"
    r" \+(?P<new>\d{1,9})(?:,(?P<new_count>\d{1,9}))? @@+(?P<hint>.*)$"
)
_NO_NEWLINE = "\\ "
_BINARY = lazy_pattern(r"(?:Binary files|Files) .+ and .+ differ$")
_VERSION = lazy_pattern(r"\d+\.\d+")
"""The version line below a patch in git mail, after `-- `."""
_NO_LINES = ("@@", "diff ", "Index: ", "index ", "```", "~~~", "*** ", "Binary files ", "Only in ")
"""Beginnings of lines between hunks that belong to no hunk."""


def looks_unified(lines: Sequence[str]) -> bool:
    """Return whether the lines contain the two headers of a unified diff, or git's header of a file."""
    reader = _Reader(lines)
    return any(
        reader.headers_at(index) or lines[index].startswith("diff --git ") for index in range(len(lines))
    )


def parse_unified(lines: Sequence[str]) -> tuple[Operation, ...]:
    """Parse the operations of a unified diff, in order. Raises `PatchError`."""
    return _Reader(lines).run()


class _Reader:
    """A parser of the lines of a diff; `_index` is the next line."""

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
            elif _BINARY.match(self._at()):
                raise PatchError("The diff changes a binary file; only text files can be patched.")
            else:
                self._index += 1
        if not operations:
            raise PatchError("The diff changes nothing; add hunks with + or - lines.")
        return tuple(operations)

    def headers_at(self, index: int) -> bool:
        """Return whether the `---` and `+++` lines of a file are at this index."""
        return (
            index + 1 < len(self._lines)
            and self._lines[index].startswith("--- ")
            and self._lines[index + 1].startswith("+++ ")
        )

    def _at(self) -> str:
        return self._lines[self._index] if self._index < len(self._lines) else ""

    def _git_section(self) -> list[Operation]:
        """Parse what follows `diff --git`: extended headers, and possibly a file section."""
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
        """Return the index after the hunk according to the counts in its header.

        Returns None if the lines contradict the counts.
        """
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
        """Return whether the hunk ends before line `index`, although that line looks like one of a hunk."""
        if self.headers_at(index):
            return True
        behind = self._lines[index + 1] if index + 1 < len(self._lines) else ""
        return self._lines[index] == "-- " and _VERSION.match(behind) is not None

    def _prefixed_stop(self) -> int:
        """Return the index after the hunk according to the prefixes of its lines.

        Blank lines at its end are only spacing.
        """
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
        """Return the index of the next changed line if only unchanged lines without a space come before it.

        Returns None otherwise. The assumed lines must still be found in the file.
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
    """Return the line named by `@@ def name @@`; empty if the text is only dots and numbers."""
    text = opening.strip("@ ")
    return text if re.search(r"[^\W\d]", text) else ""


def _line(text: str) -> PatchLine:
    """Parse a line of a hunk.

    A line without a prefix is read as an unchanged line whose space was forgotten.
    """
    is_marked = text[:1] in (" ", "+", "-")
    return PatchLine(cast("Kind", text[0]), text[1:]) if is_marked else PatchLine(" ", text)


def _git_operation(git: GitHeader, old: Name, new: Name, hunks: tuple[PatchHunk, ...]) -> Operation:
    """Return the operation of a git section; its headers decide on names and on whether the file is new."""
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
    """Return the operation of a section with only `---` and `+++` lines."""
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
    """Return the operation of a git section that has only extended headers, or an empty list."""
    if git.renames:
        return [UpdateFile(git.renames[0], (), git.renames[1], executable=git.executable)]
    if git.name is None:
        return []
    if git.creates:
        return [AddFile(git.name, "", git.executable)]
    if git.deletes:
        return [DeleteFile(git.name)]
    return [] if git.executable is None else [UpdateFile(git.name, (), executable=git.executable)]


_HEADER = lazy_pattern(r"\*\*\* ?(?P<verb>Update|Add|Delete|Move) File: ?(?P<rest>.*?)\s*$")
_MOVE_TO = lazy_pattern(r"\*\*\* ?Move to: ?(?P<path>.*?)\s*$")
_END_OF_FILE = lazy_pattern(r"\*\*\* ?End of File\s*$")
_BEGIN = lazy_pattern(r"\*\*\* ?Begin Patch\s*$")
_END = lazy_pattern(r"\*\*\* ?End Patch\s*$")
_FENCE = lazy_pattern(r"(```|~~~)[\w+-]*\s*$")
_HEREDOC = lazy_pattern(r"<<-?\s*['\"]?(?P<word>\w+)['\"]?")
_WIDEST_FRAME = 3
"""Lines of a heredoc or fence allowed before the patch."""


def parse_patch(text: str) -> tuple[Operation, ...]:
    """Parse a patch in V4A or unified-diff notation, in order. Raises `PatchError`."""
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
    """The part of a patch about one file, while its lines are read."""

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
    """Blank lines that are either kept lines or spacing between sections."""


class _Parser:
    """A line-by-line parser of the V4A format; each public step leaves it ready for the next line."""

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
                f"Line {number} of the patch: {line.strip()!r} is not a known header; "
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
                # The space of a kept line was forgotten. It must be found in the file all the same.
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
        """Close the current hunk, without blank lines at its end. Raises `PatchError` without a change."""
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
        """Raise `PatchError` if a line outside of sections looks like content or a header of one."""
        if self._operations and re.match(r"(\+|-|@@)", line):
            raise PatchError(f"Line {number} of the patch stands outside of any section: {line.strip()!r}.")
        if line.startswith("***") and (self._operations or inside):
            raise PatchError(f"Line {number} of the patch: {line.strip()!r} is not a known header.")


def _unframed(lines: list[str]) -> list[str]:
    """Return `lines` without surrounding code fences and heredoc frames; line numbers stay the same."""
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
    """Return `lines` in which `---` and `+++` lines that repeat the name of a header are made blank."""
    lines = list(lines)
    for index, line in enumerate(lines[:-3]):
        names, first = lines[index + 1 : index + 3], lines[index + 3]
        is_pair = names[0].startswith("--- ") and names[1].startswith("+++ ")
        if is_pair and first.startswith("@@") and _HEADER.match(line.lstrip()):
            lines[index + 1 : index + 3] = ["", ""]
    return lines


def _unpadded(lines: list[str]) -> list[str]:
    """Return `lines` without an indentation that all lines, or only the frame lines, have in common."""
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

"""Reads the headers of a diff: which file a section is about, and what becomes of it.

Git, GNU diff and Subversion each have their own; models mix them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tools.files.operations import PatchError

_STAMP = re.compile(
    r"[\t ]+(?P<date>\d{4}-\d\d-\d\d)[ T](?P<time>\d\d:\d\d:\d\d)(?:[.,]\d+)?"
    r"(?: ?(?P<zone>[+-]\d\d:?\d\d|Z))?\s*$"
)
_SAME_NAMES = re.compile(r"(?P<letter>\w)/(?P<name>.+) (?!(?P=letter))\w/(?P=name)")
_QUOTED_NAMES = re.compile(r'("\w/(?:[^"\\]|\\.)+") ("\w/(?:[^"\\]|\\.)+")')
_PREFIX = re.compile(r"[abciow]/")
_BACKUPS = (".orig", ".old", ".bak", ".new", "~")
_MODE = re.compile(r"(?P<verb>new file mode|new mode|deleted file mode|old mode|index \S+) (?P<mode>\d{6})$")
_LINK, _SUBMODULE = "120000", "160000"


@dataclass(frozen=True, slots=True)
class Name:
    """What one `---` or `+++` line names."""

    text: str
    is_nowhere: bool = False
    """`/dev/null`, or what stands for it."""
    is_stamped: bool = False
    is_epoch: bool = False
    """The time stamp is the beginning of 1970, which GNU diff gives to a file that is missing."""


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
        """The name of the file, if the first line gives one and the same twice."""
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
    """The header that begins with `first` (without `diff --git`). Raises `PatchError` for what is no text."""
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
    """The name in a `---` or `+++` line, given without the mark. Raises `PatchError` if there is none."""
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
    """Both names without the prefixes of git, or the first folder where `diff -r` compared two folders."""
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
    """The file that is meant when one of two names is that of its backup."""
    for suffix in _BACKUPS:
        if old == new + suffix:
            return new
        if new == old + suffix:
            return old
    return None


def unquoted(name: str) -> str:
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

"""Patches for `git apply`, made from the difference between two positions in the steps of a session."""

from __future__ import annotations

import os
import zlib
from base64 import b85encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha1

from agent.errors import StoreError
from agent.workspace.checkpoints.entries import (
    LeftOut,
    PathChange,
    PathEntry,
    PathKind,
    is_folder,
    is_outside,
)
from agent.workspace.checkpoints.git_words import git_apart
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.units import NO_UNITS, Units
from tools.files.diffs import diff_texts
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.words import one_line

PLAIN, EXECUTABLE, LINK = 0o100644, 0o100755, 0o120000
"""The file modes that git distinguishes."""

NOWHERE = b"/dev/null"
NO_BLOB = b"0" * 40

_ESCAPES = {7: b"a", 8: b"b", 9: b"t", 10: b"n", 11: b"v", 12: b"f", 13: b"r", 34: b'"', 92: b"\\"}
_BINARY_LINE = 52
"""The number of bytes that one line of a binary literal encodes."""
_HIDDEN_IN_NAMES = lazy_pattern("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


@dataclass(frozen=True, slots=True)
class PatchBlob:
    """The content of a path before or after a change, as git sees it."""

    mode: int
    data: bytes
    """The contents of the file, or the target of the link."""

    @property
    def name(self) -> bytes:
        """The SHA-1 of the blob in git."""
        digest = sha1(b"blob %d\0" % len(self.data), usedforsecurity=False)
        digest.update(self.data)
        return digest.hexdigest().encode()


@dataclass(frozen=True, slots=True)
class PatchSection:
    """The part of a patch about one path."""

    data: bytes
    added: int = 0
    """The number of lines; 0 for binary contents."""
    removed: int = 0


def quote_name(name: bytes) -> bytes:
    """Return a name as git prints it: quoted and escaped if it has special or non-ASCII characters."""
    if all(0x20 <= byte < 0x7F and byte not in (34, 92) for byte in name):
        return name
    return b'"' + b"".join(map(_escape, name)) + b'"'


def path_problem(path: str) -> str:
    """Return why git rejects the path on some operating system; empty if git accepts it everywhere."""
    for part in path.split("/"):
        if _HIDDEN_IN_NAMES.sub("", part).casefold() == ".git" or _is_git_on_windows(part):
            return "git accepts no such name"
    return ""


def sections(
    path: bytes, before: PatchBlob | None, after: PatchBlob | None, *, text: bool = False
) -> Iterator[PatchSection]:
    """Yield the patch sections of one path. A change of type is a removal and an addition.

    With `text`, binary contents are only reported as different, so that the patch stays readable.
    """
    if before is not None and after is not None and (before.mode == LINK) != (after.mode == LINK):
        yield _section(path, before, None, text)
        yield _section(path, None, after, text)
    elif before != after:
        yield _section(path, before, after, text)


def _section(path: bytes, before: PatchBlob | None, after: PatchBlob | None, text: bool) -> PatchSection:
    old, new = quote_name(b"a/" + path), quote_name(b"b/" + path)
    head = [b"diff --git %s %s" % (old, new), *_modes(before, after)]
    one, other = (before.data if before else b""), (after.data if after else b"")
    if one == other and before is not None and after is not None:
        return PatchSection(b"\n".join(head) + b"\n")
    names = (before.name if before else NO_BLOB), (after.name if after else NO_BLOB)
    kept = b" %o" % after.mode if before and after and before.mode == after.mode else b""
    head.append(b"index %s..%s%s" % (*names, kept))
    if text and b"\0" in one + other:
        return PatchSection(b"\n".join([*head, b"Binary files %s and %s differ" % (old, new), b""]))
    if b"\0" in one or b"\0" in other:
        return PatchSection(b"\n".join([*head, b"GIT binary patch", _literal(other), _literal(one), b""]))
    labels = (_label(old) if before else NOWHERE), (_label(new) if after else NOWHERE)
    # One character for one byte, so that every encoding is preserved.
    diff = diff_texts(*(each.decode("latin-1") for each in (one, other, *labels)))
    data = b"\n".join(head) + b"\n" + diff.text.encode("latin-1")
    return PatchSection(data, diff.added, diff.removed)


def _modes(before: PatchBlob | None, after: PatchBlob | None) -> Iterator[bytes]:
    if before is None and after is not None:
        yield b"new file mode %o" % after.mode
    elif after is None and before is not None:
        yield b"deleted file mode %o" % before.mode
    elif before is not None and after is not None and before.mode != after.mode:
        yield b"old mode %o" % before.mode
        yield b"new mode %o" % after.mode


def _label(name: bytes) -> bytes:
    """Return a name for `---` or `+++` lines; git needs a tab after a name with blanks."""
    return name + b"\t" if b" " in name else name


def _literal(data: bytes) -> bytes:
    """Return contents as git encodes them: compressed, in base 85, each line preceded by its length."""
    packed = zlib.compress(data)
    lines = [b"literal %d" % len(data)]
    for start in range(0, len(packed), _BINARY_LINE):
        piece = packed[start : start + _BINARY_LINE]
        length = len(piece) + (64 if len(piece) <= 26 else 70)
        lines.append(bytes([length]) + b85encode(piece, pad=True))
    return b"\n".join([*lines, b""])


def _escape(byte: int) -> bytes:
    if byte in _ESCAPES:
        return b"\\" + _ESCAPES[byte]
    return bytes([byte]) if 0x20 <= byte < 0x7F else b"\\%03o" % byte


def _is_git_on_windows(part: str) -> bool:
    for piece in part.split("\\"):
        name, colon, _ = piece.partition(":")
        if name.rstrip(" .").casefold() in (".git", "git~1"):
            return True
        if colon:
            return False
    return False


LARGEST = 20_000_000
"""The maximum size in bytes of a file in a patch: git would keep a larger one in memory."""

_USUAL = (0o644, 0o664, 0o755, 0o775)


@dataclass(frozen=True, slots=True)
class FilePatch:
    """The part of a patch about one path, with its line counts."""

    path: str
    data: bytes
    added: int
    """The number of lines; 0 for binary contents."""
    removed: int


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch, path by path, and the changes that it cannot express."""

    files: tuple[FilePatch, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def added(self) -> int:
        return sum(file.added for file in self.files)

    @property
    def removed(self) -> int:
        return sum(file.removed for file in self.files)

    @property
    def data(self) -> bytes:
        """The patch, preceded by comment lines that name the omitted changes; git ignores them."""
        return b"".join([*map(_comment, self.left_out), self.body])

    @property
    def body(self) -> bytes:
        """The patch without the comment lines."""
        return b"".join(file.data for file in self.files)


class _LeftOutError(Exception):
    """Raised for a path that a patch cannot express. The message is the reason."""


def patch_between(
    changes: Iterable[PathChange], objects: ObjectStore, *, text: bool = False, units: Units = NO_UNITS
) -> Patch:
    """Return `changes`, one per path, as a patch. With `text` it is for reading only and lacks binary
    contents.

    Changes inside `units` (git folders) are only listed as omitted. Blocking: reads the contents.
    """
    files: list[FilePatch] = []
    left_out: list[LeftOut] = []
    folders: list[PathChange] = []
    apart = git_apart(changes, units)
    repositories = {found.root if (found := units.part(each.path)) else each.path for each in apart.git}
    left_out += [LeftOut(folder, "where git stands is not part of a patch") for folder in repositories]
    for change in sorted(apart.files, key=lambda each: os.fsencode(each.path)):
        if is_folder(change.before) or is_folder(change.after):
            folders.append(change)
        try:
            found = _sections(change, objects, text)
        except _LeftOutError as reason:
            left_out.append(LeftOut(change.path, str(reason)))
            continue
        if found:
            added, removed = sum(each.added for each in found), sum(each.removed for each in found)
            files.append(FilePatch(change.path, b"".join(each.data for each in found), added, removed))
        left_out += _unsaid(change)
    told = {above for file in files for above in _above(file.path)}
    left_out += _folders(folders, told)
    return Patch(tuple(files), tuple(sorted(left_out, key=lambda item: os.fsencode(item.path))))


def _sections(change: PathChange, objects: ObjectStore, text: bool) -> list[PatchSection]:
    before, after = (_blob(entry, objects) for entry in (change.before, change.after))
    if before == after:
        return []
    if is_outside(change.path) and not text:
        raise _LeftOutError("is outside of the workspace")
    if reason := path_problem(change.path):
        raise _LeftOutError(reason)
    return list(sections(os.fsencode(change.path), before, after, text=text))


def _blob(entry: PathEntry | None, objects: ObjectStore) -> PatchBlob | None:
    """Return an entry as git sees it; None for a folder. Raises `_LeftOutError`."""
    if entry is None or entry.kind is PathKind.FOLDER:
        return None
    if entry.kind is PathKind.LINK:
        return PatchBlob(LINK, os.fsencode(entry.target))
    if entry.kind is PathKind.OTHER or entry.digest is None:
        raise _LeftOutError(f"its contents were not kept: {entry.reason or 'it is not a plain file'}")
    if entry.size > LARGEST:
        raise _LeftOutError(f"larger than {LARGEST // 1_000_000} MB")
    try:
        data = objects.read(entry.digest)
    except StoreError as error:
        raise _LeftOutError("its contents are no longer in the checkpoints") from error
    return PatchBlob(_git_mode(entry), data)


def _git_mode(entry: PathEntry) -> int:
    return EXECUTABLE if entry.mode & 0o100 else PLAIN


def _unsaid(change: PathChange) -> Iterable[LeftOut]:
    """Yield the changes to permissions that a patch cannot express."""
    before, after = change.before, change.after
    if after is None or after.kind is not PathKind.FILE:
        return
    if before is not None and before.kind is PathKind.FILE:
        if before.mode != after.mode and _git_mode(before) == _git_mode(after):
            yield LeftOut(change.path, f"its permissions went from {before.mode:o} to {after.mode:o}")
    elif after.mode not in _USUAL:
        yield LeftOut(change.path, f"its permissions are {after.mode:o}")


def _folders(changes: Iterable[PathChange], told: set[str]) -> Iterable[LeftOut]:
    """Yield changes to folders that do not follow from changes to the files in them. `told` holds the folders
    above files in the patch.
    """
    for change in changes:
        if change.before is not None and change.after is not None and change.before.kind is change.after.kind:
            modes = f"{change.before.mode:o} to {change.after.mode:o}"
            yield LeftOut(change.path, f"the permissions of this folder went from {modes}")
        elif change.path not in told:
            what = "was made" if is_folder(change.after) else "went away"
            yield LeftOut(change.path, f"an empty folder that {what}; git knows none")


def _above(path: str) -> Iterable[str]:
    while (cut := path.rfind("/")) >= 0:
        path = path[:cut]
        yield path


def _comment(item: LeftOut) -> bytes:
    reason = one_line(item.reason)
    return b"# left out: %s (%s)\n" % (quote_name(os.fsencode(item.path)), reason.encode())

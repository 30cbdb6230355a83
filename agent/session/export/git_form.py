"""The pieces of a patch as git writes them: names, headers, text hunks, binary literals. Pure.

The format is the one `git diff --binary --full-index` writes and `git apply` reads;
see the section on generating patch text in git's manual of `git diff`.
"""

from __future__ import annotations

import re
import zlib
from base64 import b85encode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha1

from tools.files.diffs import diff_texts

PLAIN, EXECUTABLE, LINK = 0o100644, 0o100755, 0o120000
"""The modes git tells apart."""

NOWHERE = b"/dev/null"
NO_BLOB = b"0" * 40

_ESCAPES = {7: b"a", 8: b"b", 9: b"t", 10: b"n", 11: b"v", 12: b"f", 13: b"r", 34: b'"', 92: b"\\"}
_BINARY_LINE = 52
"""Bytes that one line of a binary literal stands for."""
_HIDDEN_IN_NAMES = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


@dataclass(frozen=True, slots=True)
class PatchBlob:
    """One side of a change: what stands at a path, as git sees it."""

    mode: int
    data: bytes
    """Contents, or where a link leads."""

    @property
    def name(self) -> bytes:
        """Its SHA-1 in git."""
        digest = sha1(b"blob %d\0" % len(self.data), usedforsecurity=False)
        digest.update(self.data)
        return digest.hexdigest().encode()


@dataclass(frozen=True, slots=True)
class PatchSection:
    """The part of a patch about one path."""

    data: bytes
    added: int = 0
    """Lines; 0 for binary contents."""
    removed: int = 0


def quoted(name: bytes) -> bytes:
    """A name as git prints it: in quotes with escapes where it holds anything but plain characters."""
    if all(0x20 <= byte < 0x7F and byte not in (34, 92) for byte in name):
        return name
    return b'"' + b"".join(map(_escaped, name)) + b'"'


def refused(path: str) -> str:
    """Why git accepts no such path, on any system; empty when it does."""
    for part in path.split("/"):
        if _HIDDEN_IN_NAMES.sub("", part).casefold() == ".git" or _is_git_on_windows(part):
            return "git accepts no such name"
    return ""


def sections(
    path: bytes, before: PatchBlob | None, after: PatchBlob | None, *, text: bool = False
) -> Iterator[PatchSection]:
    """What a patch says of one path; what turned into something else goes and comes anew.

    With `text` contents that are no text are only said to differ, so that the patch can be read.
    """
    if before is not None and after is not None and (before.mode == LINK) != (after.mode == LINK):
        yield _section(path, before, None, text)
        yield _section(path, None, after, text)
    elif before != after:
        yield _section(path, before, after, text)


def _section(path: bytes, before: PatchBlob | None, after: PatchBlob | None, text: bool) -> PatchSection:
    old, new = quoted(b"a/" + path), quoted(b"b/" + path)
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
    # One character for one byte, so that every encoding comes through as it is.
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
    """A name after `---` or `+++`; behind one with blanks git wants to see where it ends."""
    return name + b"\t" if b" " in name else name


def _literal(data: bytes) -> bytes:
    """Contents as git packs them: compressed, in base 85, each line led by its length."""
    packed = zlib.compress(data)
    lines = [b"literal %d" % len(data)]
    for start in range(0, len(packed), _BINARY_LINE):
        piece = packed[start : start + _BINARY_LINE]
        length = len(piece) + (64 if len(piece) <= 26 else 70)
        lines.append(bytes([length]) + b85encode(piece, pad=True))
    return b"\n".join([*lines, b""])


def _escaped(byte: int) -> bytes:
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

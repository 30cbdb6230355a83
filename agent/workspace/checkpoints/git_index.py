"""The list of files git tracks, read from its index without running git.

Format: Documentation/gitformat-index.txt of git, versions 2 to 4. Only the names
and the ids of the contents are of use here; everything is checked against the
files themselves afterwards, so an index that lies does no harm.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from agent.workspace.repository import common_folder, git_folder, top_folder
from tools.files.descriptors import read_bytes

MAX_BYTES = 200_000_000
_HEADER, _FIXED = 12, 62
_EXTENDED, _NAME_MASK = 0x4000, 0x0FFF


def tracked(root: Path) -> dict[str, str]:
    """Paths below `root` (resolved) that git tracks, with the ids (SHA-1, hex) of their contents.

    Empty where there is no repository, or none that can be read. Blocking; never raises.
    """
    top = top_folder(root)
    git = git_folder(top) if top is not None else None
    if top is None or git is None or _is_sha256(common_folder(git)):
        return {}
    try:
        data, _ = read_bytes(git.resolve() / "index", MAX_BYTES)
        names = _parsed(data)
    except (OSError, ValueError, IndexError):
        return {}
    below = os.fsencode(root.relative_to(top)) if root != top else b""
    prefix = below + b"/" if below else b""
    return {os.fsdecode(name[len(prefix) :]): sha for name, sha in names.items() if name.startswith(prefix)}


def blob_id(data: bytes) -> str:
    """The id git gives contents."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _parsed(data: bytes) -> dict[bytes, str]:
    """Plain files of an index. Raises `ValueError` and `IndexError` for anything that is none."""
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("no index of a known version")
    found: dict[bytes, str] = {}
    at, name = _HEADER, b""
    for _ in range(count):
        start = at
        mode = int.from_bytes(data[at + 24 : at + 28], "big")
        sha = data[at + 40 : at + 60].hex()
        flags = int.from_bytes(data[at + 60 : at + 62], "big")
        at += _FIXED + (2 if flags & _EXTENDED else 0)
        if version == 4:
            cut, at = _varint(data, at)
            end = data.index(b"\0", at)
            name = name[: len(name) - cut] + data[at:end]
            at = end + 1
        else:
            length = flags & _NAME_MASK
            end = at + length if length < _NAME_MASK else data.index(b"\0", at)
            name = data[at:end]
            at = start + ((end - start + 8) & ~7)
        if len(sha) != 40 or not name:
            raise ValueError("the index ends too early")
        if stat.S_ISREG(mode):
            found[name] = sha
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in the form of pack offsets, and where it ends."""
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at + 1


def _is_sha256(common: Path) -> bool:
    try:
        text = (common / "config").read_text("utf-8", "replace").casefold()
    except OSError:
        return False
    return "objectformat" in text and "sha256" in text

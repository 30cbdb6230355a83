"""Copies of files that wait to be sent: what was agreed to goes out, whatever becomes of the file meanwhile.

They lie in `outgoing/` of the folder of their messenger, for the owner alone, until they are sent or given
up.
"""

from __future__ import annotations

import contextlib
import mimetypes
import os
import secrets as chance
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agent.core.home import private_folder
from agent.integrations.gateways.adapter import FileKind
from tools.kit.files import write_new
from tools.text.redact import Redactor

FOLDER = "outgoing"
LARGEST_PICTURE = 5_000_000
"""Bytes up to which every platform takes a picture as one; a larger one goes out as a file."""
_PICTURES = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
_UNCLAIMED = 3_600.0
"""Seconds after which a copy that no message names was left behind by a program that ended."""
_AT_ONCE = 32_768


def keep_copy(folder: Path, name: str, data: bytes) -> Mapping[str, Any]:
    """Write a copy below the folder of a messenger; the body of its delivery.

    Blocking. Raises `ConfigError`, `OSError`.
    """
    path = private_folder(folder / FOLDER) / (chance.token_hex(16) + Path(name).suffix[:16])
    try:
        write_new(path, data, durable=True)
    except OSError:
        drop_copy(path)
        raise
    return {"path": str(path), "name": name, "kind": _kind(name, data)}


def drop_copy(path: str | Path) -> None:
    """Remove a copy. Blocking; never raises, the next start of the messenger tries again."""
    with contextlib.suppress(OSError):
        Path(path).unlink(missing_ok=True)


def drop_unclaimed(folder: Path, claimed: Iterable[str]) -> None:
    """Remove copies that no message waits with, but not those that may be about to be put down. Blocking."""
    held, before = set(claimed), time.time() - _UNCLAIMED
    with contextlib.suppress(OSError), os.scandir(folder / FOLDER) as entries:
        for each in entries:
            if each.path not in held and each.stat(follow_symlinks=False).st_mtime < before:
                drop_copy(each.path)


def holds_secret(data: bytes, secrets: Mapping[str, str]) -> bool:
    """Whether a file holds what would be masked in a message: in a text all of it, else known values."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _holds_value(data, [value.encode() for value in secrets.values() if value])
    redactor = Redactor(secrets)
    return any(redactor.feed(piece) != piece for piece in _pieces(text))


def _holds_value(data: bytes, values: list[bytes]) -> bool:
    overlap = max(map(len, values), default=0)
    pieces = (data[at : at + _AT_ONCE + overlap] for at in range(0, len(data), _AT_ONCE))
    return any(value in piece for piece in pieces for value in values)


def _pieces(text: str) -> Iterable[str]:
    """Whole lines, as many as are looked through without keeping other threads waiting."""
    piece, length = [], 0
    for line in text.splitlines(keepends=True):
        piece.append(line)
        length += len(line)
        if length >= _AT_ONCE:
            yield "".join(piece)
            piece, length = [], 0
    yield "".join(piece)


def _kind(name: str, data: bytes) -> FileKind:
    """A picture is one by its name and by how it begins; all else is a file."""
    begin = _PICTURES.get(mimetypes.guess_type(name)[0] or "")
    is_picture = begin is not None and data.startswith(begin) and len(data) <= LARGEST_PICTURE
    return "image" if is_picture else "file"

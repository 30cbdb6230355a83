"""Passages of context files that a person let in: one small file each in the home, named by its hash.

Files of their own, so that two processes never lose each other's; what is no plain file of this
user with the name of a hash lets nothing in.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agent.core.home import PRIVATE_FILE, Home, private_folder
from agent.errors import ConfigError
from agent.knowledge.context.quarantine import KeptPassage
from tools.kit.files import write_atomically

_NAME = re.compile(r"[0-9a-f]{64}")


def allowed_passages(home: Home) -> frozenset[str]:
    """The hashes of what was let in; none where that cannot be known."""
    try:
        with os.scandir(home.passages) as entries:
            return frozenset(each.name for each in entries if _NAME.fullmatch(each.name) and _is_ours(each))
    except OSError:
        return frozenset()


def allowed_places(home: Home) -> Mapping[str, str]:
    """Where the passages stood when they were let in, by their hashes."""
    places: dict[str, str] = {}
    for digest in sorted(allowed_passages(home)):
        places[digest] = ""
        with suppress(OSError):
            places[digest] = (home.passages / digest).read_text("utf-8", "replace").strip()
    return places


def let_in(home: Home, passage: KeptPassage) -> None:
    """Have a passage count from the next session on, wherever it stands. Raises `ConfigError`."""
    folder = private_folder(home.passages)
    if _NAME.fullmatch(passage.digest) is None:
        raise ConfigError(f"{passage.digest!r} is no hash of a passage.")
    try:
        write_atomically(folder / passage.digest, f"{passage.place}\n".encode(), PRIVATE_FILE)
    except OSError as error:
        raise ConfigError(f"Cannot write to {folder}: {error.strerror or error}.") from error


def keep_back(home: Home, digest: str) -> bool:
    """Let a passage in no longer; False if it was not let in. Raises `ConfigError`."""
    if digest not in allowed_passages(home):
        return False
    try:
        Path(home.passages / digest).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"Cannot change {home.passages}: {error.strerror or error}.") from error
    return True


def _is_ours(entry: os.DirEntry[str]) -> bool:
    status = entry.stat(follow_symlinks=False)
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022

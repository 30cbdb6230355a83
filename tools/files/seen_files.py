"""The agent's knowledge of files, and whether it is still true."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tools.context import FileMemory, SeenFile
from tools.kit.files import MAX_WHOLE_BYTES


def digest_of(data: bytes, status: os.stat_result) -> str:
    """The digest of a whole file: SHA-256 of its bytes, or the mark of a large file."""
    return hashlib.sha256(data).hexdigest() if len(data) <= MAX_WHOLE_BYTES else stat_digest(status)


def stat_digest(status: os.stat_result) -> str:
    """What stands for the content of a file too large to be hashed on every look."""
    return f"stat:{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def warning_before_change(files: FileMemory, path: Path, digest: str, name: str) -> str | None:
    """A sentence when `path`, with content `digest`, is not as the agent last saw it."""
    seen = files.seen(path)
    if seen is None or seen.digest == digest:
        return None
    return f"{name} had changed on disk since you last saw it; check that nothing of that change is lost."


def remember_written(files: FileMemory, path: Path, data: bytes, status: os.stat_result) -> None:
    """Note that the agent knows the whole file, but that no region of it was shown."""
    files.remember(path, SeenFile(digest_of(data, status)))

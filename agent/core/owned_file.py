"""Files that count only if nobody but the person could have written them."""

from __future__ import annotations

import os
from pathlib import Path


def read_owned(path: Path, largest: int) -> bytes | None:
    """The bytes of a file of this user that no other one may write, at most `largest` of them.

    None where there is no such file, where it is a link, or where it is larger. Reads the disk.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(opened.fileno())
        if status.st_uid != os.getuid() or status.st_mode & 0o022 or status.st_size > largest:
            return None
        try:
            return opened.read(largest)
        except OSError:
            return None

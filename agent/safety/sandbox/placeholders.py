"""Empty folders and files that hold the place of what must not be made, while any sandbox needs them."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

_lock = threading.Lock()
_users: Counter[Path] = Counter()
_NONE: Mapping[Path, bytes] = MappingProxyType({})


def hold(folders: Iterable[Path], files: Mapping[Path, bytes] = _NONE) -> Callable[[], None]:
    """Make the folders, and the files with their content, or share those already held.

    The result lets go; the last one removes them. What was removed while it is mounted over
    elsewhere would lose its cover there. Raises `OSError` when one cannot be made.
    """
    held: list[Path] = []

    def let_go() -> None:
        with _lock:
            while held:
                path = held.pop()
                _users[path] -= 1
                if _users[path] <= 0:
                    del _users[path]
                    _remove(path, files.get(path))

    try:
        with _lock:
            for path in (*folders, *files):
                if not _users[path] or not os.path.lexists(path):
                    _make(path, files.get(path))
                _users[path] += 1
                held.append(path)
    except OSError:
        let_go()
        raise
    return let_go


def is_missing(path: Path) -> bool:
    """Whether nothing stands at `path` but what is held there: whoever counts on that has to hold it too."""
    with _lock:
        return path in _users or not os.path.lexists(path)


def _make(path: Path, content: bytes | None) -> None:
    if content is None:
        path.mkdir(mode=0o700)
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _remove(path: Path, content: bytes | None) -> None:
    try:
        if content is None:
            path.rmdir()
        elif not path.is_symlink() and path.read_bytes() == content:
            path.unlink()
    except OSError:
        # Somebody else has put it to use; then it is no placeholder any more.
        pass

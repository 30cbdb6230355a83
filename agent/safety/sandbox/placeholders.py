"""Empty folders that hold the place of what must not be made, while any sandbox needs them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

_lock = threading.Lock()
_users: Counter[Path] = Counter()


def hold(paths: Iterable[Path]) -> Callable[[], None]:
    """Make the folders, or share those already held. The result lets go; the last one removes them.

    A folder that was removed while it is mounted over elsewhere would lose its cover there.
    Raises `OSError` when one cannot be made.
    """
    held: list[Path] = []

    def let_go() -> None:
        with _lock:
            while held:
                path = held.pop()
                _users[path] -= 1
                if _users[path] <= 0:
                    del _users[path]
                    try:
                        path.rmdir()
                    except OSError:
                        # Somebody else has put it to use; then it is no placeholder any more.
                        pass

    try:
        with _lock:
            for path in paths:
                if not _users[path]:
                    path.mkdir(mode=0o700)
                _users[path] += 1
                held.append(path)
    except OSError:
        let_go()
        raise
    return let_go

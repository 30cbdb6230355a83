"""A ceiling on processes for root, whom the kernel's per-user limit does not bind."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
from collections.abc import Callable
from pathlib import Path

_HIERARCHIES = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
_JOIN = 'echo $$ >"$0" && exec "$@"'
_serial = itertools.count(1)
_left: set[Path] = set()
"""Groups that still had members when they were to go."""


def prepare(processes: int) -> tuple[list[str], Callable[[], None]]:
    """Arguments to put before a command so that it and its descendants stay below `processes`.

    Empty, with nothing to clear up, for ordinary users and where no group can be made.
    The second value removes the group; a group that is not empty yet goes a later time.
    """
    if os.geteuid() != 0 or not processes:
        return [], _nothing
    _remove_orphans()
    _remove_left()
    for hierarchy in _HIERARCHIES:
        folder = hierarchy / f"hermes-{os.getpid()}-{next(_serial)}"
        try:
            folder.mkdir()
            (folder / "pids.max").write_text(str(processes))
        except OSError:
            _remove(folder)
            continue
        return ["/bin/sh", "-c", _JOIN, str(folder / "cgroup.procs")], functools.partial(_remove, folder)
    return [], _nothing


def _nothing() -> None:
    pass


def _remove(folder: Path) -> None:
    try:
        folder.rmdir()
    except FileNotFoundError:
        _left.discard(folder)
    except OSError:
        _left.add(folder)
    else:
        _left.discard(folder)


@functools.cache
def _remove_orphans() -> None:
    """Groups of processes that died without a word; looked for once."""
    for hierarchy in _HIERARCHIES:
        for folder in hierarchy.glob("hermes-*-*"):
            owner = folder.name.split("-")[1]
            if owner.isdigit() and not Path("/proc", owner).exists():
                _remove(folder)


@atexit.register
def _remove_left() -> None:
    for folder in list(_left):
        _remove(folder)

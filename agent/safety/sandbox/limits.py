"""Limits on the processes, memory and open files of a sandbox."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import platform
import re
import resource
from collections.abc import Callable
from pathlib import Path

from tools.services.sandbox import SandboxLimits

_COUNTS_BY_NAMESPACE = (5, 14)
"""The Linux version since which processes are counted per user namespace; before, all the user's processes
would count.
"""


def rlimits(limits: SandboxLimits) -> dict[int, int]:
    """Return limits by the numbers of the `resource` module, none above the hard limits of this process."""
    wanted = {resource.RLIMIT_CORE: 0}
    if limits.processes and _kernel() >= _COUNTS_BY_NAMESPACE:
        wanted[resource.RLIMIT_NPROC] = limits.processes
    if limits.files:
        wanted[resource.RLIMIT_NOFILE] = limits.files
    if limits.data:
        wanted[resource.RLIMIT_DATA] = limits.data
    return {number: _at_most_ours(number, value) for number, value in wanted.items()}


def shell_limits(limits: SandboxLimits) -> str:
    """Return shell text that sets the limits in any POSIX shell."""
    commands = ""
    for number, value in rlimits(limits).items():
        if number == resource.RLIMIT_NPROC:
            # dash and ash call it p, which bash refuses and calls u.
            commands += f"ulimit -p {value} 2>/dev/null || ulimit -u {value}; "
        else:
            flag, unit = _FLAGS[number]
            commands += f"ulimit -{flag} {value // unit}; "
    return commands


_FLAGS = {
    resource.RLIMIT_CORE: ("c", 512),
    resource.RLIMIT_NOFILE: ("n", 1),
    resource.RLIMIT_DATA: ("d", 1024),
}


def _at_most_ours(number: int, value: int) -> int:
    hard = resource.getrlimit(number)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def _kernel() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    return (int(found[1]), int(found[2])) if found else (0, 0)


_HIERARCHIES = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
_JOIN = 'echo $$ >"$0" && exec "$@"'
_serial = itertools.count(1)
_left: set[Path] = set()
"""Control groups that still had members when they should have been removed."""


def prepare(processes: int) -> tuple[list[str], Callable[[], None]]:
    """Return arguments that limit a command and its descendants to `processes`, and a cleanup function.

    Without root rights, or if no control group can be created, there are no arguments and nothing is cleaned
    up. The cleanup removes the group; one that is not empty yet is removed later.
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
    """Remove control groups of Hermes processes that no longer exist. Runs only once."""
    for hierarchy in _HIERARCHIES:
        for folder in hierarchy.glob("hermes-*-*"):
            owner = folder.name.split("-")[1]
            if owner.isdigit() and not Path("/proc", owner).exists():
                _remove(folder)


@atexit.register
def _remove_left() -> None:
    for folder in list(_left):
        _remove(folder)


def memory_file(data: bytes, name: str) -> int:
    """Return an inheritable descriptor for a new file in memory that contains `data`. Raises `OSError`."""
    descriptor = os.memfd_create(name, 0)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def closer(*descriptors: int) -> Callable[[], None]:
    """Return a function that closes the descriptors; calling it again does nothing."""
    left = list(descriptors)

    def close() -> None:
        while left:
            os.close(left.pop())

    return close

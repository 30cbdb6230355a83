"""Limits of one sandbox, in the forms the kernel and the shell take them."""

from __future__ import annotations

import platform
import re
import resource

from tools.services.sandbox import SandboxLimits

_COUNTS_BY_NAMESPACE = (5, 14)
"""Linux since which processes are counted by user namespace; before, the whole desktop would count."""


def rlimits(limits: SandboxLimits) -> dict[int, int]:
    """Limits by the numbers of the `resource` module, none above what we have ourselves."""
    wanted = {resource.RLIMIT_CORE: 0}
    if limits.processes and _kernel() >= _COUNTS_BY_NAMESPACE:
        wanted[resource.RLIMIT_NPROC] = limits.processes
    if limits.files:
        wanted[resource.RLIMIT_NOFILE] = limits.files
    if limits.data:
        wanted[resource.RLIMIT_DATA] = limits.data
    return {number: _at_most_ours(number, value) for number, value in wanted.items()}


def shell_limits(limits: SandboxLimits) -> str:
    """The same as commands of any POSIX shell."""
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

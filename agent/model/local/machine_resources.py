"""Resources of this machine for a local model: physical cores, free cores, free memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_CPUS = Path("/sys/devices/system/cpu")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_MEMORY = Path("/proc/meminfo")


def physical_cores(cpus: Path = _CPUS, quota: Path = _QUOTA) -> int:
    """Cores this process may use, counting hyper-threads once; at least 1.

    Threads beyond this slow llama.cpp down. A container's CPU quota counts too.
    """
    if sys.platform != "linux":
        return max(1, os.cpu_count() or 1)
    allowed = os.sched_getaffinity(0)
    siblings = {
        _read(cpus / f"cpu{number}/topology/thread_siblings_list") or str(number) for number in allowed
    }
    limit, _, period = _read(quota).partition(" ")
    share = int(limit) / int(period) if limit.isdigit() and period.isdigit() and int(period) else len(allowed)
    return max(1, min(len(siblings), round(share)))


def free_cores(cores: int, load: float | None = None) -> int:
    """Of `cores`, those that are not kept busy by other programs; at least 1.

    Two threads on two shared cores wait for each other at every layer: measured four
    times slower than one thread (docs/local-model.md). `load` is the load average.
    """
    if load is None:
        try:
            load = os.getloadavg()[0]
        except OSError:
            return cores
    return max(1, cores - round(load))


def free_memory(table: Path = _MEMORY) -> int | None:
    """Bytes that can be used without swapping, or None where the system does not say."""
    for line in _read(table).splitlines():
        name, _, rest = line.partition(":")
        number = rest.split()[:1]
        if name == "MemAvailable" and number and number[0].isdigit():
            return int(number[0]) * 1024
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""

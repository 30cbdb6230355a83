"""Starting our launcher program, and asking the kernel what it offers."""

from __future__ import annotations

import ctypes
import functools
import marshal
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.safety.sandbox.descriptors import filled

_FOLDER = Path(__file__).parent
# Run as a module, so that its compiled form is used.
_START = "import sys; sys.path.append(sys.argv.pop(1)); import launcher; launcher.main()"
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_VERSION = 1


@functools.cache
def interpreter() -> str:
    """The Python that runs us, without the virtual environment around it."""
    return os.path.realpath(sys.executable)


@functools.cache
def own_files() -> tuple[Path, ...]:
    """What the launcher needs to read, and commands that use our Python, wherever Hermes is installed."""
    prefixes = dict.fromkeys(Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix))
    return (_FOLDER, *prefixes, Path(interpreter()))


def launcher_argv(spec: Mapping[str, Any]) -> tuple[list[str], tuple[int, ...]]:
    """Arguments that start the launcher with `spec`, to be followed by a command; and what it inherits."""
    descriptor = filled(marshal.dumps(dict(spec)), "hermes-launch")
    return [interpreter(), "-I", "-S", "-c", _START, str(_FOLDER), str(descriptor)], (descriptor,)


@functools.cache
def landlock_version() -> int:
    """Version of the kernel's Landlock interface, 0 when there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(
        ctypes.c_long(_LANDLOCK_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint(_LANDLOCK_VERSION)
    )
    return max(version, 0)

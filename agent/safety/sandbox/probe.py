"""Finding the strongest boundary this machine offers, by drawing it once and trying to get out."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from agent.safety.sandbox import seatbelt
from agent.safety.sandbox.bubblewrap import Bubblewrap
from agent.safety.sandbox.landlock import SCOPES_SINCE, Landlock
from agent.safety.sandbox.launch import landlock_version
from agent.safety.sandbox.none import NoSandbox
from agent.safety.sandbox.seccomp import supported
from tools.results import ToolError
from tools.services.sandbox import Sandbox, SandboxPolicy

SandboxMode = Literal["auto", "bubblewrap", "landlock", "seatbelt", "off"]
_PATIENCE = 10.0
_TRIAL = (
    'echo in > "$1/inside" && cat "$1/inside" && if (echo out > "$2/outside") 2>/dev/null; then exit 9; fi; '
    'if cat "$3/secret" 2>/dev/null; then exit 8; fi; '
    # Numbers count anew in a process space of its own: only where it is the same one do they name us.
    # A system without such spaces has an empty name for its own.
    '{ space=$(readlink /proc/self/ns/pid 2>/dev/null) || [ -z "$5" ]; } || exit 6; '
    'if [ "$space" = "$5" ] && kill -0 "$4" 2>/dev/null; then exit 7; fi; exit 0'
)
_OWN_SPACE = Path("/proc/self/ns/pid")


@functools.cache
def probe(mode: SandboxMode = "auto") -> Sandbox:
    """The boundary for `mode`, tried once in this process. Blocks for some 50 ms the first time.

    `auto` takes the first that holds. A mode that was asked for and does not hold gives none, which
    the status bar shows.
    """
    if mode == "off":
        return NoSandbox()
    for candidate in _candidates(mode):
        if holds(candidate):
            return candidate
    return NoSandbox()


def _candidates(mode: SandboxMode) -> Iterator[Sandbox]:
    if sys.platform == "darwin":
        if mode in ("auto", "seatbelt") and Path(seatbelt.PROGRAM).exists():
            yield seatbelt.Seatbelt()
    elif sys.platform.startswith("linux") and supported():
        yield from _of_linux(mode)


def _of_linux(mode: SandboxMode) -> Iterator[Sandbox]:
    program = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin")
    if mode in ("auto", "bubblewrap") and program is not None:
        yield Bubblewrap(program)
    if mode in ("auto", "landlock") and landlock_version() >= 1:
        yield Landlock(spaces=True)
        if landlock_version() >= SCOPES_SINCE:
            # Without namespaces, older versions leave signals to everybody open.
            yield Landlock(spaces=False)


def holds(sandbox: Sandbox) -> bool:
    """Whether a command works inside `sandbox` and does not get out; not where that cannot be tried."""
    try:
        with tempfile.TemporaryDirectory(prefix="hermes-probe-", ignore_cleanup_errors=True) as made:
            return _holds(sandbox, Path(made).resolve())
    except (OSError, ToolError, subprocess.TimeoutExpired):
        return False


def _holds(sandbox: Sandbox, root: Path) -> bool:
    for name in ("work", "out", "hidden", "tmp"):
        (root / name).mkdir()
    (root / "hidden" / "secret").write_text("secret")
    policy = SandboxPolicy(
        workspace=root / "work",
        tmp=root / "tmp",
        readable=(root / "out",),
        hidden=(root / "hidden",),
    )
    said = [str(root / name) for name in ("work", "out", "hidden")]
    us = [str(os.getpid()), str(_OWN_SPACE.readlink()) if _OWN_SPACE.exists() else ""]
    code, output = _run(sandbox, policy, ["/bin/sh", "-c", _TRIAL, "sh", *said, *us])
    return code == 0 and output == b"in\n" and not (root / "out" / "outside").exists()


def _run(sandbox: Sandbox, policy: SandboxPolicy, argv: list[str]) -> tuple[int, bytes]:
    wrapped = sandbox.wrap(argv, policy)
    try:
        done = subprocess.run(
            wrapped.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin", **wrapped.env},
            cwd="/",
            pass_fds=wrapped.fds,
            timeout=_PATIENCE,
            start_new_session=True,
            check=False,
        )
        return done.returncode, done.stdout
    finally:
        wrapped.started()
        wrapped.ended()

"""The result of a check of `hermes doctor`, and a runner of several checks with a time limit."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent.core.home import Home

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """The outcome of one check. `mend` says how to fix a problem; it may be empty."""

    name: str
    state: State
    detail: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class HealthSubject:
    """The inputs of the checks. `program_time` is the time limit in seconds for a started program."""

    home: Home
    environ: Mapping[str, str]
    workspace: Path
    program_time: float = 3.0


Check = Callable[[HealthSubject], HealthFinding]


def examine(checks: Mapping[str, Check], subject: HealthSubject, seconds: float) -> list[HealthFinding]:
    """Run all checks at once and return their findings in order, after at most `seconds`.

    A check that fails to run, or does not end in time, is a finding itself.
    """
    done: queue.SimpleQueue[HealthFinding] = queue.SimpleQueue()
    for name, check in checks.items():
        # Daemons, so that a check that hangs does not keep the program from ending.
        threading.Thread(target=_run, args=(name, check, subject, done), name=name, daemon=True).start()
    deadline = time.monotonic() + seconds
    found: dict[str, HealthFinding] = {}
    while len(found) < len(checks):
        try:
            finding = done.get(timeout=max(deadline - time.monotonic(), 0))
        except queue.Empty:
            break
        found[finding.name] = finding
    late = f"no answer within {seconds:g} seconds"
    return [
        found.get(name, HealthFinding(name, "warn", late, "Run `hermes doctor` again.")) for name in checks
    ]


def _run(name: str, check: Check, subject: HealthSubject, done: queue.SimpleQueue[HealthFinding]) -> None:
    try:
        finding = check(subject)
    except Exception as error:
        finding = HealthFinding(name, "fail", f"the check itself failed: {type(error).__name__}: {error}")
    done.put(HealthFinding(name, finding.state, finding.detail, finding.mend))


def output_of(argv: Sequence[str | Path], seconds: float) -> tuple[int, str]:
    """Return exit code and output of a program run with a bare environment. Raises `OSError` if it cannot
    start.

    The output is cut after 4,000 bytes. A program that exceeds `seconds` is killed and gets exit code 124.
    """
    environ = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1"}
    try:
        result = subprocess.run(
            [str(part) for part in argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environ,
            cwd="/",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, "it did not end"
    return result.returncode, result.stdout[:4000].decode("utf-8", "replace").strip()

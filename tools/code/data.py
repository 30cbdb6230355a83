"""Input and outcome of a run of a script."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Mode = Literal["strict", "project"]
"""`strict`: our own interpreter, isolated, standard library only. `project`: the project's interpreter."""

Status = Literal["ok", "error", "timeout", "interrupted", "crashed"]
"""How a script ended.

`ok`: exit code 0. `error`: a traceback or another exit code. `timeout`: killed
when its time was up. `interrupted`: stopped by a person. `crashed`: its process
died of a signal, or could not go on.
"""

Serve = Callable[[str, dict[str, Any]], Awaitable[str]]
"""Runs one inner call, gate included: tool name and arguments in, JSON text out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """What one script may use. Sizes in bytes, times in seconds."""

    seconds: float = 120.0
    grace: float = 5.0
    """Between SIGTERM and SIGKILL."""
    calls: int = 50
    output: int = 50_000
    """Of stdout, in what goes to the model."""
    errors: int = 10_000
    """Of stderr, in what goes to the model."""
    memory: int = 4_000_000_000
    """Private memory of the child; 0 means no limit of our own."""
    processes: int = 256
    """Processes and threads the script may start beyond those that its user runs already; 0: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeJob:
    """One script to run.

    `tools` are the definitions on offer in this session (`{"name", "description",
    "parameters"}`, as `Registry.definitions` gives them); what scripts may not
    call is left out by the runner. `known` names every registered tool, so that
    an excluded one is told from an unknown one. `folder` is where the script
    runs, `environ` the environment it is derived from (scrubbed by the runner).
    """

    script: str
    folder: Path
    tools: tuple[Mapping[str, Any], ...] = ()
    known: frozenset[str] = frozenset()
    limits: CodeLimits = CodeLimits()
    mode: Mode = "strict"
    environ: Mapping[str, str] = field(default_factory=dict)
    task: str = "main"
    """Named kernels belong to a task."""
    session: str | None = None
    """Name of a persistent kernel; None runs in a fresh child."""
    reset: bool = False
    """Start the named kernel anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One inner call that has ended. `duration` is in seconds."""

    number: int
    """From 1, in the order in which calls came in."""
    tool: str
    duration: float
    ok: bool
    result_size: int
    """Characters of the whole result."""
    shown: Shown

    @property
    def arguments(self) -> str:
        """The arguments on one short line, cleaned and masked."""
        return self.shown.line(self.shown.arguments)

    @property
    def preview(self) -> str:
        """The beginning of the result on one short line, cleaned and masked."""
        return self.shown.line(self.shown.result)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a call may be shown by, before `line` makes it fit to be seen: only who looks pays for that."""

    arguments: str
    result: str
    line: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class RunningCall:
    """One inner call that is under way. `started` is in seconds since the start of the script."""

    number: int
    tool: str
    arguments: str
    started: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeProgress:
    """A look at a running script, sent when calls start or end and when there is new output.

    At most thirty a second; every call that ends is in `finished` of exactly one.
    """

    calls: int
    """Calls accepted so far."""
    limit: int
    elapsed: float
    running: tuple[RunningCall, ...] = ()
    finished: tuple[CallRecord, ...] = ()
    """The calls that have ended since the last look."""
    output: str = ""
    """The newest lines of stdout, cleaned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeOutcome:
    """How a run ended and what is left of it. Both texts are cleaned and cut to the limits."""

    status: Status
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    """None when the script never ran or its process was killed; 128 + n for signal n."""
    duration: float = 0.0
    """Seconds, without the time that was spent waiting for a person."""
    calls: tuple[CallRecord, ...] = ()
    calls_made: int = 0
    message: str = ""
    """One sentence on what went wrong, for any status but `ok`."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """`mode`, `interpreter`, `warm` (a spare was used), `session`, `stdout_bytes`, `stderr_bytes`."""

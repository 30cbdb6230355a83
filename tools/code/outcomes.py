"""The outcome of a script, made from what happened to its child."""

from __future__ import annotations

import signal
from typing import Any

from tools.code.call_dispatcher import CallDispatcher
from tools.code.capture import Capture
from tools.code.data import CodeJob, CodeOutcome, Status
from tools.code.process import ScriptChild
from tools.code.run_watch import RunEnd

_DEADLY = frozenset(
    {
        signal.SIGABRT,
        signal.SIGALRM,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGHUP,
        signal.SIGILL,
        signal.SIGKILL,
        signal.SIGPIPE,
        signal.SIGSEGV,
        signal.SIGTERM,
    }
)
"""Signals by which a boundary may report the end of what it held, as 128 + n."""


def outcome(
    job: CodeJob,
    end: RunEnd,
    child: ScriptChild,
    dispatcher: CallDispatcher,
    captures: tuple[Capture, Capture],
    seconds: float,
) -> CodeOutcome:
    """The outcome of a run that is over; `seconds` is how long it took."""
    code = end.code if end.code is not None else exit_code(child)
    status, message = _judge(end, child, code)
    out, errors = captures
    return CodeOutcome(
        status=status,
        stdout=out.text(),
        stderr=errors.text(),
        exit_code=code,
        duration=seconds,
        calls=tuple(sorted(dispatcher.records, key=lambda record: record.number)),
        calls_made=dispatcher.made,
        message=message,
        metadata=metadata(job, interpreter=child.recipe.interpreter.path)
        | {"stdout_bytes": out.total, "stderr_bytes": errors.total},
    )


def metadata(job: CodeJob, **more: Any) -> dict[str, Any]:
    """What is known of any run."""
    named = {"session": job.session} if job.session is not None else {}
    return {"mode": job.mode, **named, **more}


def exit_code(child: ScriptChild) -> int | None:
    """The exit code as shells show it; None when the process did not end."""
    if not child.exited.done():
        return None
    code = child.exited.result()
    return 128 - code if code < 0 else code


def _judge(end: RunEnd, child: ScriptChild, code: int | None) -> tuple[Status, str]:
    if end.status is not None:
        return end.status, end.message
    killer = _killer(child) if end.code is None else None
    if killer is not None:
        return "crashed", f"The process of the script died of signal {killer.value} ({killer.name})."
    lost = " What the session held is lost." if child.is_kernel and end.code is None else ""
    if code == 0:
        return "ok", lost.strip()
    return "error", f"The script ended with exit code {code}.{lost}"


def _killer(child: ScriptChild) -> signal.Signals | None:
    """The signal that ended the child, if one did."""
    code = child.exited.result()
    if code >= 0:
        is_relayed = child.is_bounded and code - 128 in _DEADLY and code != child.reported
        code = 128 - code if is_relayed else 0
    try:
        return signal.Signals(-code) if code < 0 else None
    except ValueError:
        return None

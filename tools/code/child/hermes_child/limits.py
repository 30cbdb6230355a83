"""Limits that the operating system puts on this process and its children."""

from __future__ import annotations

import os

_SET_SIGNAL = 10
"""F_SETSIG of Linux; the module fcntl does not name it."""
_KILL, _INTERRUPT = 9, 2
"""SIGKILL and SIGINT; the module signal takes a while to import."""


def apply(memory, processes):
    """Lower the limits of this process permanently. 0 leaves a limit unchanged."""
    import resource

    _lower(resource, resource.RLIMIT_CORE, 0)
    if memory and hasattr(resource, "RLIMIT_DATA"):
        _lower(resource, resource.RLIMIT_DATA, memory)
    if processes and hasattr(resource, "RLIMIT_NPROC"):
        _lower(resource, resource.RLIMIT_NPROC, processes)


def die_with(lifeline):
    """Have the kernel kill this process group when the other end of the pipe `lifeline` closes.

    A thread that waits for the end of the pipe is not enough: code that never releases the interpreter would
    block it.
    """
    if not _signal_on_news(lifeline, _KILL, -os.getpgrp()):
        # The agent's guard still watches over the group.
        return
    # Checked last, to notice an agent that ended before the kernel was set up.
    try:
        gone = os.read(lifeline, 1) == b""
    except BlockingIOError:
        gone = False
    if gone:
        os.killpg(os.getpgrp(), _KILL)


def interrupt_by(nudge):
    """Have the kernel interrupt this process whenever something is written to the pipe `nudge`.

    Unlike a signal, this needs no process id, so it works through a sandbox.
    """
    _signal_on_news(nudge, _INTERRUPT, os.getpid())


def _signal_on_news(descriptor, number, owner):
    import fcntl

    os.set_inheritable(descriptor, False)
    try:
        fcntl.fcntl(descriptor, _SET_SIGNAL, number)
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, owner)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    except (OSError, AttributeError):
        return False
    return True


def _lower(resource, kind, value):
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    try:
        resource.setrlimit(kind, (value, value))
    except (OSError, ValueError):
        # Not every system takes every limit.
        pass

"""Tracebacks that show the script and not the runner."""

from __future__ import annotations

import linecache
import sys
import traceback

_OURS = __file__.rpartition("/")[0] + "/"
_STUBS = "hermes_tools.py"


def remember(name, source):
    """Store the lines of a script that is not in a file, so that tracebacks can quote them."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)


def trim(error):
    """Remove the runner's frames from an exception and from all exceptions linked to it."""
    seen = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = _users(one.__traceback__)
        waiting += [one.__cause__, one.__context__]
        members = getattr(one, "exceptions", ())
        if isinstance(members, tuple):
            waiting += [member for member in members if isinstance(member, BaseException)]


def show(kind, error, trace):
    """Print an uncaught exception to standard error."""
    try:
        traceback.print_exception(kind, error, trace, file=sys.stderr)
    except RecursionError:
        sys.stderr.write(f"{kind.__name__}: the exception cannot be shown\n")


def show_of_thread(arguments):
    """Print an uncaught exception of a thread, except SystemExit, to standard error."""
    if arguments.exc_type is SystemExit:
        return
    name = arguments.thread.name if arguments.thread is not None else "?"
    sys.stderr.write(f"Exception in thread {name}:\n")
    trim(arguments.exc_value)
    show(arguments.exc_type, arguments.exc_value, arguments.exc_value.__traceback__)


def _users(trace):
    kept = []
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith(_OURS) and name != _STUBS:
            kept.append(trace)
        trace = trace.tb_next
    for one, following in zip(kept, [*kept[1:], None]):  # noqa: B905 older interpreters lack strict
        one.tb_next = following
    return kept[0] if kept else None

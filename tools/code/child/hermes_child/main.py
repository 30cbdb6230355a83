"""The main program of a script's process, from the first frame to the end of the script."""

from __future__ import annotations

import builtins
import io
import marshal
import os
import sys

from . import channel, frames

Module = type(sys)

_REHEARSAL = """
import json, re
from hermes_tools import *
def double(x, *rest, y=2):
    try:
        return [f"{one}" for one in (x, *rest) if one] + [y]
    except (TypeError, ValueError) as error:
        raise RuntimeError("no") from error
for name, value in sorted({"a": double(1), "b": double(2)}.items()):
    text = f"{name} {len(value)}".split()
    while not text:
        break
"""
_SIGNALS = 128
"""The exit code above which codes may stand for signals."""


class ScriptSource:
    """The loader of a script, which provides its text to tracebacks and `inspect`."""

    def __init__(self, text):
        self._text = text

    def get_source(self, _name):
        return self._text


def main():
    """Read the setup and a script from standard input and run the script; return its exit code."""
    link = _take_standard_input()
    setup = frames.read_frame(link)
    if setup is None:
        return 0
    _prepare(setup, link)
    # Frames follow each other on a kernel's link: a reply nobody waited for must not get between them.
    lines = channel.Lines(setup["token"], setup["socket"], None if setup["kernel"] else link)
    _install(setup, lines)
    if setup["warm"]:
        _preload()
        _tell(channel.Line(link), setup, "ready")
    if setup["kernel"]:
        return _serve_kernel(setup, link)
    job = frames.read_frame(link)
    if job is None:
        return 0
    code = run(_new_main(), job["script"], job["name"])
    if code > _SIGNALS:
        _tell(channel.Line(link), setup, "done", code)
    return code


def run(module, source, name):
    """Run a script in a module; return its exit code."""
    module.__file__, module.__loader__ = name, ScriptSource(source)
    if "linecache" in sys.modules:
        _traces().remember(name, source)
    try:
        exec(compile(source, name, "exec", dont_inherit=True), module.__dict__)
    except SystemExit as request:
        return _exit_code(request.code)
    except BaseException as error:
        traces = _traces()
        traces.remember(name, source)
        traces.trim(error)
        _flush(sys.stdout)
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _serve_kernel(setup, link):
    """Run scripts in the same module, one after another, until the agent disconnects."""
    import signal

    module = _new_main()
    notes = channel.Line(link)
    while True:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        job = frames.read_frame(link)
        if job is None:
            return 0
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            code = run(module, job["script"], job["name"])
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        except KeyboardInterrupt:
            # The request to stop came when the script had already ended.
            code = 130
        _flush(sys.stdout)
        _flush(sys.stderr)
        sys.modules["__main__"] = module
        _tell(notes, setup, "done", code)


def _tell(line, setup, event, code=0):
    """Notify the agent that this process is ready for a script, or that the script ended with `code`.

    The agent cannot read the code from the process, because a sandbox reports signals as exit codes.
    """
    try:
        line.tell({"token": setup["token"], "event": event, "code": code})
    except OSError:
        # Nobody is there any more, or the script has closed what was not its own.
        pass


def _take_standard_input():
    """Give the script an empty standard input; return the descriptor of the original, the agent's link."""
    link = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return link


def _prepare(setup, link):
    from . import limits

    if setup["lifeline"] >= 0:
        limits.die_with(setup["lifeline"])
    if setup["nudge"] >= 0:
        limits.interrupt_by(setup["nudge"])
    limits.apply(setup["memory"], setup["processes"])
    sys.path[:] = setup["path"] + [entry for entry in sys.path if entry not in setup["hide"]]
    sys.argv[:] = ["script.py"]
    # -S leaves out the module that defines these, and models do write `exit()`.
    builtins.exit = builtins.quit = sys.exit
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)
    sys.excepthook = _show


def _install(setup, lines):
    """Install the module `hermes_tools`, so that the script can import it."""
    module = Module("hermes_tools")
    module.__file__ = setup["file"]
    module._call = lines.call
    code = setup["module"]
    if isinstance(code, bytes):
        code = marshal.loads(code)
    else:
        module.__loader__ = ScriptSource(code)
        code = compile(code, "hermes_tools.py", "exec", dont_inherit=True)
    exec(code, module.__dict__)
    sys.modules["hermes_tools"] = module


def _preload():
    """Import and use once the modules that nearly every script needs, before the script arrives."""
    import json
    import re  # noqa: F401
    import socket  # noqa: F401
    import threading

    threading.excepthook = _traces().show_of_thread
    # Parser, compiler and codecs come into memory with their first use, which takes longer than the work.
    exec(compile(_REHEARSAL, "", "exec", dont_inherit=True), {"__builtins__": builtins})
    json.loads(channel.encode({"text": "one\n", "list": [1, 2.0, None, True]}))


def _new_main():
    module = Module("__main__")
    module.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = module
    return module


def _show(kind, error, trace):
    _traces().show(kind, error, trace)


def _traces():
    from . import traces

    return traces


def _exit_code(code):
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    _flush(sys.stdout)
    sys.stderr.write(f"{code}\n")
    return 1


def _flush(stream):
    try:
        stream.flush()
    except (OSError, ValueError, AttributeError):
        # The script closed or replaced it.
        pass

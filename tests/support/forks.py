"""`hermes` and its processes without the start of an interpreter: forks of one that has imported the program.

Wherever a test starts `tests.support.command.HERMES`, or one of the processes in `OF_OURS`, `Popen` forks;
so it does in forks of the commands in `STARTING`, which start such processes themselves. What comes of it is
a child of the test with its own arguments, environment, folder and streams, and ends as one that was started
does; only what Python does before `main` is shared. Where that is the point, or Python is asked for something
else (a locale, a variable of its own), it is started; so is what a shell runs.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import functools
import gc
import importlib
import inspect
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.command import ROOT, START

SERVER = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.support.forks import serve; exec(serve())"
)
CHILD = re.compile(
    r"import sys; sys\.path\[:\] = \[.*\]; .*make_private\(\); "
    r"from ([\w.]+) import main; main\(\); .*exit_process\(0\)"
)
"""What a process of ours runs (`tools.kit.children`)."""
OF_OURS = {
    "agent.api.child": "agent.session.runtime",
    "agent.automation.batch.worker": "agent.automation.batch.worker",
    "agent.integrations.mcp.host.main": "agent.integrations.mcp.host.connection",
}
"""Processes that are forked, and what each is to have imported."""
STARTING = {"batch": "agent.automation.batch.worker", "mcp": "agent.integrations.mcp.host.connection"}
"""Commands that start processes of ours, and what these are to have imported."""
PROGRAM = (
    "agent.session.runtime",
    "agent.model.transport.client",
    "openai",
    "yaml",
    "pydantic",
    "app.tui.application",
)
"""What a command imports late, beside its own module."""
ANSWER = struct.Struct("i")
MOST_STREAMS = 16
LONGEST_NAME = 100
"""Bytes of the name of a module."""
OF_PYTHON = ("PYTHON", "TEXTUAL", "COVERAGE", "LD_", "MALLOC")
"""How variables begin that mean something before `main`."""
LOCALES = (None, "", "C.UTF-8")
PR_SET_CHILD_SUBREAPER = 36

_one_at_a_time = threading.Lock()


def serve() -> str:
    """Fork for each request on the socket that is standard input. Returns in each fork; what it is to run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=os.dup(0)) as channel:
        commands = [
            ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for path in (ROOT / "app" / "cli").rglob("[a-z]*.py")
        ]
        # Read when a library is imported.
        os.environ.setdefault("TEXTUAL_FPS", importlib.import_module("app.main").FRAMES)
        for name in (*PROGRAM, *commands):
            importlib.import_module(name)
        return _fork_for(channel)


def _fork_for(channel: socket.socket) -> str:
    while True:
        message, streams, *_ = socket.recv_fds(channel, LONGEST_NAME, MOST_STREAMS)
        if not message:
            os._exit(0)
        if (module := message.decode()) not in sys.modules:
            importlib.import_module(module)
            assert threading.active_count() == 1, "a process with threads cannot be forked"
            gc.freeze()
        (number, told), (beginning, held) = os.pipe(), os.pipe()
        if not (between := os.fork()):
            if child := os.fork():
                os.write(told, ANSWER.pack(child))
                os._exit(0)
            os.close(held)
            channel.close()
            # Until this is closed the process that is to be the parent is not.
            os.read(beginning, 1)
            return _become(*streams)
        child = os.read(number, ANSWER.size)
        os.waitpid(between, 0)
        for stream in (number, told, beginning, held, *streams):
            os.close(stream)
        channel.sendall(child)


def _become(request: int, *streams: int) -> str:
    with open(request, encoding="utf-8") as file:
        asked = json.load(file)
    targets: list[int] = asked["streams"]
    above = max(targets) + 1
    copies = [fcntl.fcntl(stream, fcntl.F_DUPFD_CLOEXEC, above) for stream in streams]
    for copy, target in zip(copies, targets, strict=True):
        os.dup2(copy, target)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in targets:
            try:
                os.close(int(name))
            except OSError:  # the folder itself
                continue
    if asked["session"]:
        os.setsid()
    os.umask(asked["umask"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    time.tzset()
    os.chdir(asked["folder"])
    sys.argv = ["-c", *asked["arguments"]]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=stream is sys.stderr or os.isatty(1))  # type: ignore[union-attr]
    if next(iter(asked["arguments"]), "") in STARTING:
        ours, theirs = socket.socketpair()
        if not os.fork():
            ours.close()
            return _serve_beside(theirs)
        theirs.close()
        _own_server[os.getpid()] = ours
        fork_where_possible()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return str(asked["code"])


def _serve_beside(channel: socket.socket) -> str:
    """Fork for the process that this one was forked from, while it lives. Holds none of its streams."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(os.devnull, "r+b") as nothing:
        for number in range(3):
            os.dup2(nothing.fileno(), number)
    return _fork_for(channel)


_own_server: dict[int, socket.socket] = {}
"""By process id: the socket to the process beside a fork that forks for it."""


@functools.cache
def _server(owner: int) -> socket.socket:
    """The socket to the process that forks for the process `owner`, which is this one."""
    if (beside := _own_server.get(owner)) is not None:
        return beside
    ours, theirs = socket.socketpair()
    server = subprocess.Popen([sys.executable, "-I", "-c", SERVER], stdin=theirs.fileno())
    theirs.close()

    def end() -> None:
        if os.getpid() == owner:
            ours.close()
            server.wait()

    atexit.register(end)
    return ours


def fork_where_possible() -> None:
    """Let every `subprocess.Popen` of this process fork where that comes to the same."""
    start: Callable[..., None] = getattr(subprocess.Popen, "_execute_child")  # noqa: B009
    names = list(inspect.signature(start).parameters)

    def started(popen: Any, *details: Any) -> None:
        asked = dict(zip(names, (popen, *details), strict=True))
        if (program := _program(asked)) is None:
            start(popen, *details)
            return
        ends = [asked[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")]
        given = [end if end != -1 else number for number, end in enumerate((ends[0], ends[3], ends[5]))]
        kept = [int(each) for each in asked["pass_fds"]]
        environ: Mapping[str, str] = os.environ if asked["env"] is None else asked["env"]
        if (umask := int(asked["umask"])) == -1:
            umask = os.umask(0o022)
            os.umask(umask)
        request = {
            "code": program[0],
            "arguments": program[1:],
            "environ": dict(environ),
            "folder": os.fspath(asked["cwd"] or os.getcwd()),
            "session": bool(asked["start_new_session"]),
            "umask": umask,
            "streams": [0, 1, 2, *kept],
        }
        if child := CHILD.fullmatch(program[0]):
            module = OF_OURS[child[1]]
        else:
            module = STARTING.get(next(iter(program[1:]), ""), "app.main")
        popen.pid = _forked(request, [*given, *kept], module)
        popen._child_created = True
        popen._close_pipe_fds(*ends)

    setattr(subprocess.Popen, "_execute_child", started)  # noqa: B010


def _program(asked: dict[str, Any]) -> list[str] | None:
    """What Python is to run, and with which arguments; None if it has to be started for that."""
    if sys.platform != "linux" or not isinstance(asked["args"], list | tuple):
        return None
    python, *args = map(os.fspath, asked["args"])
    flags, args = (args[:1], args[1:]) if args[:1] == ["-I"] else ([], args)
    if python != sys.executable or args[:1] != ["-c"] or not all(map(_plain, args)):
        return None
    child = CHILD.fullmatch(args[1]) if flags else None
    if args[1] != START and (child is None or child[1] not in OF_OURS):
        return None
    usual = {"executable": None, "preexec_fn": None, "close_fds": True, "shell": False}
    usual |= {"gid": None, "gids": None, "uid": None, "process_group": -1}
    if any(asked.get(name, value) != value for name, value in usual.items()):
        return None
    environ: Mapping[str, str] = os.environ if asked["env"] is None else asked["env"]
    if any(not _plain(name) or not _plain(value) for name, value in environ.items()):
        return None
    if any(name.startswith(OF_PYTHON) and name not in os.environ for name in environ):
        return None
    if any(environ.get(name) not in LOCALES for name in ("LANG", "LC_ALL", "LC_CTYPE")):
        return None
    if asked["cwd"] is not None and not Path(asked["cwd"]).is_dir():
        return None
    return args[1:]


def _plain(text: object) -> bool:
    """Whether JSON brings it over as it is."""
    return isinstance(text, str) and text.isprintable()


def _forked(request: dict[str, Any], streams: list[int], module: str) -> int:
    """The process id of a new child of this process, which has imported `module`."""
    with _one_at_a_time, tempfile.TemporaryFile() as asked:
        asked.write(json.dumps(request).encode())
        asked.seek(0)
        channel = _server(os.getpid())
        # A fork of a fork becomes a child of the nearest process above that says it takes those.
        _take_orphans(True)
        try:
            socket.send_fds(channel, [module.encode()], [asked.fileno(), *streams])
            answer = channel.recv(ANSWER.size, socket.MSG_WAITALL)
        finally:
            _take_orphans(False)
    if len(answer) < ANSWER.size:
        raise RuntimeError("the process that forks has ended; its error is above")
    return int(ANSWER.unpack(answer)[0])


def _take_orphans(whether: bool) -> None:
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(whether), 0, 0, 0):
        raise OSError("the system does not let a process take the children of its children")

"""`hermes` without the start of an interpreter: forks of one process that has imported the program.

Each command is a process of its own, with its own arguments, environment, folder and streams, and ends as
one that was started does. Only what Python does before `main` is shared.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
SERVER = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.support.forks import serve; serve(); "
    "from hermes_launcher import main; sys.exit(main())"
)
PROGRAM = ("agent.runtime", "agent.model.transport.client", "openai", "yaml", "pydantic")
"""What a command imports late, beside its own module."""
ANSWER = struct.Struct("i")
ENDED = struct.Struct("id")
"""The exit code of a command, and what it and its children took of a processor, in seconds."""

_taken = 0.0


def taken() -> float:
    """Seconds of a processor that the commands run here have taken; the system counts them for the server."""
    return _taken


def serve() -> None:
    """Fork for each request on the socket that is standard input. Returns in each fork, as the command."""
    with socket.socket(fileno=os.dup(0)) as channel:
        commands = [f"app.cli.{path.stem}" for path in (ROOT / "app" / "cli").glob("[a-z]*.py")]
        for name in (*PROGRAM, *commands):
            importlib.import_module(name)
        assert threading.active_count() == 1, "a process with threads cannot be forked"
        gc.freeze()
        while True:
            message, streams, *_ = socket.recv_fds(channel, 1, 4)
            if not message:
                os._exit(0)
            child = os.fork()
            if not child:
                break
            channel.sendall(ANSWER.pack(child))
            for stream in streams:
                os.close(stream)
            _, status, used = os.wait4(child, 0)
            seconds = used.ru_utime + used.ru_stime
            channel.sendall(ENDED.pack(os.waitstatus_to_exitcode(status), seconds))
    _become(*streams)


def _become(request: int, *streams: int) -> None:
    with open(request, encoding="utf-8") as file:
        asked = json.load(file)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(asked["environ"])
    time.tzset()
    os.chdir(asked["folder"])
    sys.argv = ["-c", *asked["arguments"]]


@functools.cache
def _server(owner: int) -> socket.socket:
    """The socket to the process that forks for the process `owner`, which is this one."""
    ours, theirs = socket.socketpair()
    server = subprocess.Popen(
        [sys.executable, "-I", "-c", SERVER], stdin=theirs.fileno(), start_new_session=True
    )
    theirs.close()

    def end() -> None:
        if os.getpid() == owner:
            ours.close()
            server.wait()

    atexit.register(end)
    return ours


def run(
    arguments: list[str], environ: dict[str, str], folder: Path, stdin: str, limit: float
) -> subprocess.CompletedProcess[str]:
    """Run `hermes` to its end, as `subprocess.run` would; `limit` in seconds."""
    global _taken
    channel = _server(os.getpid())
    request = {"arguments": arguments, "environ": environ, "folder": str(folder)}
    with _file(json.dumps(request)) as asked, _file(stdin) as given, _file() as out, _file() as err:
        socket.send_fds(channel, [b"?"], [file.fileno() for file in (asked, given, out, err)])
        (child,) = _answer(channel, ANSWER, None)
        try:
            code, seconds = _answer(channel, ENDED, limit)
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            _, seconds = _answer(channel, ENDED, None)
            _taken += seconds
            raise subprocess.TimeoutExpired(arguments, limit, _text(out), _text(err)) from None
        _taken += seconds
        return subprocess.CompletedProcess(arguments, code, _text(out), _text(err))


def _answer(channel: socket.socket, form: struct.Struct, limit: float | None) -> tuple[Any, ...]:
    channel.settimeout(limit)
    answer = channel.recv(form.size, socket.MSG_WAITALL)
    if len(answer) < form.size:
        raise RuntimeError("the process that forks has ended; its error is above")
    return form.unpack(answer)


def _file(content: str = "") -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(content.encode("utf-8", "surrogateescape"))
    file.seek(0)
    return file


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")

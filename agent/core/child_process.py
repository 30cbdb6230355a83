"""Starting a Python process of our own that speaks to us over a socket it inherits."""

from __future__ import annotations

import asyncio
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping

from tools.umask import person_umask

_START = (
    "import sys; sys.path[:] = {path!r}; from tools.umask import make_private; make_private(); "
    "from {module} import main; main()"
)


async def start_child(
    module: str, environ: Mapping[str, str] | None = None
) -> tuple[Process, asyncio.StreamReader, asyncio.StreamWriter]:
    """Run `main` of a module of ours, which finds the number of its socket in `sys.argv[1]`.

    It is the first of a session of its own, without the standard streams. `environ` is all the variables
    it has; None: those of this process. Raises `OSError`.
    """
    ours, its = socket.socketpair()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-c", _START.format(path=sys.path, module=module), str(its.fileno())),
            pass_fds=[its.fileno()],
            env=None if environ is None else dict(environ),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
            umask=person_umask(),
        )
    except BaseException:
        ours.close()
        raise
    finally:
        its.close()
    reader, writer = await asyncio.open_connection(sock=ours)
    return process, reader, writer

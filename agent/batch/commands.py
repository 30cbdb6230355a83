"""Commands of checks, behind the same boundary as those of the model and without a network."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agent.home import Home
from agent.safety.sandbox.boundary import SessionBoundary
from agent.safety.sandbox.probe import probe
from tools.sandbox import Need
from tools.terminal.environment import child_environment

_MOST_OUTPUT = 100_000


async def run_command(
    folder: Path, home: Home, environ: Mapping[str, str], command: str, seconds: float
) -> tuple[int, str]:
    """Run a command line in `folder`; its exit code and the end of its output. 124: it took too long."""
    with tempfile.TemporaryDirectory(prefix="hermes-check-", ignore_cleanup_errors=True) as scratch:
        boundary = SessionBoundary(
            await asyncio.to_thread(probe),
            folder,
            Path(scratch) / "tmp",
            home,
            network="off",
            environ=environ,
        )
        need = Need(offline=True, dies_with_parent=True)
        wrapped = await asyncio.to_thread(boundary.wrap, ["/bin/sh", "-c", command], need)
        variables = {**child_environment(environ), **wrapped.env}
        for name in wrapped.unset:
            variables.pop(name, None)
        try:
            process = await asyncio.create_subprocess_exec(
                *wrapped.argv,
                cwd=folder,
                env=variables,
                pass_fds=wrapped.fds,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            wrapped.started()
        try:
            return await asyncio.wait_for(_ended(process), seconds)
        except TimeoutError:
            return 124, f"took longer than {seconds:g} seconds"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            await asyncio.to_thread(wrapped.ended)


async def _ended(process: asyncio.subprocess.Process) -> tuple[int, str]:
    assert process.stdout is not None
    tail = b""
    while piece := await process.stdout.read(65_536):
        tail = (tail + piece)[-_MOST_OUTPUT:]
    return await process.wait(), tail.decode("utf-8", "replace")

"""Commands of the person that run without a model: scripts of jobs, mailers."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.redact import redact, secret_values
from tools.safe_text import clean
from tools.terminal.environment import child_environment

MOST_OUTPUT = 200_000
"""Bytes that are kept of what a command prints: its end."""


@dataclass(frozen=True)
class CommandEnd:
    """How a command ended."""

    code: int
    output: str

    @property
    def said(self) -> str:
        """Its code and the last line it printed."""
        lines = self.output.strip().splitlines()
        return f"exit code {self.code}" + (f", {clean(lines[-1])[:200]}" if lines else "")


async def run_command(command: str, cwd: Path, seconds: float, data: bytes = b"") -> CommandEnd:
    """Run a command of the shell with a scrubbed environment; its output with its errors, secrets masked."""
    try:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            command,
            cwd=cwd,
            env=child_environment(os.environ),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return CommandEnd(126, f"It cannot be started: {error.strerror}.")
    kept = bytearray()

    async def talk() -> None:
        assert process.stdin is not None and process.stdout is not None
        with suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(data)
            await process.stdin.drain()
        process.stdin.close()
        while piece := await process.stdout.read(65_536):
            kept.extend(piece)
            del kept[:-MOST_OUTPUT]
        await process.wait()

    try:
        await asyncio.wait_for(talk(), seconds)
    except TimeoutError:
        kept.extend(f"\nIt took longer than {seconds:.0f} seconds and was stopped.".encode())
        return CommandEnd(124, _masked(kept))
    finally:
        # Also what it left behind.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    return CommandEnd(process.returncode or 0, _masked(kept))


def _masked(output: bytearray) -> str:
    return redact(output.decode("utf-8", "replace"), secret_values(os.environ))

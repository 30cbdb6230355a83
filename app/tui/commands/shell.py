"""The command `!command`: a shell command of the user, run outside the agent's turns."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.core.config.known_secrets import secrets_of_home
from agent.errors import HermesError
from tools.kit.children import kill_group
from tools.kit.umask import person_umask
from tools.terminal.environment import child_environment
from tools.text.redact import redact
from tools.text.safe_text import Cleaner, truncate

SHOWN_CHARS = 20_000
"""The number of characters of output that are kept; of longer output the middle is left out."""
READ_BYTES = 4_000_000
"""The number of bytes of output after which the command is stopped."""


@dataclass(frozen=True, slots=True)
class ShellOutcome:
    """The output of a command, cleaned, and its exit code."""

    command: str
    output: str
    code: int

    def as_text(self) -> str:
        """Return the command, its output and a nonzero exit code as text for the conversation."""
        end = f"\n(exit code {self.code})" if self.code else ""
        return f"$ {self.command}\n{self.output.rstrip()}{end}"


async def run_shell(command: str, folder: Path, environ: Mapping[str, str] = os.environ) -> ShellOutcome:
    """Run a command line in `folder`, without a terminal and the secrets of the environment; return its
    outcome.

    If the task is cancelled, the command and all its children are stopped. Raises `HermesError` if it cannot
    be started.
    """
    try:
        child = await asyncio.create_subprocess_shell(
            command,
            cwd=folder,
            env=child_environment(environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            umask=person_umask(),
        )
    except (OSError, ValueError) as error:
        raise HermesError(f"Cannot run {command!r}: {error}.") from error
    assert child.stdout is not None
    cleaner, pieces, count = Cleaner(), [], 0
    try:
        while (data := await child.stdout.read(65_536)) and count < READ_BYTES:
            count += len(data)
            pieces.append(cleaner.feed(data))
        if count >= READ_BYTES:
            kill_group(child.pid)
        code = await child.wait()
    except asyncio.CancelledError:
        kill_group(child.pid)
        await child.wait()
        raise
    pieces.append(cleaner.finish())
    output = await asyncio.to_thread(_mask_secrets, "".join(pieces), environ)
    return ShellOutcome(command, truncate(output, SHOWN_CHARS), code)


def _mask_secrets(text: str, environ: Mapping[str, str]) -> str:
    return redact(text, secrets_of_home(environ))

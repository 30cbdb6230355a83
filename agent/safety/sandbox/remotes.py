"""Asking a remote that the person had set, inside the boundary, which commits it has.

A command that fetched could have made up what it says came from there. Only hosts that nobody has to be asked
about are reached, and repositories of this machine only where no command of the session can write.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

from agent.safety.sandbox.boundary import SessionBoundary
from tools.kit.children import kill_group, start_child
from tools.results import DeniedError, ToolError
from tools.services.actions import ReachHost
from tools.services.sandbox import Need
from tools.terminal.environment import child_environment

_SECONDS = 20.0
_MOST_BYTES = 20_000_000
_ID = re.compile(rb"^([0-9a-f]{40}|[0-9a-f]{64})\t", re.MULTILINE)
_REMOTE = re.compile(r"(?:https?|ssh|git)://.+|[\w.-]+@[\w.-]+:.+")


async def ask_remote(boundary: SessionBoundary, environ: Mapping[str, str], address: str) -> list[str]:
    """The commits of the repository at `address`; empty where it cannot be asked, or not be believed."""
    try:
        if _REMOTE.fullmatch(address) is None and await asyncio.to_thread(_is_in_reach, boundary, address):
            return []
        return await _listed(boundary, environ, address)
    except (OSError, ToolError, TimeoutError):
        return []


def _is_in_reach(boundary: SessionBoundary, address: str) -> bool:
    """Whether commands of the session may have written to a repository of this machine."""
    path = Path(address.removeprefix("file://"))
    return not path.is_absolute() or boundary.lets_write(path.resolve())


async def _listed(boundary: SessionBoundary, environ: Mapping[str, str], address: str) -> list[str]:
    argv = ["git", "-c", "protocol.ext.allow=never", "ls-remote", "--", address]
    need = Need(permit=_nobody, dies_with_parent=True)
    wrapped = await asyncio.to_thread(boundary.wrap, argv, need)
    variables = child_environment(environ)
    variables = {name: text for name, text in variables.items() if name not in wrapped.unset}
    try:
        process = await start_child(
            wrapped.argv, cwd="/", env={**variables, "GIT_ASKPASS": "false", **wrapped.env}, fds=wrapped.fds
        )
    except OSError:
        await asyncio.to_thread(wrapped.ended)
        raise
    finally:
        wrapped.started()
    output = bytearray()
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_SECONDS):
            while len(output) < _MOST_BYTES and (piece := await process.stdout.read(65_536)):
                output += piece
    finally:
        kill_group(process.pid)
        await process.wait()
        await asyncio.to_thread(wrapped.ended)
    return [each.decode() for each in _ID.findall(bytes(output))]


async def _nobody(action: ReachHost) -> object:
    raise DeniedError("Nobody is asked about a host for this.")

"""The server of one editor: pipes, signals, and shutdown when the editor leaves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import sys
from typing import Any, cast

from acp.agent.connection import AgentSideConnection

from agent.errors import ConfigError
from app.editor.editor_agent import EditorAgent
from app.editor.line_transport import LineTransport, over_pipes

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def serve(model: str | None) -> None:
    """Serve until the editor leaves or a signal arrives, then close every session."""
    transport = await _take_pipes()
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, transport.leave)
    agent = EditorAgent(model)
    transport.answered = agent.note_result
    connection = AgentSideConnection(
        cast("Any", agent), transport, listening=False, use_unstable_protocol=True
    )
    try:
        await connection.listen()
    finally:
        await agent.close()
        with contextlib.suppress(ConnectionError):
            await connection.close()


async def _take_pipes() -> LineTransport:
    """Use stdin and stdout as the editor's pipes; later prints go to stderr."""
    sys.stdout.flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    try:
        if stat.S_ISCHR(os.fstat(incoming).st_mode) and not os.isatty(incoming):
            raise ValueError("the event loop cannot wait for devices such as /dev/null")
        return await over_pipes(incoming, outgoing)
    except ValueError:
        raise ConfigError(
            "`hermes acp` speaks over pipes or sockets, and stdin or stdout is not one; see docs/acp.md."
        ) from None

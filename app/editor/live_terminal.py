"""An editor terminal that shows a command's output while it runs.

The command itself runs behind the gate and in the sandbox, like all commands of Hermes. The terminal runs
`cat` on a named pipe in a private folder and ends with the command's exit code.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

SHOWS = 'cat "$1"; exit "$(cat "$1.code" 2>/dev/null || echo 0)"'
MOST_WAITING = 4_000_000
"""Bytes that wait for a terminal; what comes beyond is left out there."""
RETAINED = 1_000_000
"""Bytes of output that the editor is asked to keep."""
PATIENCE = 10.0
"""Seconds the editor has to start the terminal, and to end it."""


class LiveTerminal:
    """One terminal of the editor.

    `write` may be called on any thread, all other methods on the event loop.
    """

    def __init__(
        self,
        connection: Any,
        session: str,
        workspace: Path,
        shown: Callable[[str], None],
    ) -> None:
        """`shown` is called with the terminal's id once it exists."""
        self._connection = connection
        self._session = session
        self._workspace = workspace
        self._shown = shown
        self._loop = asyncio.get_running_loop()
        self._waiting: list[bytes] = []
        self._size = 0
        self._news = asyncio.Event()
        self._code: int | None = None
        self._ended = False
        self._task = asyncio.create_task(self._run())

    def write(self, text: str) -> None:
        """Append output of the command to the terminal."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._take, text)

    async def end(self, code: int | None) -> None:
        """Release the terminal, which ends with `code`, the exit code of the command. Never raises."""
        self._ended, self._code = True, code
        self._news.set()
        await asyncio.wait({self._task}, timeout=3 * PATIENCE)
        self._task.cancel()

    def _take(self, text: str) -> None:
        data = text.replace("\n", "\r\n").encode("utf-8", "replace") if text else b""
        if data and self._size <= MOST_WAITING:
            self._waiting.append(data)
            self._size += len(data)
            self._news.set()

    async def _run(self) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="hermes-acp-terminal-") as folder:
                await self._show(Path(folder) / "output")
        except (TimeoutError, OSError):
            log.info("a terminal of the editor could not be used", exc_info=True)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.warning("the editor refused a terminal", exc_info=True)

    async def _show(self, pipe: Path) -> None:
        os.mkfifo(pipe, 0o600)
        async with asyncio.timeout(PATIENCE):
            made = await self._connection.create_terminal(
                session_id=self._session,
                command="/bin/sh",
                args=["-c", SHOWS, "output", str(pipe)],
                cwd=str(self._workspace),
                output_byte_limit=RETAINED,
            )
        terminal = made.terminal_id
        self._shown(terminal)
        try:
            await self._feed(pipe)
            await self._patient(self._connection.wait_for_terminal_exit, terminal)
        finally:
            await self._patient(self._connection.release_terminal, terminal)

    async def _patient(self, ask: Callable[..., Awaitable[Any]], terminal: str) -> None:
        async with asyncio.timeout(PATIENCE):
            await ask(session_id=self._session, terminal_id=terminal)

    async def _feed(self, pipe: Path) -> None:
        transport, protocol = await self._loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(self._loop), await _open_pipe(pipe)
        )
        writer = asyncio.StreamWriter(transport, protocol, None, self._loop)
        try:
            while not (self._ended and not self._waiting):
                await self._news.wait()
                self._news.clear()
                pieces, self._waiting = self._waiting, []
                self._size = 0
                writer.write(b"".join(pieces))
                await writer.drain()
            pipe.with_name("output.code").write_text(str((self._code or 0) & 0xFF))
        except OSError:
            log.debug("a terminal of the editor was closed")
        finally:
            writer.close()


def exit_code_of(result: str) -> int | None:
    """Return the exit code in a command's result; None if there is none. Pure."""
    try:
        code = json.loads(result).get("exit_code")
    except (ValueError, AttributeError, RecursionError):
        return None
    return code if isinstance(code, int) else None


async def _open_pipe(pipe: Path) -> Any:
    """Open the pipe for writing once a reader has it open. Raises `OSError`."""
    for _ in range(int(PATIENCE / 0.02)):
        try:
            return os.fdopen(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC), "wb", buffering=0)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        await asyncio.sleep(0.02)
    raise TimeoutError(f"nobody reads {pipe}")

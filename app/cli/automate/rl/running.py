"""Running the environment server on this machine until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import uvicorn

from agent.automation.training.arena import open_arena
from agent.core.modes import ModeName
from agent.errors import ConfigError
from app.cli.automate.rl.environment_server import MOST_BODY, application


class _Server(uvicorn.Server):
    """uvicorn's server; signals are ours."""

    listens: Callable[[], None] = staticmethod(lambda: None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_environment(
    where: str,
    folder: Path,
    environ: Mapping[str, str],
    *,
    port: int,
    token: str,
    approve: ModeName | None,
    ready: Callable[[str], None],
) -> None:
    """Serve until a signal comes. Only this machine reaches it. Raises `HermesError`."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except OSError as error:
        listening.close()
        raise ConfigError(f"Port {port} cannot be used: {error.strerror}; choose another.") from error
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        arena = await asyncio.to_thread(
            open_arena, where, folder, environ, address, secrets.token_urlsafe(24), approve
        )
    except BaseException:
        listening.close()
        raise
    config = uvicorn.Config(
        application(arena, where, token),
        loop="asyncio",
        ws="websockets-sansio",
        ws_max_size=MOST_BODY,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    server.listens = lambda: ready(address)
    ending = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    asked = asyncio.create_task(ending.wait())
    try:
        await asyncio.wait([serving, asked], return_when=asyncio.FIRST_COMPLETED)
    finally:
        asked.cancel()
        await arena.aclose()
        server.should_exit = True
        await serving

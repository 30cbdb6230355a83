"""Signing in to servers of a session: the address a person has to open, and the way back from it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

from agent.integrations.mcp.errors import ServerError
from agent.integrations.mcp.host_process import RefusedError
from agent.integrations.mcp.server import Server
from agent.integrations.mcp.server_config import ServerConfig
from agent.integrations.mcp.starting import LaunchEnvironment, launch_of, token_path
from agent.integrations.mcp.tokens import TokenFile
from tools.text.safe_text import clean

STARTS_IN = 30.0
"""Seconds a server has until it says where to sign in; then a person's own time begins."""
COMES_BACK_IN = 10.0
"""Seconds in which the page of this machine takes an address."""


class SignIns:
    """The sign-ins that are under way, one for a server at most. Methods raise `ServerError`."""

    def __init__(self, around: LaunchEnvironment) -> None:
        self._around = replace(around, interactive=True, renew=True)
        self._addresses: dict[str, str] = {}
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    def address(self, name: str) -> str | None:
        """Where a person has to sign in; empty until the server has said so, None without a sign-in."""
        return self._addresses.get(name)

    async def sign_in(self, config: ServerConfig) -> None:
        """Sign in anew, and keep what that gives. Ends when the person came back, or nobody did."""
        name = config.name
        if not config.url:
            mend = "only servers with an address are signed in to"
            raise ServerError(name, "it is started on this machine", mend)
        if name in self._tasks:
            raise ServerError(name, "somebody is signing in to it already", "end that first")
        patient = replace(config, connect_timeout=max(config.start_time, STARTS_IN))
        self._addresses[name] = ""
        task = self._tasks[name] = asyncio.create_task(self._connected(patient))
        try:
            await task
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            raise ServerError(name, "the sign-in was left", "begin again whenever you like") from None
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, ServerError):
                await task
            del self._tasks[name], self._addresses[name]

    def cancel(self, name: str) -> None:
        """Leave a sign-in; whoever waits for it hears so."""
        if (task := self._tasks.get(name)) is not None:
            task.cancel()

    async def came_back(self, name: str, address: str) -> None:
        """Take the address that a browser on another machine ended at."""
        expected = urlsplit(_way_back(self._addresses.get(name) or ""))
        given = urlsplit(address.strip())
        if not expected.port or (given.netloc, given.path) != (expected.netloc, expected.path):
            where = f"the address begins with {expected.scheme}://{expected.netloc}{expected.path}"
            raise ServerError(name, "that is not where its sign-in ends", where)
        target = clean(f"{given.path}?{given.query}").replace("\n", "").replace(" ", "")
        try:
            async with asyncio.timeout(COMES_BACK_IN):
                reader, writer = await asyncio.open_connection(expected.hostname, expected.port)
                with closing(writer):
                    writer.write(f"GET {target} HTTP/1.1\r\nHost: {expected.netloc}\r\n\r\n".encode())
                    await reader.read()
        except (OSError, TimeoutError) as error:
            raise ServerError(name, "nothing waits for that address", "begin the sign-in again") from error

    def is_signed_in(self, config: ServerConfig) -> bool:
        """Whether tokens are kept. Reads the disk."""
        return bool(config.url) and "tokens" in self._tokens(config).read()

    def sign_out(self, config: ServerConfig) -> bool:
        """Forget what signing in gave; False if nothing was kept. Touches the disk. Raises `ConfigError`."""
        return self._tokens(config).forget()

    async def close(self) -> None:
        """Leave all of them."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, config: ServerConfig) -> None:
        name, around = config.name, self._around

        async def answer(kind: str, params: Mapping[str, Any]) -> Any:
            match kind:
                case "sign_in":
                    self._addresses[name] = clean(str(params["url"])).replace("\n", "")
                    return {}
                case "elicit":
                    return {"action": "decline"}
            raise RefusedError("a person is signing in")

        server = Server(name, lambda: launch_of(config, around), around.of_process, answer)
        try:
            await server.connect()
        finally:
            await server.close()

    def _tokens(self, config: ServerConfig) -> TokenFile:
        return TokenFile(token_path(self._around.home.servers, config))


def _way_back(address: str) -> str:
    """The page of this machine at which a sign-in ends. Pure."""
    return next(iter(parse_qs(urlsplit(address).query).get("redirect_uri", ())), "")

"""One language server: its process, the messages with it, and its end."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from agent.integrations.diagnostics.findings import Finding, findings_of
from agent.integrations.diagnostics.framing import FramingError, packed, read_message
from agent.integrations.diagnostics.languages import ServerKind
from tools.kit.children import end_child, kill_group, start_child
from tools.services.sandbox import Wrapped
from tools.text.safe_text import clean

MOST_BYTES = 64_000_000
"""Bytes a server may send between two edits; more is a flood."""
MOST_MESSAGES = 20_000
_CAPABILITIES: dict[str, Any] = {
    "textDocument": {
        "synchronization": {"didSave": True},
        "publishDiagnostics": {"versionSupport": True},
        "diagnostic": {"dynamicRegistration": False},
    },
    "workspace": {"configuration": True, "workspaceFolders": True},
    "window": {"workDoneProgress": True},
}
_STARTING = 30.0
"""Seconds a server may take to say what it can do."""
_GRACE = 1.0
_CHUNK = 65_536
_PULL_AGAIN = 0.1
"""Seconds until a server is asked again that is not ready to answer."""


class ServerFault(Exception):  # noqa: N818 - it is the server's, not an error of ours
    """The server cannot be used any more; the text says why, as a clause."""


class ServerProcess:
    """One server that runs, spoken to in its own protocol. Made by `start`."""

    def __init__(self, process: asyncio.subprocess.Process, wrapped: Wrapped, kind: ServerKind) -> None:
        self._process = process
        self._wrapped = wrapped
        self._kind = kind
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._published: dict[str, tuple[int, int | None, tuple[Finding, ...]]] = {}
        """By address: the number of the message, the version it is about, and what it says."""
        self._received = itertools.count(1)
        self._bytes = self._messages = 0
        self._news = asyncio.Event()
        self._complaint = b""
        self._pulls = False
        self._root = ""
        self.fault = ""
        """Why it cannot be used any more; empty while it can."""
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._listen())]

    @classmethod
    async def start(
        cls, wrap: Callable[[], Wrapped], env: Mapping[str, str], cwd: str, kind: ServerKind
    ) -> ServerProcess:
        """Start a server; `wrap` gives its command behind the boundary. Raises `ServerFault`."""
        wrapped = await asyncio.to_thread(wrap)
        environment = {**env, **wrapped.env}
        try:
            process = await start_child(
                wrapped.argv,
                stdin=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={name: value for name, value in environment.items() if name not in wrapped.unset},
                cwd=cwd,
                fds=wrapped.fds,
            )
        except OSError as error:
            wrapped.ended()
            raise ServerFault(f"it cannot be started: {error.strerror or error}") from error
        except BaseException:
            wrapped.ended()
            raise
        finally:
            wrapped.started()
        return cls(process, wrapped, kind)

    async def initialize(self, root: str, options: Mapping[str, Any]) -> None:
        """Exchange what both sides can do. Raises `ServerFault`."""
        self._root = root
        params = {
            "processId": None,
            "rootUri": root,
            "workspaceFolders": [{"uri": root, "name": "workspace"}],
            "capabilities": _CAPABILITIES,
            "initializationOptions": dict(options),
        }
        try:
            async with asyncio.timeout(_STARTING):
                answer = await self._request("initialize", params)
        except TimeoutError:
            raise ServerFault(f"it did not answer within {_STARTING:g} s of its start") from None
        able = answer.get("capabilities") if isinstance(answer, Mapping) else None
        self._pulls = isinstance(able, Mapping) and able.get("diagnosticProvider") not in (None, False)
        self.tell("initialized", {})

    def begin(self) -> None:
        """An edit begins: what was received before it no longer counts towards a flood."""
        self._bytes = self._messages = 0

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification. Raises `ServerFault`."""
        self._send({"method": method, "params": dict(params)})

    def mark(self) -> int:
        """A number that what is published from now on exceeds."""
        return next(self._received)

    async def diagnostics(self, uri: str, version: int, since: int) -> tuple[Finding, ...]:
        """What the server finds in a version of a document. Waits for as long as it takes.

        Raises `ServerFault`.
        """
        if self._pulls:
            pulled = await self._pull(uri)
            more = self.published(uri) if self._kind.publishes_too else ()
            return tuple(dict.fromkeys((*pulled, *more)))
        while True:
            self._news.clear()
            self._check()
            number, about, found = self._published.get(uri, (0, None, ()))
            if number > since and (about is None or about >= version):
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._kind.settle):
                        await self._news.wait()
                self._check()
                if self._published[uri][0] == number:
                    return found
                continue
            await self._news.wait()

    def published(self, uri: str) -> tuple[Finding, ...]:
        """What it said of a document last, unasked."""
        return self._published.get(uri, (0, None, ()))[2]

    async def close(self) -> None:
        """End the server and all it started. Never raises."""
        if not self.fault:
            with suppress(TimeoutError, ServerFault):
                async with asyncio.timeout(_GRACE):
                    await self._request("shutdown", None)
                    self._send({"method": "exit"})
                    await self._process.wait()
        await end_child(self._process, _GRACE, asked=True)
        self._end("it was ended")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # What outlives the server may hold its pipes, which nothing public lets go of.
        self._process._transport.close()  # pyright: ignore[reportAttributeAccessIssue]
        await asyncio.sleep(0)
        await asyncio.to_thread(self._wrapped.ended)

    async def _pull(self, uri: str) -> tuple[Finding, ...]:
        while True:
            try:
                answer = await self._request("textDocument/diagnostic", {"textDocument": {"uri": uri}})
            except _RefusedRequest:
                await asyncio.sleep(_PULL_AGAIN)
                continue
            return findings_of(answer.get("items")) if isinstance(answer, Mapping) else ()

    async def _request(self, method: str, params: Mapping[str, Any] | None) -> Any:
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"id": number, "method": method, "params": params})
            reply = await future
        except asyncio.CancelledError:
            with suppress(ServerFault):
                self._send({"method": "$/cancelRequest", "params": {"id": number}})
            raise
        finally:
            self._waiting.pop(number, None)
        if "error" in reply:
            raise _RefusedRequest
        return reply.get("result")

    def _send(self, message: Mapping[str, Any]) -> None:
        self._check()
        assert self._process.stdin is not None
        self._process.stdin.write(packed(message))

    def _check(self) -> None:
        if self.fault:
            raise ServerFault(self.fault)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while (received := await read_message(self._process.stdout)) is not None:
                message, size = received
                self._bytes += size
                self._messages += 1
                if self._bytes > MOST_BYTES or self._messages > MOST_MESSAGES:
                    raise FramingError("it floods its output")
                self._take(message)
                if self._messages % 16 == 0:
                    await asyncio.sleep(0)  # a full buffer is read without a pause
        except FramingError as error:
            self._end(str(error))
            kill_group(self._process.pid)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await self._process.wait()
        code, words = self._process.returncode, self._words()
        how = "it closed its output" if code is None else f"it ended with code {code}"
        self._end(f"{how} ({words})" if words else how)

    def _take(self, message: Mapping[str, Any]) -> None:
        method, number = message.get("method"), message.get("id")
        if method is None:
            future = self._waiting.get(number) if isinstance(number, int) else None
            if future is not None and not future.done():
                future.set_result(message)
        elif number is not None:
            with suppress(ServerFault):
                self._send({"id": number, "result": self._answer(str(method), message.get("params"))})
        elif method == "textDocument/publishDiagnostics":
            params = message.get("params")
            if isinstance(params, Mapping) and isinstance(params.get("uri"), str):
                version = params.get("version")
                self._published[params["uri"]] = (
                    next(self._received),
                    version if isinstance(version, int) else None,
                    findings_of(params.get("diagnostics")),
                )
                self._news.set()

    def _answer(self, method: str, params: Any) -> Any:
        """What a server is told that asks for something; nothing of the workspace is changed for it."""
        if method == "workspace/configuration":
            items = params.get("items") if isinstance(params, Mapping) else None
            return [None] * min(len(items), 100) if isinstance(items, list) else []
        if method == "workspace/applyEdit":
            return {"applied": False}
        if method == "workspace/workspaceFolders":
            return [{"uri": self._root, "name": "workspace"}]
        return None

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(_CHUNK):
            self._complaint = (self._complaint + data)[-1_000:]

    def _words(self) -> str:
        lines = clean(self._complaint.decode("utf-8", "replace")).split("\n")
        return next((" ".join(line.split())[:200] for line in reversed(lines) if line.strip()), "")

    def _end(self, reason: str) -> None:
        self.fault = self.fault or reason
        self._news.set()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ServerFault(self.fault))
                future.exception()  # nobody may be waiting any more


class _RefusedRequest(ServerFault):
    """The server answered with an error."""

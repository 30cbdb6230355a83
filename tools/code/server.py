"""The agent's end of the socket to a script's process: its folder, connections, and order of calls."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import secrets
import select
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.code.data import (
    LINE_LIMIT,
    SMALL,
    BadRequestError,
    CallRecord,
    Clock,
    CodeProgress,
    RpcRequest,
    RunningCall,
    Serve,
    Shown,
    error_text,
    parse_request,
    pieces,
    reply,
)
from tools.code.stubs import Offer, restrict
from tools.kit.private_folders import SHORT, PrivateFolder, sweep_once
from tools.kit.threads import on_thread
from tools.results import ToolError
from tools.text.redact import redact
from tools.text.safe_text import clean
from tools.text.words import plural, shorten

PREVIEW = 200
"""Characters shown of arguments and results."""

_LOOKED_AT = 2_000
"""Characters from which a preview is made: more than it shows, because masking shortens texts."""

_encode = json.JSONEncoder(ensure_ascii=False).encode
"""The encoder for JSON arguments; reusing one costs a third of `json.dumps`."""
_decode = json.JSONDecoder().decode
_INTERVAL = 1 / 30
"""Seconds between two progress reports."""
_INTERRUPTED = error_text("Interrupted: the script was stopped before this call ended.")
_PATIENCE = 10.0
"""Seconds for running calls to stop before their script is ended."""


@dataclass(eq=False, slots=True)
class _Call:
    """A running call. Its text is computed only when it is displayed."""

    number: int
    tool: str
    arguments: dict[str, Any]
    started: float


@dataclass(eq=False)
class CallDispatcher:
    """A dispatcher that runs, counts and records the tool calls of one run."""

    offer: Offer
    limit: int
    clock: Clock
    serve: Serve
    tell: Callable[[CodeProgress], None]
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Values masked in displayed texts, by name."""
    newest: Callable[[], str] = str
    """The newest output of the script."""
    made: int = 0
    records: list[CallRecord] = field(default_factory=list)
    _running: dict[int, _Call] = field(default_factory=dict)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _is_closed: bool = False
    _names: frozenset[str] = frozenset()
    _finished: list[CallRecord] = field(default_factory=list)
    """Calls that ended since the last report."""
    _told: float = -math.inf
    _due: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self._names = frozenset(self.offer.names)

    async def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """Run one call and return its result as JSON text; a failure is `{"error": …}`."""
        tool = self.offer.resolve(tool)
        refusal = self._refusal(tool)
        if refusal is not None:
            return error_text(refusal)
        self.made += 1
        arguments = restrict(tool, arguments)
        call = _Call(self.made, tool, arguments, self.clock.elapsed)
        self._running[call.number] = call
        self.report()
        result = _INTERRUPTED
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            result = await self._result(tool, arguments)
            return result
        finally:
            self._tasks.discard(task)
            del self._running[call.number]
            self._record(call, result)

    def _refusal(self, tool: str) -> str | None:
        if self._is_closed:
            return "The script has been stopped: no more tools are called."
        refusal = None if tool in self._names else self.offer.refusal(tool)
        if refusal is None and self.made >= self.limit:
            return f"Tool call limit reached: a script may make {self.limit} calls. Print what you have."
        return refusal

    async def _result(self, tool: str, arguments: dict[str, Any]) -> str:
        try:
            result = await self.serve(tool, arguments)
            _check(result)
        except Exception as error:
            log.exception("the call of %s by a script failed", tool)
            return error_text(f"Error executing {tool}: {type(error).__name__}: {error}")
        return result

    def report(self, finished: CallRecord | None = None) -> None:
        """Report the state of the script, at most once per `_INTERVAL`; what comes sooner is delayed."""
        if finished is not None:
            self._finished.append(finished)
        if self._due is not None:
            return
        loop = asyncio.get_running_loop()
        wait = self._told + _INTERVAL - loop.time()
        if wait <= 0 or self._is_closed:
            self._show()
        else:
            self._due = loop.call_later(wait, self._show)

    def _show(self) -> None:
        """Report the state of the script now. Exceptions of the receiver are only logged."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        self._told = asyncio.get_running_loop().time()
        finished, self._finished = tuple(self._finished), []
        try:
            self.tell(
                CodeProgress(
                    calls=self.made,
                    limit=self.limit,
                    elapsed=self.clock.elapsed,
                    running=tuple(map(self._look, self._running.values())),
                    finished=finished,
                    output=self.newest(),
                )
            )
        except Exception:
            log.exception("the progress of a script could not be shown")

    async def close(self) -> None:
        """Refuse further calls and stop the running ones; wait up to `_PATIENCE` seconds for their end."""
        self._is_closed = True
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_PATIENCE)
        if self._due is not None:
            self._show()

    def _look(self, call: _Call) -> RunningCall:
        return RunningCall(call.number, call.tool, self._line(_beginnings(call.arguments)), call.started)

    def _record(self, call: _Call, result: str) -> None:
        record = CallRecord(
            number=call.number,
            tool=call.tool,
            duration=self.clock.elapsed - call.started,
            ok=not result.startswith('{"error"'),
            result_size=len(result),
            shown=Shown(_beginnings(call.arguments), result[:_LOOKED_AT], self._line),
        )
        self.records.append(record)
        self.report(record)

    def _line(self, text: str) -> str:
        """Return the beginning of a text on one line.

        It is masked before it is cut, because half a secret would not be recognised.
        """
        line = " ".join(redact(clean(text), self.secrets).split())
        return shorten(line, PREVIEW)


def _beginnings(arguments: dict[str, Any]) -> str:
    """Return the arguments as JSON text, in which long values are shortened."""
    return _encode({key: _shortened(value) for key, value in arguments.items()})[:_LOOKED_AT]


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_LOOKED_AT]
    if isinstance(value, (list, dict)) and len(value) > 20:
        return plural(len(value), "item")
    return value


def _check(result: str) -> None:
    """Raise `ValueError` if a small result is not JSON, because it would break its reply."""
    if len(result) <= SMALL:
        _decode(result)


SOCKET = "rpc.sock"
_PATH_LIMIT = 100
"""Bytes of a socket path that every system accepts."""
_NAMES = len("/hermes-code-12345678/") + len(SOCKET)

log = logging.getLogger(__name__)

_PATIENCE_WITH_NONSENSE = 20
"""The number of invalid requests after which a connection is closed."""
_MUCH = 256_000
"""The size in bytes above which a request or result is handled off the event loop."""
_SEND_BUFFER = 1_000_000
"""Bytes in transit to a client, enough for both ends to work simultaneously."""
_TURN = 0.001
"""Seconds of continuous answering before the event loop gets a turn."""
_QUICK = 0.0002
"""Seconds up to which a call counts as quick, so that the next one may follow at once."""
_LINGER = 0.00006
"""Seconds to wait for the request after a quick one, which is cheaper than a loop turn."""


class Connection(asyncio.BufferedProtocol):
    """A script's connection: receives requests, has the dispatcher answer them, and sends the answers."""

    def __init__(self, server: ScriptServer, *, is_born: bool = False) -> None:
        self._server = server
        self._is_born = is_born
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._searched = 0
        self._nonsense = 0
        self._task: asyncio.Task[None] | None = None
        self._news: asyncio.Future[None] | None = None
        """A future that ends when a request arrives; None before the first wait."""
        self._is_busy = False
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._is_born and not self._server.may_connect(self, transport.get_extra_info("socket")):
            transport.abort()
            return
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._transport = None
        if self._task is not None:
            self._task.cancel()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._server.inlet

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer += self._server.inlet[:nbytes]
        if self._task is None:
            self._start()
        elif self._news is not None and not self._news.done():
            self._news.set_result(None)
        self._limit_reading()

    def send(self, data: bytes) -> None:
        """Write to the client, if it is still connected."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def hang_up(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def _is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._serve())
        self._task.add_done_callback(self._on_task_end)

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        """Allow a new task for the next request after a stopped call."""
        self._task, self._is_busy = None, False
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a request of a script could not be answered", exc_info=error)
            self.hang_up()
        if self._buffer and self._is_open:
            self._start()
        self._limit_reading()

    async def _serve(self) -> None:
        """Answer the requests one after another in a single task.

        A task for each request would cost two turns of the event loop.
        """
        task = asyncio.current_task()
        assert task is not None
        began = time.monotonic()
        is_quick = False
        while self._is_open and not task.cancelling():
            line = self._line()
            if line is not None:
                asked = time.monotonic()
                self._is_busy = True
                await self._answer(line)
                self._is_busy = False
                is_quick = time.monotonic() - asked < _QUICK
                if self._is_paused:
                    self._limit_reading()
            elif time.monotonic() - began > _TURN:
                await asyncio.sleep(0)
                began = time.monotonic()
            elif not (is_quick and self._linger()):
                is_quick = False
                self._news = asyncio.get_running_loop().create_future()
                await self._news
                began = time.monotonic()

    def _line(self) -> bytearray | None:
        """Return the next complete request; None if it has not arrived completely."""
        while self._is_open:
            end = self._buffer.find(b"\n", self._searched)
            if end < 0:
                self._searched = len(self._buffer)
                if self._searched > LINE_LIMIT:
                    self._refuse(f"A request may have {LINE_LIMIT:,} bytes at most.", None, is_last=True)
                return None
            line = self._buffer[:end]
            del self._buffer[: end + 1]
            self._searched = 0
            if len(line) <= LINE_LIMIT:
                return line
            self._refuse(f"A request may have {LINE_LIMIT:,} bytes at most.", None)
        return None

    def _linger(self) -> bool:
        """Wait briefly for more input; return whether it came. Does not wait if other work is pending."""
        if self._transport is None or self._is_paused or len(self._server.connections) > 1:
            return False
        descriptor = self._transport.get_extra_info("socket").fileno()
        until = time.monotonic() + _LINGER
        while True:
            try:
                count = os.readv(descriptor, [self._server.inlet])
            except BlockingIOError:
                if time.monotonic() > until:
                    return False
                # On one processor the script has to run for anything to come.
                os.sched_yield()
                continue
            except OSError:
                return False
            # The end of the stream is for the transport to notice, which reads it again.
            self._buffer += self._server.inlet[:count]
            return count > 0

    async def _answer(self, line: bytearray) -> None:
        try:
            if len(line) > _MUCH:
                request = await asyncio.to_thread(parse_request, line, self._server.token)
            else:
                request = parse_request(line, self._server.token)
        except BadRequestError as error:
            self._refuse(str(error), error.number)
            return
        if request.event:
            self._server.on_event(request)
            return
        dispatcher = self._server.dispatcher
        try:
            if dispatcher is None:
                result = error_text("No script is running.")
            else:
                result = await dispatcher.call(request.tool, request.arguments)
        except asyncio.CancelledError:
            self._reply(request.number, error_text("Interrupted before this call ended."))
            raise
        if len(result) > _MUCH:
            await self._pour(request.number, result)
        else:
            self._reply(request.number, result)

    def _reply(self, number: int | None, result: str) -> None:
        small = reply(number, result)
        if small is not None:
            self.send(small)
            return
        for piece in pieces(number or 0, result):
            self.send(piece)

    async def _pour(self, number: int, result: str) -> None:
        """Send a large result from a thread, as fast as the client takes it."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if transport.get_write_buffer_size():
            self._reply(number, result)
            return
        # Its own, so that the descriptor cannot become somebody else's while the thread writes.
        link = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        try:
            await on_thread(pour, link, pieces(number, result))
        except OSError:
            self.hang_up()
        except asyncio.CancelledError:
            # Half a result has been sent: nothing that came after it would be understood.
            _shut(link)
            self.hang_up()
            raise

    def _refuse(self, message: str, number: int | None, *, is_last: bool = False) -> None:
        self._nonsense += 1
        self._reply(number, error_text(message))
        if (is_last or self._nonsense >= _PATIENCE_WITH_NONSENSE) and self._transport is not None:
            self._transport.close()

    def _limit_reading(self) -> None:
        """Stop or resume reading from a client that sends ahead, so that the queue stays bounded."""
        if self._transport is None or self._transport.is_closing():
            return
        wants_pause = self._is_busy and len(self._buffer) > _MUCH
        if wants_pause != self._is_paused:
            self._is_paused = wants_pause
            if wants_pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()


def pour(link: socket.socket, data: Iterable[bytes]) -> None:
    """Write all of `data` to a non-blocking socket, then close it. Raises `OSError` if that fails."""
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    waiting = select.poll()
    waiting.register(link, select.POLLOUT)
    with link:
        for piece in data:
            view = memoryview(piece)
            while view:
                try:
                    view = view[link.send(view) :]
                except BlockingIOError:
                    waiting.poll()


def _shut(link: socket.socket) -> None:
    """Shut down `link`, so that a thread that still writes to it wakes."""
    try:
        link.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


CONNECTIONS = 512
"""The maximum number of simultaneous connections of one child."""

_INLET = 262_144


class ScriptServer:
    """A socket server for the calls of one child. Only processes of user `uid` may connect."""

    def __init__(self, uid: int | None = None) -> None:
        self.token = secrets.token_hex(16)
        self.dispatcher: CallDispatcher | None = None
        self.on_event: Callable[[RpcRequest], None] = lambda _: None
        self.connections: set[Connection] = set()
        self.uid = os.getuid() if uid is None else uid
        self.inlet = memoryview(bytearray(_INLET))
        """The receive buffer of all connections, which is emptied at once."""
        self._private: PrivateFolder | None = None
        self._listener: asyncio.Server | None = None

    @property
    def folder(self) -> Path:
        """The private folder that contains the socket. Available after `start`."""
        assert self._private is not None
        return self._private.path

    @property
    def path(self) -> Path:
        return self.folder / SOCKET

    async def start(self) -> None:
        """Make the folder (0700) and listen in it. Raises `ToolError` if either fails."""
        loop = asyncio.get_running_loop()
        try:
            sweep_once()
            is_long = len(os.fsencode(tempfile.gettempdir())) + _NAMES >= _PATH_LIMIT
            self._private = PrivateFolder("code", SHORT if is_long else None)
            self._listener = await loop.create_unix_server(lambda: Connection(self), str(self.path))
            self.path.chmod(0o600)
        except OSError as error:
            self.close()
            raise ToolError(
                f"The socket for scripts could not be made in {tempfile.gettempdir()}: "
                f"{error.strerror or error}. Set TMPDIR to a folder that can be written."
            ) from error

    async def adopt(self, link: socket.socket) -> Connection:
        """Serve an already connected socket."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(self, is_born=True), sock=link)
        return connection

    def close(self) -> None:
        """Close all connections and clean up."""
        if self._listener is not None:
            self._listener.close()
        for connection in list(self.connections):
            connection.hang_up()
        if self._private is not None:
            self._private.remove()

    def may_connect(self, connection: Connection, peer: socket.socket) -> bool:
        """Return whether a client that connected by the path of the socket may stay connected."""
        if len(self.connections) >= CONNECTIONS:
            return False
        uid = peer_uid(peer)
        return uid is None or uid == self.uid


def peer_uid(peer: socket.socket) -> int | None:
    """Return the user at the other end of a Unix socket; None if unknown."""
    if hasattr(socket, "SO_PEERCRED"):
        packed = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return struct.unpack("3i", packed)[1]
    if sys.platform == "darwin":
        # struct xucred: version, uid, …; asked with level SOL_LOCAL, option LOCAL_PEERCRED.
        return struct.unpack("2I", peer.getsockopt(0, 1, 76)[:8])[1]
    return None

"""An open session whose engine works in another process and is reached over a socket."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import itertools
import json
import logging
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agent.errors import HermesError
from agent.events import (
    Asked,
    Event,
    Noticed,
    QueueChanged,
    Reply,
    RequestResolved,
    TurnEnded,
    UserMessageAdded,
)
from tools.kit import children
from tools.kit.children import framed, kill_process, start_module
from tools.kit.descriptors import wait_until_ready
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.core.messages import Attachment
    from agent.core.store.nodes import Node
    from agent.session.options import Options

MODULES = frozenset(
    {
        "agent.knowledge.canvas.documents",
        "agent.session.history.branch_comparison",
        "agent.knowledge.context.context_table",
        "agent.knowledge.context.quarantine",
        "agent.errors",
        "agent.core.event_data",
        "agent.events",
        "agent.core.messages",
        "agent.integrations.mcp.server_requests",
        "agent.integrations.mcp.server_state",
        "agent.model.detect",
        "agent.model.protocol",
        "agent.session.attempts.parallel_attempts",
        "agent.session.options",
        "agent.session.subagents.agents",
        "agent.integrations.plugins.registrations",
        "agent.integrations.plugins.process",
        "agent.safety.grants",
        "agent.integrations.server_events",
        "agent.safety.rules",
        "agent.session.spending.report",
        "agent.core.store.query_line",
        "agent.core.store.marks",
        "agent.core.store.nodes",
        "agent.core.store.operations",
        "agent.core.store.branches",
        "agent.core.store.search",
        "agent.session.subagents.forecast",
        "agent.session.history.navigation",
        "agent.workspace.checkpoints.entries",
        "agent.workspace.checkpoints.restore.apply",
        "agent.workspace.checkpoints.restore.hunks",
        "agent.workspace.checkpoints.restore.merge",
        "agent.workspace.checkpoints.restore.hunk_restore",
        "agent.workspace.checkpoints.restore.plan",
        "agent.workspace.checkpoints.restore.ref_plan",
        "agent.workspace.checkpoints.units",
        "tools.services.canvases",
        "tools.context",
        "tools.files.diffs",
        "tools.results",
    }
)
"""Modules whose data classes, named tuples and enumerations may be sent."""

CASTS = frozenset({"submit", "steer", "set_queue", "send_queue", "interrupt", "answer"})
"""Commands of a session that have no reply."""
CALLS = {
    "": "run go_on idle set_mode set_effort watch add_note compact context usage whole_path compare export",
    "history": "outline heads marks mark node place steps position_of changes without_ignored contents plan "
    "merge_conflict split_hunks restore rewind fork switch rename undoable redoable undo redo",
    "agents": "recall waiting conversation has_ended toggle_pause tell kill copies holds_copy plan_merge "
    "merge discard",
    "attempts": "list_attempts start stop ended_attempt",
    "approvals": "grants revoke give pending",
    "plugins": "commands run run_called failures",
    "stored": "newest session node ending before search around branch_with use_branch rename delete",
    "servers": "states restart sign_in leave_sign_in came_back sign_out agree resources",
}
"""Methods with a reply, of a session and of its parts; no other methods can be called remotely."""
VIEW = ("model", "branch", "busy", "queue", "watches", "keeps_files", "mode", "effort")
"""Properties of a session, besides the path, whose values are sent with frames."""

_classes: dict[str, type[Any]] = {}


class WireError(ValueError):
    """Raised for a value that must not be sent, or data that cannot be decoded."""


def encode(value: Any) -> Any:
    """Return the value as JSON data. Raises `WireError` for a value that must not be sent."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, Enum):
        return {"~e": [_name(type(value)), value.name]}
    if isinstance(value, (int, float)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"~c": _name(type(value)), "~f": _fields(value)}
    if isinstance(value, tuple):
        if (names := getattr(value, "_fields", None)) is not None:
            inner = [encode(each) for each in value]
            return {"~c": _name(type(value)), "~f": dict(zip(names, inner, strict=True))}
        return {"~t": [encode(each) for each in value]}
    return _encode_container(value)


def _encode_container(value: Any) -> Any:
    match value:
        case list():
            return [encode(each) for each in value]
        case Mapping():
            if all(isinstance(key, str) and not key.startswith("~") for key in value):
                return {key: encode(each) for key, each in value.items()}
            return {"~m": [[encode(key), encode(each)] for key, each in value.items()]}
        case frozenset() | set():
            return {"~s": [encode(each) for each in value]}
        case bytes():
            return {"~b": base64.b64encode(value).decode("ascii")}
        case Path():
            return {"~p": str(value)}
        case _:
            raise WireError(f"{type(value).__name__} does not cross the interface.")


def _fields(value: Any) -> dict[str, Any]:
    """Return the encoded fields of a data class; futures are left out."""
    return {
        field.name: encode(getattr(value, field.name))
        for field in dataclasses.fields(value)
        if field.metadata.get("json", True)
    }


def decode(value: Any) -> Any:
    """Return the value that `encode` encoded. Raises `WireError` for other data."""
    if isinstance(value, list):
        return [decode(each) for each in value]
    if not isinstance(value, dict):
        return value
    for key in value:
        if key.startswith("~"):
            try:
                return _decode_marked(key, value)
            except (TypeError, ValueError, KeyError, AttributeError) as error:
                raise WireError(f"{key} cannot be read: {error}") from error
        break
    return {key: decode(each) for key, each in value.items()}


def _decode_marked(key: str, value: dict[str, Any]) -> Any:
    inner = value[key]
    match key:
        case "~c":
            return _construct(_class(inner), {name: decode(each) for name, each in value["~f"].items()})
        case "~t":
            return tuple(decode(each) for each in inner)
        case "~m":
            return {decode(name): decode(each) for name, each in inner}
        case "~s":
            return frozenset(decode(each) for each in inner)
        case "~b":
            return base64.b64decode(inner)
        case "~p":
            return Path(inner)
        case "~e":
            return getattr(_class(inner[0]), inner[1])
        case _:
            raise WireError(f"{key} means nothing.")


def _construct(kind: type[Any], fields: dict[str, Any]) -> Any:
    """Return a value of a class. A future, which is never sent, is replaced by a new one of this loop."""
    if dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            if field.init and not field.metadata.get("json", True):
                fields[field.name] = asyncio.get_running_loop().create_future()
    return kind(**fields)


def _name(kind: type[Any]) -> str:
    if kind.__module__ not in MODULES:
        raise WireError(f"{kind.__module__}.{kind.__qualname__} does not cross the interface.")
    return f"{kind.__module__}:{kind.__qualname__}"


def _class(name: str) -> type[Any]:
    """Return the class with this name. Raises `WireError` unless it is a data type of one of `MODULES`."""
    if (known := _classes.get(name)) is not None:
        return known
    module, _, kind = name.partition(":")
    if module not in MODULES:
        raise WireError(f"{name} does not cross the interface.")
    found = getattr(import_module(module), kind)
    if not isinstance(found, type) or not (
        dataclasses.is_dataclass(found) or issubclass(found, Enum) or hasattr(found, "_fields")
    ):
        raise WireError(f"{name} is not data.")
    _classes[name] = found
    return found


def encode_error(error: HermesError) -> dict[str, Any]:
    """Return an error as data, with its class, text, and those of its attributes that may be sent."""
    data: dict[str, Any] = {}
    for name, value in vars(error).items():
        try:
            data[name] = encode(value)
        except WireError:
            continue
    kind = type(error)
    return {"kind": f"{kind.__module__}:{kind.__qualname__}", "text": str(error), "data": data}


def decode_error(value: Mapping[str, Any]) -> HermesError:
    """Return an error that the other side sent, of the same class if this side has it."""
    kind: type[HermesError] = HermesError
    module, _, name = str(value["kind"]).partition(":")
    if module.partition(".")[0] in ("agent", "tools"):
        found = getattr(import_module(module), name, None)
        if isinstance(found, type) and issubclass(found, HermesError):
            kind = found
    error = kind.__new__(kind)
    error.args = (str(value["text"]),)
    vars(error).update({name: decode(each) for name, each in value["data"].items()})
    return error


def pack(frame: Mapping[str, Any]) -> bytes:
    """Return a frame as bytes: the length in four bytes, then the JSON."""
    return framed(json.dumps(frame, separators=(",", ":")).encode("ascii"))


LARGEST = 1 << 29
"""The maximum size of a frame in bytes; a longer one is refused."""
HELD = 1_000_000
"""The maximum number of bytes held for a surface that does not read; beyond them, the engine waits."""


async def read_frame(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Return the next frame; None if the stream ends, even within a frame. Raises `WireError`."""
    try:
        return await children.read_frame(reader, LARGEST)
    except children.FrameError as error:
        raise WireError(str(error)) from error


class Outlet:
    """Writes frames in order. Frames that the other side has not accepted are held, up to `HELD` bytes.

    If there are more, `send` blocks. An engine with a slow surface then stops reading from its model;
    otherwise the surface would have to hold everything.
    """

    def __init__(self, to: socket.socket) -> None:
        to.setblocking(False)
        self._to = to
        self._loop = asyncio.get_running_loop()
        self._waiting = bytearray()
        self._watches = False
        self.broken = False
        """True if the connection to the other side is broken."""

    def send(self, frame: Mapping[str, Any]) -> None:
        """Send a frame; block while more than `HELD` bytes wait. Raises `WireError` for invalid values."""
        if self.broken:
            return
        self.queue(frame)
        while len(self._waiting) > HELD and not self.broken:
            wait_until_ready(self._to, writes=True)
            self._write()

    @property
    def waiting(self) -> int:
        """The number of bytes that the other side has not accepted yet."""
        return len(self._waiting)

    def queue(self, frame: Mapping[str, Any]) -> None:
        """Send as much of a frame as the other side accepts now, and the rest later. Raises `WireError`."""
        self._waiting += pack(frame)
        self._write()

    def drop(self) -> None:
        """Close the connection at once, without sending the rest."""
        self.broken = True
        self._waiting.clear()
        self._stop_watching()
        self._to.close()

    def finish(self) -> None:
        """Send the rest, however long that takes, and close the connection. Blocks."""
        while self._waiting and not self.broken:
            wait_until_ready(self._to, writes=True)
            self._write()
        self._stop_watching()
        self._to.close()

    def _write(self) -> None:
        try:
            while self._waiting:
                sent = self._to.send(self._waiting)
                del self._waiting[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.broken = True
            self._waiting.clear()
        if self._waiting and not self._watches:
            self._watches = True
            self._loop.add_writer(self._to, self._write)
        elif not self._waiting:
            self._stop_watching()

    def _stop_watching(self) -> None:
        if self._watches:
            self._watches = False
            self._loop.remove_writer(self._to)


PATIENCE = 20.0
"""Seconds that an engine may take to close its session before it is killed."""
TURN = 0.002
"""Seconds for which frames are handled in a row before other tasks of the event loop may run."""

log = logging.getLogger(__name__)


class Link:
    """The connection to a process with an engine. `hear` receives all frames but log records, in order."""

    def __init__(self, hear: Callable[[Mapping[str, Any]], None], ended: Callable[[str], None]) -> None:
        """Create the connection. `ended` is called once, with a sentence, if the process ends unasked."""
        self._hear = hear
        self._ended = ended
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._closing = False
        self.dead = ""
        """A sentence on how the other side ended; empty while it runs."""

    @property
    def pid(self) -> int:
        """The id of the process; 0 if none was started."""
        return self._process.pid if self._process is not None else 0

    async def start(self) -> None:
        """Start a process with an engine, and connect to it. Raises `HermesError`."""
        try:
            self._process, reader, self._writer = await start_module("agent.api.child")
        except OSError as error:
            raise HermesError(f"The engine cannot be started: {error.strerror}.") from error
        self._reading = asyncio.create_task(self._read(reader), name="engine")

    async def connect(self, path: Path) -> None:
        """Connect to an engine of the service, over the service's socket. Raises `HermesError`."""
        try:
            reader, self._writer = await asyncio.open_unix_connection(str(path))
        except OSError as error:
            raise HermesError(
                "No service runs in this home: start one with `hermes serve`, then attach."
            ) from error
        self._reading = asyncio.create_task(self._read(reader), name="service")

    def cast(self, method: str, *arguments: Any) -> None:
        """Send a command without a reply. Raises `HermesError` if the engine has ended."""
        self._send({"cast": method, "arguments": encode(arguments)})

    async def call(self, port: str, method: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Call a method of the engine and return its result, still encoded. Raises `HermesError`."""
        frame = {
            "port": port,
            "method": method,
            "arguments": encode(arguments),
            "named": encode(dict(named)),
        }
        return await self.ask(lambda number: {"call": number, **frame})

    async def ask(self, frame: Callable[[int], Mapping[str, Any]]) -> Any:
        """Send the frame that `frame` makes from a number; return the reply's value. Raises `HermesError`."""
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send(frame(number))
            reply = await future
        except asyncio.CancelledError:
            if not self.dead:
                self._send({"cancel": number})
            raise
        finally:
            self._waiting.pop(number, None)
        if (error := reply.get("error")) is not None:
            raise decode_error(error)
        return reply["value"]

    async def close(self) -> None:
        """Close the session and end its engine's process; a service is only left. Raises `HermesError`."""
        self._closing = True
        if self._reading is None:
            return
        if not self.dead:
            self._send({"close": True})
        if self._process is None:
            await self._let_go(self._reading)
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.shield(self._reading)
                await self._process.wait()
        except TimeoutError:
            log.warning("the engine did not end in %.0f s and was stopped", PATIENCE)
            kill_process(self._process)
            await self._process.wait()
            await self._reading
        if self._writer is not None:
            self._writer.close()

    async def _let_go(self, reading: asyncio.Task[None]) -> None:
        """Wait until the service closes this connection, or `PATIENCE` is over. The session continues."""
        await asyncio.wait([reading], timeout=PATIENCE)
        reading.cancel()
        if self._writer is not None:
            self._writer.close()

    def _send(self, frame: Mapping[str, Any]) -> None:
        if self.dead or self._writer is None:
            raise HermesError(self.dead or "The engine is not there yet.")
        self._writer.write(pack(frame))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            await self._take(reader)
        except OSError:
            log.info("the connection to the engine broke off", exc_info=True)
        except WireError:
            log.exception("the engine sent what cannot be read")
        self.dead = await self._end()
        for future in self._waiting.values():
            if not future.done():
                future.set_result({"error": {"kind": "", "text": self.dead, "data": {}}})
        if not self._closing:
            self._ended(self.dead)

    async def _end(self) -> str:
        """Return a sentence on how the other side ended."""
        if self._process is None:
            return "The service has ended, or let this terminal go."
        if not self._closing:
            # Even if the process still runs, nobody can talk to it any more.
            kill_process(self._process)
        code = await self._process.wait()
        return f"The engine of this session {_how(code)}."

    async def _take(self, reader: asyncio.StreamReader) -> None:
        until = time.monotonic() + TURN
        while (frame := await read_frame(reader)) is not None:
            if (level := frame.get("log")) is not None:
                logging.getLogger(str(level[1])).log(int(level[0]), "%s", level[2])
                continue
            self._hear(frame)
            if (number := frame.get("reply")) is not None:
                future = self._waiting.get(number)
                if future is not None and not future.done():
                    future.set_result(frame)
                # The waiting caller continues before the events that come after.
                await asyncio.sleep(0)
            if time.monotonic() > until:
                await asyncio.sleep(0)
                until = time.monotonic() + TURN


def _how(code: int) -> str:
    """Return a clause on how a process ended, from its exit code."""
    if code >= 0:
        return f"ended unexpectedly (exit code {code})"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


Listener = Callable[[Event], None]
GO_ON = "What was said is kept; /resume {} continues with it."


class _Port:
    """The methods of one part of the session's interface (see `CALLS`). Each call is sent to the engine."""

    def __init__(self, link: Link, port: str) -> None:
        self._link = link
        self._port = port

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method not in CALLS[self._port].split():
            raise AttributeError(method)

        async def call(*arguments: Any, **named: Any) -> Any:
            return decode(await self._link.call(self._port, method, arguments, named))

        return call


class RemoteSession:
    """A `SessionClient` over a socket. Its properties change with the events, in their order."""

    def __init__(
        self, listeners: Sequence[Listener], preview: Callable[[Sequence[Node]], None] | None
    ) -> None:
        self._listeners = tuple(listeners)
        self._preview = preview
        self._link = Link(self._hear, self._handle_death)
        self._asked: dict[str, Asked] = {}
        """Requests that wait for the user, by id."""
        self._sent: list[str] = []
        """Sent messages that are not confirmed as stored or queued yet."""
        self._path: list[Node] = []
        self._view: dict[str, Any] = {"busy": False, "queue": ()}
        self.id = ""
        self.workspace = Path()
        for port, methods in CALLS.items():
            calls = _Port(self._link, port)
            if port:
                setattr(self, port, calls)
            else:
                vars(self).update({method: getattr(calls, method) for method in methods.split()})

    @classmethod
    async def open(
        cls,
        options: Options,
        listeners: Sequence[Listener],
        environ: Mapping[str, str] | None,
        service: Path | None = None,
    ) -> SessionClient:
        """Start an engine that opens a session, and return the session. With a service, given by its socket,
        request it there.

        Raises `HermesError`; then no process is left.
        """
        session = cls(listeners, options.preview)
        frame = {
            "open": encode(replace(options, preview=None, editor=None)),
            "environ": None if environ is None else dict(environ),
            "preview": options.preview is not None,
        }
        try:
            if service is None:
                await session._link.start()
            else:
                await session._link.connect(service)
            opened = await session._link.ask(lambda _number: frame)
        except BaseException:
            await session._link.close()
            raise
        session.id, session.workspace = opened["id"], Path(opened["workspace"])
        return cast("SessionClient", session)

    # Properties available without a request

    @property
    def model(self) -> str:
        return self._view["model"]

    @property
    def branch(self) -> str:
        return self._view["branch"]

    @property
    def path(self) -> Sequence[Node]:
        return self._path

    @property
    def busy(self) -> bool:
        return self._view["busy"]

    @property
    def queue(self) -> tuple[str, ...]:
        return self._view["queue"]

    @property
    def watches(self) -> bool:
        return self._view["watches"]

    @property
    def keeps_files(self) -> bool:
        return self._view["keeps_files"]

    @property
    def mode(self) -> str:
        return self._view["mode"]

    @property
    def effort(self) -> str:
        return self._view["effort"]

    @property
    def is_lost(self) -> bool:
        return bool(self._link.dead)

    @property
    def pid(self) -> int:
        """The id of the engine's process."""
        return self._link.pid

    # Commands without an answer

    def submit(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        self._link.cast("submit", text, tuple(attachments))
        self._sent.append(text)
        self._view["busy"] = True

    def steer(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        self._link.cast("steer", text, tuple(attachments))
        self._sent.append(text)
        self._view["busy"] = True

    def set_queue(self, texts: Sequence[str]) -> None:
        self._link.cast("set_queue", tuple(texts))

    def send_queue(self) -> None:
        self._link.cast("send_queue")

    def interrupt(self) -> None:
        if not self._link.dead:
            self._link.cast("interrupt")

    def answer(self, request: str, reply: Reply) -> None:
        if not self._link.dead:
            self._link.cast("answer", request, reply)

    async def aclose(self) -> None:
        """Ask the engine to close the session. Does nothing if the engine has ended."""
        await self._link.close()

    # Incoming frames

    def _hear(self, frame: Mapping[str, Any]) -> None:
        if (view := frame.get("view")) is not None:
            self._take_view(view)
        if (event := frame.get("event")) is not None:
            self._emit(decode(event))
        elif (nodes := frame.get("preview")) is not None and self._preview is not None:
            self._preview(decode(nodes))

    def _take_view(self, view: Mapping[str, Any]) -> None:
        for name, value in view.items():
            if name == "path":
                kept, nodes = value
                # A new list: readers of the old one continue with that.
                self._path = [*self._path[:kept], *decode(nodes)]
            else:
                self._view[name] = decode(value)

    def _emit(self, event: Event) -> None:
        self._confirm(event)
        if isinstance(event, Asked):
            self._asked[event.id] = event
            reply: asyncio.Future[Any] = event.reply
            reply.add_done_callback(lambda done, id=event.id: self._forward_answer(id, done))
        elif isinstance(event, RequestResolved) and (asked := self._asked.pop(event.id, None)) is not None:
            reply = asked.reply
            if not reply.done():
                reply.set_result(asked.cancelled)
        for listener in self._listeners:
            listener(event)

    def _confirm(self, event: Event) -> None:
        """Remove the messages that the event confirms from the list of sent ones."""
        match event:
            case UserMessageAdded():
                arrived = [event.text]
            case QueueChanged():
                arrived = [clean(each) for each in (*event.queued, *event.steering)]
            case _:
                return
        self._sent = [each for each in self._sent if clean(each) not in arrived]

    def _forward_answer(self, request: str, done: asyncio.Future[Any]) -> None:
        """Send the surface's reply to a request to the engine, unless the request is already resolved."""
        if request in self._asked and not done.cancelled():
            self.answer(request, done.result())

    def _handle_death(self, how: str) -> None:
        """Emit an event that the engine has ended, once, and cancel all requests to the user."""
        busy, self._view["busy"] = self.busy, False
        # A caller that opens another session gets them back.
        self._view["queue"] = (*self.queue, *self._sent)
        for request in list(self._asked):
            self._emit(RequestResolved(agent=self._asked[request].agent, id=request, outcome="cancelled"))
        words = f"{how} {GO_ON.format(self.id)}" if self.id else how
        if busy:
            self._emit(
                TurnEnded(outcome="failed", text="", session=self.id, usage={}, error=words, exit_code=1)
            )
        elif self.id:
            self._emit(Noticed(kind="warning", text=words))


async def move_session(service: Path, session: str, where: str) -> str:
    """Continue a session of the service in the user's chat with the messenger `where`; return the chat's
    name.

    `service` is the path of the service's socket. Raises `HermesError`.
    """
    told: str = await _ask_service(service, {"move": {"session": session, "to": where}})
    return told


async def check_move(service: Path, where: str) -> None:
    """Raise `HermesError` unless the service can move a session to the messenger `where`."""
    await _ask_service(service, {"check_move": where})


async def _ask_service(service: Path, question: Mapping[str, Any]) -> Any:
    link = Link(_unheard, lambda _how: None)
    await link.connect(service)
    try:
        return decode(await link.ask(lambda number: {"call": number, **question}))
    finally:
        await link.close()


def _unheard(_frame: Mapping[str, Any]) -> None:
    """Ignore a frame, because no session is open on this connection."""

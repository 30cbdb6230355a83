"""Encoding of the values of the interface as JSON, and their transport in ordered frames."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import select
import socket
from collections.abc import Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

from agent.errors import HermesError
from tools.kit import children
from tools.kit.children import framed

MODULES = frozenset(
    {
        "agent.knowledge.canvas.documents",
        "agent.session.history.branch_comparison",
        "agent.knowledge.context.prefix_ledger",
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
        "agent.safety.verdict",
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
        "agent.workspace.checkpoints.restore.git_group",
        "tools.services.canvases",
        "tools.context",
        "tools.files.diffs",
        "tools.results",
    }
)
"""Modules of the data classes that may be sent."""

CASTS = frozenset({"submit", "steer", "set_queue", "send_queue", "interrupt", "answer"})
"""Commands of a session without an answer."""
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
"""Methods with an answer, of a session and of its parts; no other methods can be called remotely."""
VIEW = ("model", "branch", "busy", "queue", "watches", "keeps_files", "mode", "effort")
"""Properties of a session that are available without a request, other than the path."""

_classes: dict[str, type[Any]] = {}


class WireError(ValueError):
    """Raised for a value that must not be sent, or data that cannot be decoded."""


def encode(value: Any) -> Any:
    """Return the value as JSON-able data. Raises `WireError` for a value that must not be sent."""
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
    """Return the fields of a data class that are sent; a future is left out."""
    return {
        field.name: encode(getattr(value, field.name))
        for field in dataclasses.fields(value)
        if field.metadata.get("json", True)
    }


def decode(value: Any) -> Any:
    """Return the value that `encode` wrote. Raises `WireError` for other data."""
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
    """Construct a value of a class. A future, which is never sent, is replaced by a new one of this loop."""
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
    """Return the class of a name. Only data classes, named tuples and enumerations of `MODULES` are found."""
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
    """Return an error as data, with those of its fields that may be sent."""
    data: dict[str, Any] = {}
    for name, value in vars(error).items():
        try:
            data[name] = encode(value)
        except WireError:
            continue
    kind = type(error)
    return {"kind": f"{kind.__module__}:{kind.__qualname__}", "text": str(error), "data": data}


def decode_error(value: Mapping[str, Any]) -> HermesError:
    """Return an error that the other side sent, as the same class if this side has it."""
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
"""Bytes of a frame; a longer one is refused."""
HELD = 1_000_000
"""Bytes that wait for a surface that does not read; beyond them the engine waits too."""


async def read_frame(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Return the next frame; None if the stream ends, even within a frame. Raises `WireError`."""
    try:
        return await children.read_frame(reader, LARGEST)
    except children.FrameError as error:
        raise WireError(str(error)) from error


class Outlet:
    """Writes frames in order. Frames that the other side has not accepted are held, up to `HELD` bytes.

    If there are more, `send` waits. An engine with a slow surface then stops reading from its model;
    otherwise the surface would have to hold everything.
    """

    def __init__(self, to: socket.socket) -> None:
        to.setblocking(False)
        self._to = to
        self._loop = asyncio.get_running_loop()
        self._waiting = bytearray()
        self._watches = False
        self.broken = False
        """True if the other side is gone."""

    def send(self, frame: Mapping[str, Any]) -> None:
        """Send a frame, waiting until the other side accepts it. Raises `WireError` for invalid values."""
        if self.broken:
            return
        self.queue(frame)
        while len(self._waiting) > HELD and not self.broken:
            select.select([], [self._to], [])
            self._write()

    @property
    def waiting(self) -> int:
        """The number of bytes that the other side has not accepted yet."""
        return len(self._waiting)

    def queue(self, frame: Mapping[str, Any]) -> None:
        """Send as much as the other side accepts now, and the rest later. Raises `WireError`."""
        self._waiting += pack(frame)
        self._write()

    def drop(self) -> None:
        """Close at once, without sending the rest."""
        self.broken = True
        self._waiting.clear()
        self._stop_watching()
        self._to.close()

    def finish(self) -> None:
        """Send the rest, however long that takes, and close."""
        while self._waiting and not self.broken:
            select.select([], [self._to], [])
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

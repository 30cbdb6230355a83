"""Data shared by runner and child: jobs, limits, a pausable clock, and messages over the socket."""

from __future__ import annotations

import hmac
import json
import marshal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tools.text.json_text import to_json

Mode = Literal["strict", "project"]
"""`strict`: Hermes's interpreter, isolated, standard library only. `project`: the project's interpreter."""

Status = Literal["ok", "error", "timeout", "interrupted", "crashed"]
"""The end of a script. `ok`: exit code 0. `error`: a traceback or another exit code. `timeout`: killed at
the time limit. `interrupted`: stopped by the user. `crashed`: its process died of a signal, or could
not continue.
"""

Serve = Callable[[str, dict[str, Any]], Awaitable[str]]
"""A function that runs a script's tool call, once it is permitted, and returns the result as JSON text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """The limits of one script. Sizes in bytes, times in seconds."""

    seconds: float = 120.0
    grace: float = 5.0
    """Seconds between SIGTERM and SIGKILL."""
    calls: int = 50
    output: int = 50_000
    """Bytes of stdout sent to the model."""
    errors: int = 10_000
    """Bytes of stderr sent to the model."""
    memory: int = 4_000_000_000
    """Bytes of private memory of the child; 0: no limit is set."""
    processes: int = 256
    """Processes and threads the script may start beyond those its user already runs; 0: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeJob:
    """One script to run.

    `tools` are the definitions on offer in this session (`{"name", "description", "parameters"}`, as from
    `Registry.definitions`); the runner leaves out those that scripts may not call. `known` names every
    registered tool, to distinguish an excluded one from an unknown one. The script runs in `folder`.
    `environ` is the environment from which the runner derives that of the script.
    """

    script: str
    folder: Path
    tools: tuple[Mapping[str, Any], ...] = ()
    known: frozenset[str] = frozenset()
    limits: CodeLimits = CodeLimits()
    mode: Mode = "strict"
    environ: Mapping[str, str] = field(default_factory=dict)
    task: str = "main"
    """The task, which owns named kernels."""
    session: str | None = None
    """Name of a persistent kernel; None runs in a fresh child."""
    reset: bool = False
    """Whether to restart the named kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One finished tool call of a script. `duration` is in seconds."""

    number: int
    """The number from 1, in order of arrival."""
    tool: str
    duration: float
    ok: bool
    result_size: int
    """Characters of the whole result."""
    shown: Shown

    @property
    def arguments(self) -> str:
        """Return the arguments on one short line, cleaned and masked."""
        return self.shown.line(self.shown.arguments)

    @property
    def preview(self) -> str:
        """Return the beginning of the result on one short line, cleaned and masked."""
        return self.shown.line(self.shown.result)


@dataclass(frozen=True, slots=True)
class Shown:
    """The text shown for a call; `line` cleans it only when it is displayed."""

    arguments: str
    result: str
    line: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class RunningCall:
    """One unfinished tool call of a script. `started` is in seconds since the start of the script."""

    number: int
    tool: str
    arguments: str
    started: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeProgress:
    """The state of a running script, sent when calls start or end and when there is new output.

    At most thirty are sent per second. Each ended call is in the `finished` field of exactly one.
    """

    calls: int
    """Calls accepted so far."""
    limit: int
    elapsed: float
    running: tuple[RunningCall, ...] = ()
    finished: tuple[CallRecord, ...] = ()
    """The calls that ended since the last report."""
    output: str = ""
    """The newest lines of stdout, cleaned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeOutcome:
    """The end of a run and its output. Both texts are cleaned and cut to the limits."""

    status: Status
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    """None when the script never ran or its process was killed; 128 + n for signal n."""
    duration: float = 0.0
    """Seconds, without waiting for the user."""
    calls: tuple[CallRecord, ...] = ()
    calls_made: int = 0
    message: str = ""
    """One sentence on what went wrong, for any status but `ok`."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """`mode`, `interpreter`, `warm` (a spare was used), `session`, `stdout_bytes`, `stderr_bytes`."""


LINE_LIMIT = 16_000_000
"""The size limit of a request in bytes; a file to write is sent in a single request."""

SMALL = 64_000
"""The most characters of a result that is sent on the line of its reply."""

_PIECE = 131_072


class BadRequestError(Exception):
    """Raised for an invalid request. The message is for the client that sent it."""

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.number = number


@dataclass(frozen=True, slots=True)
class RpcRequest:
    """A tool call, or a note about the script if `event` is set. Its token has been checked."""

    number: int
    tool: str
    arguments: dict[str, Any]
    event: str = ""
    code: int = 0


_decode = json.JSONDecoder().decode


def parse_request(line: bytes | bytearray, token: str) -> RpcRequest:
    """Parse a request. Raises `BadRequestError` if it is invalid or lacks the token."""
    try:
        data = _decode(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise BadRequestError("The request is not JSON.") from None
    if not isinstance(data, dict):
        raise BadRequestError("The request is not a JSON object.")
    number = data.get("id")
    number = number if isinstance(number, int) and not isinstance(number, bool) else None
    given = data.get("token")
    if not isinstance(given, str) or not hmac.compare_digest(
        given.encode("utf-8", "replace"), token.encode()
    ):
        raise BadRequestError("The token of the request is not that of this script.", number)
    if isinstance(data.get("event"), str):
        code = data.get("code")
        return RpcRequest(0, "", {}, data["event"], code if isinstance(code, int) else 1)
    tool, arguments = data.get("tool"), data.get("args", {})
    if number is None or not isinstance(tool, str) or not isinstance(arguments, dict):
        raise BadRequestError("A request needs a number `id`, a text `tool` and an object `args`.", number)
    if b"\\u" in line:
        # Escapes are the one way for half a surrogate pair to come in.
        tool, arguments = _whole(tool), _whole(arguments)
    return RpcRequest(number, tool, arguments)


def reply(number: int | None, result: str) -> bytes | None:
    """Return the reply with a JSON result on one line; None if the result is too long or has line breaks."""
    if len(result) > SMALL or "\n" in result:
        return None
    return f'{{"id": {"null" if number is None else number}, "result": {result}}}\n'.encode(
        "utf-8", "replace"
    )


def pieces(number: int, result: str) -> Iterator[bytes]:
    """Yield a reply in pieces; copying small pieces is faster than copying all at once."""
    if not result.isascii():
        result_bytes = result.encode("utf-8", "replace")
        yield b'{"id": %d, "size": %d}\n' % (number, len(result_bytes))
        yield result_bytes
        return
    yield b'{"id": %d, "size": %d}\n' % (number, len(result))
    for start in range(0, len(result), _PIECE):
        yield result[start : start + _PIECE].encode()


def error_text(message: str) -> str:
    """Return the JSON text of a result that reports a failure: `{"error": message}`."""
    return to_json({"error": message})


def frame(data: Mapping[str, Any]) -> bytes:
    """Encode plain data for the child: the length, then `marshal` data that every interpreter reads."""
    body = marshal.dumps(dict(data), 2)
    return len(body).to_bytes(4, "big") + body


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return value


class Clock:
    """A clock that runs from its creation. Pauses may overlap; it continues when the last one ends."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._waited = 0.0
        self._pauses = 0
        self._pause_began = 0.0

    @property
    def elapsed(self) -> float:
        """Return the seconds that the clock has run, without pauses."""
        now = self._pause_began if self._pauses else time.monotonic()
        return now - self._started - self._waited

    @property
    def is_paused(self) -> bool:
        return self._pauses > 0

    def restart(self) -> None:
        """Restart the clock at zero, so that the preparation before is not counted."""
        self._started = time.monotonic()
        self._waited = 0.0
        self._pause_began = self._started

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock inside this block."""
        if self._pauses == 0:
            self._pause_began = time.monotonic()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                self._waited += time.monotonic() - self._pause_began

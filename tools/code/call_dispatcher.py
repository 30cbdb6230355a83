"""Dispatches the calls of one script: what is allowed, how many, and what is known of each."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.code.data import SMALL, CallRecord, Clock, CodeProgress, RunningCall, Serve, Shown, error_text
from tools.code.stubs import Offer, restrict
from tools.text.redact import redact
from tools.text.safe_text import clean
from tools.text.words import shorten

log = logging.getLogger(__name__)

PREVIEW = 200
"""Characters of arguments and results that are shown."""

_LOOKED_AT = 2_000
"""Characters of which the shown ones are made: masking shortens."""

_encode = json.JSONEncoder(ensure_ascii=False).encode
"""For arguments that came in as JSON; an encoder made once costs a third of `json.dumps`."""
_decode = json.JSONDecoder().decode
_INTERVAL = 1 / 30
"""Seconds between two looks at a script: more often than that nobody can follow."""
_INTERRUPTED = error_text("Interrupted: the script was stopped before this call ended.")
_PATIENCE = 10.0
"""Seconds the calls under way get to stop before their script is ended."""


@dataclass(eq=False, slots=True)
class _Call:
    """A call under way; what is shown of it is made when somebody looks."""

    number: int
    tool: str
    arguments: dict[str, Any]
    started: float


@dataclass(eq=False)
class CallDispatcher:
    """Serves the calls of one run."""

    offer: Offer
    limit: int
    clock: Clock
    serve: Serve
    tell: Callable[[CodeProgress], None]
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Values to mask in what is shown, by name."""
    newest: Callable[[], str] = str
    """The newest output of the script."""
    made: int = 0
    records: list[CallRecord] = field(default_factory=list)
    _running: dict[int, _Call] = field(default_factory=dict)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _is_closed: bool = False
    _names: frozenset[str] = frozenset()
    _finished: list[CallRecord] = field(default_factory=list)
    """Calls that have ended since the last look."""
    _told: float = -math.inf
    _due: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self._names = frozenset(self.offer.names)

    async def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """Run one call; every failure is the JSON text of `{"error": …}`."""
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
        """Have whoever watches look at the script, now or, when that was only just, a moment later."""
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
        """Send a look at the script. What goes wrong there is not the script's fault."""
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
        """Take no more calls, and stop those under way; returns when they have stopped."""
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
        """The beginning of a text on one line. Masked before it is cut: half a secret has no shape."""
        line = " ".join(redact(clean(text), self.secrets).split())
        return shorten(line, PREVIEW)


def _beginnings(arguments: dict[str, Any]) -> str:
    """Arguments as JSON, long ones shortened."""
    return _encode({key: _shortened(value) for key, value in arguments.items()})[:_LOOKED_AT]


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_LOOKED_AT]
    if isinstance(value, (list, dict)) and len(value) > 20:
        return f"{len(value)} items"
    return value


def _check(result: str) -> None:
    """Raise when `result` is no JSON: inside a reply it would break the reply. Large ones travel apart."""
    if len(result) <= SMALL:
        _decode(result)

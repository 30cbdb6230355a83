"""One server of a session: its host process, timeouts and failures. A server that keeps failing is parked."""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from agent.errors import ExitCode, HermesError
from agent.integrations.mcp.launch import ServerLaunch, pack_frame, read_frame
from agent.integrations.mcp.server_state import Health
from tools.kit.children import FrameError, start_module
from tools.text.safe_text import clean
from tools.text.words import plural


class CallClocks:
    """The timeouts of all calls that wait for one server."""

    def __init__(self) -> None:
        self._timers: dict[asyncio.Timeout, float] = {}
        """The running timeouts, with the seconds each has left while the clocks are stopped."""
        self._pauses = 0

    @asynccontextmanager
    async def running(self, seconds: float) -> AsyncIterator[None]:
        """Raise `TimeoutError` if the block takes more than `seconds`.

        The time inside `paused` does not count.
        """
        async with asyncio.timeout(None if self._pauses else seconds) as timer:
            self._timers[timer] = seconds
            try:
                yield
            finally:
                del self._timers[timer]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the timeouts of all calls inside the block."""
        loop = asyncio.get_running_loop()
        self._pauses += 1
        if self._pauses == 1:
            for timer in self._timers:
                if (when := timer.when()) is not None:
                    self._timers[timer] = when - loop.time()
                    timer.reschedule(None)
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                for timer, left in self._timers.items():
                    if not timer.expired():
                        timer.reschedule(loop.time() + left)


class ServerError(HermesError):
    """The error of a server. The text is one sentence with the server's name and the fix."""

    exit_code = ExitCode.UNREACHABLE

    def __init__(
        self, name: str, clause: str, mend: str = "", *, gone: bool = False, sign_in: bool = False
    ) -> None:
        if sign_in:
            mend = mend or f"sign in with `hermes mcp login {name}`"
        self.look = f"; look at it with `hermes mcp probe {name}`"
        """A hint on how to find out more, for errors without a fix."""
        super().__init__(
            f"The MCP server {name} cannot do this: {clause}{f'; {mend}' if mend else self.look}."
        )
        self.clause = clause
        self.gone = gone
        """Whether the server has ended, so that it must be started again."""
        self.sign_in = sign_in


PATIENCE = 5.0
"""Seconds that the host process has to disconnect from its server."""

log = logging.getLogger(__name__)

Hear = Callable[[str, Mapping[str, Any]], None]
Answer = Callable[[str, Any], Awaitable[Any]]


class RefusedError(Exception):
    """The refusal of a server's request; the text gives the reason."""


class HostError(Exception):
    """A request to the host process failed. `about` is its error: `text`, `gone` and `sign_in`."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        super().__init__(str(about.get("text", "it failed")))
        self.gone = bool(about.get("gone"))
        self.sign_in = bool(about.get("sign_in"))


class HostProcess:
    """The host process of one server. `hear` receives its events, `answer` answers the server's questions."""

    def __init__(self, hear: Hear, answer: Answer) -> None:
        self._hear = hear
        self._answer = answer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._progress: dict[int, Callable[[str], None]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self.dead = False

    async def start(self, environ: Mapping[str, str]) -> None:
        """Start the process with `environ` as its whole environment. Raises `OSError`."""
        self._process, reader, self._writer = await start_module("agent.integrations.mcp.host.main", environ)
        self._reading = asyncio.create_task(self._read(reader), name="mcp")

    async def request(
        self, method: str, arguments: Mapping[str, Any], progress: Callable[[str], None] | None = None
    ) -> Any:
        """Send a request and return its result.

        If this is cancelled, the server is notified. Raises `HostError`.
        """
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        if progress is not None:
            self._progress[number] = progress
        try:
            self._send({"call": number, "method": method, "arguments": dict(arguments)})
            reply = await future
        except asyncio.CancelledError:
            with suppress(HostError):
                self._send({"cancel": number})
            raise
        finally:
            self._waiting.pop(number, None)
            self._progress.pop(number, None)
        if "error" in reply:
            raise HostError(reply["error"])
        return reply["value"]

    async def close(self, patience: float = PATIENCE) -> None:
        """End the server and the host process; after `patience` seconds they are killed."""
        if self._process is None or self._reading is None:
            return
        with suppress(HostError):
            self._send({"close": True})
        try:
            async with asyncio.timeout(patience):
                await self._process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            await self._process.wait()
        self._reading.cancel()
        for task in self._answering:
            task.cancel()
        await asyncio.gather(self._reading, *self._answering, return_exceptions=True)
        self._end("it was stopped")
        if self._writer is not None:
            self._writer.close()

    def _send(self, frame: Mapping[str, Any]) -> None:
        if self.dead or self._writer is None:
            raise HostError({"text": "its process has ended", "gone": True})
        try:
            self._writer.write(pack_frame(frame))
        except FrameError as error:
            raise HostError({"text": str(error)}) from error

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while (frame := await read_frame(reader)) is not None:
                self._take(frame)
        except FrameError as error:
            log.warning("the process of a server sent what cannot be read: %s", error)
            if self._process is not None:
                with suppress(ProcessLookupError):
                    self._process.kill()
        self._end("its process has ended")

    def _take(self, frame: Mapping[str, Any]) -> None:
        if "reply" in frame:
            future = self._waiting.get(frame["reply"])
            if future is not None and not future.done():
                future.set_result(frame)
        elif "ask" in frame:
            task = asyncio.create_task(self._reply(frame))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        elif frame.get("event") == "progress":
            if (progress := self._progress.get(frame["call"])) is not None:
                progress(str(frame["text"]))
        elif "event" in frame:
            self._hear(frame["event"], frame)

    async def _reply(self, frame: Mapping[str, Any]) -> None:
        number = frame["ask"]
        try:
            reply: dict[str, Any] = {
                "answer": number,
                "value": await self._answer(frame["kind"], frame["params"]),
            }
        except RefusedError as error:
            reply = {"answer": number, "error": str(error)}
        except Exception as error:
            log.exception("a question of a server could not be answered")
            reply = {"answer": number, "error": f"this failed: {type(error).__name__}"}
        with suppress(HostError):
            self._send(reply)

    def _end(self, reason: str) -> None:
        self.dead = True
        for future in self._waiting.values():
            if not future.done():
                future.set_result({"error": {"text": reason, "gone": True}})


LOG_LINES = 200
"""The number of lines of a server's log that are kept to be shown."""
WARM_UP = 60.0
"""The time limit in seconds for the start of the host process."""
REACTS_IN = 5.0
"""Seconds in which the host process must answer a ping after a call that took too long."""
ENDS_IN = 0.5
"""The maximum number of seconds that a call waits for the end of a failed process."""
_SLACK = 0.5
"""Seconds after its timeout in which a start may still report its own error."""


class Server:
    """One server, started when needed. Methods that send it a request raise `ServerError`."""

    def __init__(
        self,
        name: str,
        launch: Callable[[], ServerLaunch],
        environ: Mapping[str, str],
        answer: Answer,
        hear: Hear = lambda _event, _fields: None,
    ) -> None:
        """Set up the server without starting it.

        `launch` returns how to start it, or raises `HermesError` if that is not known. `environ` is the
        environment of the host process. `answer` answers the server's questions, and `hear` receives its
        events.
        """
        self.name = name
        self.health = Health()
        self.log: list[str] = []
        self._launch = launch
        self._environ = environ
        self._answer = answer
        self._hear = hear
        self._host: HostProcess | None = None
        self._about: dict[str, Any] = {}
        self._starting = asyncio.Lock()
        self._clocks = CallClocks()
        self._signing = ExitStack()
        """Keeps the clocks stopped while the user signs in, which has a time limit of its own."""
        self._seconds = 60.0
        self._tasks: set[asyncio.Task[None]] = set()

    async def connect(self) -> Mapping[str, Any]:
        """Start the server if it is not running; return its description of itself. Raises `ServerError`."""
        async with self._starting:
            if self._host is not None and not self._host.dead and self.health.state == "ready":
                return self._about
            if (pause := self.health.waits(time.monotonic())) > 0:
                clause = f"it failed {plural(self.health.failures, 'time')} ({self.health.reason})"
                raise ServerError(self.name, clause, f"it is tried again in {pause:.0f} s")
            await self._leave()
            await self._start()
            return self._about

    async def _start(self) -> None:
        launch = await asyncio.to_thread(self._launch)
        self._seconds = launch.timeout
        began = time.monotonic()
        self.health = self.health.starting()
        host = self._host = HostProcess(self._take_event, self._answer_request)
        try:
            await host.start(self._environ)
            async with self._clocks.running(WARM_UP):
                await host.request("warm_up", {})
            async with self._clocks.running(launch.connect_timeout + _SLACK):
                self._about = await host.request("open", launch.to_json())
        except TimeoutError:
            late = f"it did not start within {launch.connect_timeout:g} s"
            if launch.transport == "stdio":
                late += f" (what it says is in {launch.folder}.log); if it was still being installed, "
                longer = min(600, 4 * launch.connect_timeout)
                late += f"`connect_timeout: {longer:g}` under mcp_servers.{self.name} waits longer"
            raise await self._note_failure(late) from None
        except HostError as error:
            raise await self._note_failure(str(error), sign_in=error.sign_in) from None
        except OSError as error:
            raise await self._note_failure(
                f"its process cannot be started: {error.strerror or error}"
            ) from error
        except asyncio.CancelledError:
            self.health = self.health.after_stop()
            await asyncio.shield(self._let_go())
            raise
        finally:
            self._signing.close()
        self.health = self.health.ready(self._about["protocol"], time.monotonic() - began)

    async def _note_failure(self, clause: str, *, sign_in: bool = False) -> ServerError:
        """Record a failed start, and return the error for it."""
        if sign_in:
            self.health = self.health.needs_sign_in()
        else:
            self.health = self.health.after_failure(clause, time.monotonic())
        await self._leave()
        return ServerError(self.name, clause, gone=True, sign_in=sign_in)

    async def request(
        self,
        method: str,
        arguments: Mapping[str, Any],
        progress: Callable[[str], None] | None = None,
        seconds: float | None = None,
    ) -> Any:
        """Send the server a request and return its result. Raises `ServerError`, also after `seconds`."""
        await self.connect()
        host, limit = self._host, seconds or self._seconds
        assert host is not None
        began = time.monotonic()
        try:
            async with self._clocks.running(limit):
                answer = await host.request(method, arguments, progress)
            self.health = self.health.after_answer(time.monotonic() - began)
            return answer
        except TimeoutError:
            self._beside(self._look_after(host))
            mend = "try something smaller, or raise its `timeout`"
            raise ServerError(self.name, f"it did not answer within {limit:g} s", mend) from None
        except HostError as error:
            if error.gone and self.health.state == "ready":
                self.health = self.health.after_failure(str(error), time.monotonic())
            if error.sign_in:
                self.health = self.health.needs_sign_in()
            raise ServerError(self.name, str(error), gone=error.gone, sign_in=error.sign_in) from None
        finally:
            self._signing.close()

    async def close(self) -> None:
        """End the server. The next request starts it again."""
        async with self._starting:
            await self._let_go()
            self.health = self.health.after_stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _look_after(self, host: HostProcess) -> None:
        """Ping a host process, and end it if it does not answer in time."""
        try:
            async with asyncio.timeout(REACTS_IN):
                await host.request("ping", {})
        except TimeoutError:
            if self._host is host:
                self._host = None
                self.health = self.health.after_failure("it no longer reacts", time.monotonic())
            await host.close(0.0)
        except HostError:
            pass

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _leave(self) -> None:
        """Close the host process in the background, so that calls wait for its end only briefly."""
        host, self._host = self._host, None
        if host is not None:
            self._beside(host.close())
            await asyncio.wait(self._tasks, timeout=ENDS_IN)

    async def _let_go(self) -> None:
        host, self._host = self._host, None
        if host is not None:
            await host.close()

    def _take_event(self, event: str, fields: Mapping[str, Any]) -> None:
        match event:
            case "gone" if self.health.state != "ready":
                return  # the caller that starts it hears why it failed
            case "gone":
                self.health = self.health.after_failure(str(fields.get("reason", "")), time.monotonic())
            case "log":
                self.log.append(f"{fields.get('level')}: {clean(str(fields.get('text')))}")
                del self.log[:-LOG_LINES]
        self._hear(event, fields)

    async def _answer_request(self, kind: str, params: Any) -> Any:
        if kind == "sign_in":
            self._signing.enter_context(self._clocks.paused())
        with self._clocks.paused():
            return await self._answer(kind, params)


MOST_LINES = 20
"""The maximum number of log lines of one server per second."""


@dataclass(slots=True)
class LogPace:
    """A limit on the log lines shown of one server per second. Times are those of `time.monotonic`."""

    most: int = MOST_LINES
    second: float = float("-inf")
    count: int = 0

    def takes(self, now: float) -> bool:
        """Count a log line at the time `now`; return whether it may be shown."""
        if now - self.second >= 1.0:
            self.second, self.count = now, 0
        self.count += 1
        return self.count <= self.most

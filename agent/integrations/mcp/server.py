"""One server of a session: started at its first use, asked within its time, parked when it fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from typing import Any

from agent.integrations.mcp.clocks import CallClocks
from agent.integrations.mcp.errors import ServerError
from agent.integrations.mcp.health import Health
from agent.integrations.mcp.host_process import Answer, Hear, HostError, HostProcess
from agent.integrations.mcp.launch import ServerLaunch
from tools.text.safe_text import clean

LOG_LINES = 200
"""Lines of a server's own log that are kept to be shown."""
WARM_UP = 60.0
"""Seconds our own process has until it can speak to a server."""
REACTS_IN = 5.0
"""Seconds the process of a server has to react after a call that took too long."""
ENDS_IN = 0.5
"""Seconds a call waits for the end of what failed before, which is ended beside it."""
_SLACK = 0.5
"""Seconds beyond its time in which a start may still say what is wrong by itself."""


class Server:
    """The way to one server. Methods that ask it raise `ServerError`."""

    def __init__(
        self,
        name: str,
        launch: Callable[[], ServerLaunch],
        environ: Mapping[str, str],
        answer: Answer,
        hear: Hear = lambda _event, _fields: None,
    ) -> None:
        """`launch` gives how it is started, and raises `HermesError` where that cannot be told.

        `environ` is that of the process between, `answer` answers what the server asks, `hear` takes
        its events.
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
        """Keeps the clocks standing while a person is away to sign in, which has a time of its own."""
        self._seconds = 60.0
        self._tasks: set[asyncio.Task[None]] = set()

    async def connect(self) -> Mapping[str, Any]:
        """Start it if it does not run; what it says of itself."""
        async with self._starting:
            if self._host is not None and not self._host.dead and self.health.state == "ready":
                return self._about
            if (pause := self.health.waits(time.monotonic())) > 0:
                clause = f"it failed {self.health.failures} times ({self.health.reason})"
                raise ServerError(self.name, clause, f"it is tried again in {pause:.0f} s")
            await self._leave()
            await self._start()
            return self._about

    async def _start(self) -> None:
        launch = await asyncio.to_thread(self._launch)
        self._seconds = launch.timeout
        began = time.monotonic()
        self.health = self.health.starting()
        host = self._host = HostProcess(self._heard, self._asked)
        try:
            await host.start(self._environ)
            async with self._clocks.running(WARM_UP):
                await host.request("warm_up", {})
            async with self._clocks.running(launch.connect_timeout + _SLACK):
                self._about = await host.request("open", launch.to_json())
        except TimeoutError:
            late = f"it did not start within {launch.connect_timeout:g} s"
            if launch.transport == "stdio":
                late += "; if it was still being installed, raise its `connect_timeout`"
            raise await self._failed(late) from None
        except HostError as error:
            raise await self._failed(str(error), sign_in=error.sign_in) from None
        except OSError as error:
            raise await self._failed(f"its process cannot be started: {error.strerror or error}") from error
        except asyncio.CancelledError:
            self.health = self.health.stopped()
            await asyncio.shield(self._let_go())
            raise
        finally:
            self._signing.close()
        self.health = self.health.ready(self._about["protocol"], time.monotonic() - began)

    async def _failed(self, clause: str, *, sign_in: bool = False) -> ServerError:
        """Note a start that failed."""
        if sign_in:
            self.health = self.health.needs_sign_in()
        else:
            self.health = self.health.failed(clause, time.monotonic())
        await self._leave()
        return ServerError(self.name, clause, gone=True, sign_in=sign_in)

    async def request(
        self,
        method: str,
        arguments: Mapping[str, Any],
        progress: Callable[[str], None] | None = None,
        seconds: float | None = None,
    ) -> Any:
        """Ask it for something, within its time."""
        await self.connect()
        host, limit = self._host, seconds or self._seconds
        assert host is not None
        began = time.monotonic()
        try:
            async with self._clocks.running(limit):
                answer = await host.request(method, arguments, progress)
            self.health = self.health.answered(time.monotonic() - began)
            return answer
        except TimeoutError:
            self._beside(self._look_after(host))
            mend = "try something smaller, or raise its `timeout`"
            raise ServerError(self.name, f"it did not answer within {limit:g} s", mend) from None
        except HostError as error:
            if error.gone and self.health.state == "ready":
                self.health = self.health.failed(str(error), time.monotonic())
            if error.sign_in:
                self.health = self.health.needs_sign_in()
            raise ServerError(self.name, str(error), gone=error.gone, sign_in=error.sign_in) from None
        finally:
            self._signing.close()

    async def close(self) -> None:
        """End it. It starts again when it is used again."""
        async with self._starting:
            await self._let_go()
            self.health = self.health.stopped()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _look_after(self, host: HostProcess) -> None:
        """End a process that no longer reacts, whatever its server made it do."""
        try:
            async with asyncio.timeout(REACTS_IN):
                await host.request("ping", {})
        except TimeoutError:
            if self._host is host:
                self._host = None
                self.health = self.health.failed("it no longer reacts", time.monotonic())
            await host.close(0.0)
        except HostError:
            pass

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _leave(self) -> None:
        """Let go of it without making a call wait for one that does not end."""
        host, self._host = self._host, None
        if host is not None:
            self._beside(host.close())
            await asyncio.wait(self._tasks, timeout=ENDS_IN)

    async def _let_go(self) -> None:
        host, self._host = self._host, None
        if host is not None:
            await host.close()

    def _heard(self, event: str, fields: Mapping[str, Any]) -> None:
        match event:
            case "gone" if self.health.state != "ready":
                return  # whoever starts it hears why it failed
            case "gone":
                self.health = self.health.failed(str(fields.get("reason", "")), time.monotonic())
            case "log":
                self.log.append(f"{fields.get('level')}: {clean(str(fields.get('text')))}")
                del self.log[:-LOG_LINES]
        self._hear(event, fields)

    async def _asked(self, kind: str, params: Any) -> Any:
        if kind == "sign_in":
            self._signing.enter_context(self._clocks.standing())
        with self._clocks.standing():
            return await self._answer(kind, params)

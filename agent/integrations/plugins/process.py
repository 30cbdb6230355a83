"""The process of one plugin: started behind its boundary, asked by frames, cut off when it misbehaves."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.core.home import Home, private_folder
from agent.integrations.plugins.boundary import (
    MEMORY,
    PROGRAM,
    GrantedPaths,
    gaps,
    granted_paths,
    plugin_policy,
)
from agent.integrations.plugins.capabilities import DeclaredCapabilities
from agent.integrations.plugins.deadlines import LOADING
from agent.integrations.plugins.network import PluginNetwork
from agent.integrations.plugins.output_log import OutputLog
from agent.integrations.plugins.problem import PluginFailedError
from tools.kit.children import FrameError, LargeFrameError, framed, kill_group, read_frame
from tools.kit.umask import person_umask
from tools.results import ToolError
from tools.services.sandbox import Sandbox, Wrapped
from tools.text.words import brief

LARGEST_FRAME = 4_100_000
"""Bytes of one answer; the child keeps to a little less."""
MOST_PRINTED = 4_000_000
"""Bytes of output of one process before it is taken for a flood."""
MOST_LOGGED = 500_000
"""Bytes of it that are kept."""
_READ_AT_ONCE = 65_536
_GRACE = 2.0
"""Seconds a handler has to end after nobody waits for it any more."""
_START = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from hermes_plugin_child.main import main; sys.exit(main())"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginLaunch:
    """All that is needed to start the process of a plugin."""

    name: str
    root: Path
    data: Path
    handler: Path | None
    capabilities: DeclaredCapabilities
    workspace: Path
    home: Home
    environ: Mapping[str, str]
    """The person's variables, of which the plugin gets those that it declared."""
    sandbox: Sandbox
    user: Path
    memory: int = MEMORY
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Values, by name, that never leave through its network, but for those that it was given."""


class PluginProcess:
    """One life of a plugin's process. When it fails, `failed` says how; it is not started again."""

    def __init__(self, launch: PluginLaunch) -> None:
        self.launch = launch
        self.failed: str = ""
        """What went wrong, as a clause that follows its name; empty while nothing did."""
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._wrapped: Wrapped | None = None
        self._network: PluginNetwork | None = None
        self._let_go: Callable[[], None] = lambda: None
        self._tmp: Path | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False

    async def start(self) -> list[Any]:
        """Start it and load its code; everything it registered, unchecked. Raises `PluginFailedError`.

        Must be called on the main thread: the kernel may tie its life to the thread that starts it.
        """
        try:
            await self._spawn()
        except (OSError, ToolError) as error:
            await self.aclose()
            reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
            raise PluginFailedError(
                f"The plugin {self.launch.name} cannot be started: {brief(reason, 300).rstrip('.')}."
            ) from error
        launch = self.launch
        entries = await self.ask(
            "load",
            LOADING,
            name=launch.name,
            root=str(launch.root),
            data=str(launch.data),
            workspace=str(launch.workspace),
            handler="" if launch.handler is None else str(launch.handler),
            memory=launch.memory,
        )
        return entries if isinstance(entries, list) else []

    @property
    def is_alive(self) -> bool:
        return self._writer is not None and not self.failed and not self._is_closing

    async def ask(self, do: str, seconds: float, **fields: Any) -> Any:
        """Have it do something. Raises `PluginFailedError`, also with what a handler of it raised.

        One that does not answer in time is cut off. Cancelling stops the handler.
        """
        if not self.is_alive or self._writer is None:
            raise self._error(self.failed or "has ended")
        number = next(self._numbers)
        data = await _encoded({"id": number, "do": do, **fields})
        if len(data) > LARGEST_FRAME:
            raise self._error(f"is not given more than {LARGEST_FRAME:,} bytes at once")
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            async with asyncio.timeout(seconds):
                self._writer.write(framed(data))
                await self._writer.drain()
                said = await asyncio.shield(answer)
        except TimeoutError:
            what = "loaded" if do == "load" else "answered"
            self._fail(f"has not {what} within {seconds:g} s and was cut off")
            raise self._error(self.failed) from None
        except asyncio.CancelledError:
            self._aside(self._stop(number))
            raise
        except (ConnectionError, OSError):
            self._fail("has closed its connection and was cut off")
            raise self._error(self.failed) from None
        finally:
            if answer.done() or not self.is_alive:
                self._waiting.pop(number, None)
        if "error" in said:
            raise PluginFailedError(
                f"The plugin {self.launch.name} failed: {brief(said['error'], 1_000).rstrip('.')}."
            )
        return said.get("result")

    async def aclose(self) -> None:
        """End it with everything it started, and clear up. May be called again."""
        self._is_closing = True
        self._kill()
        process, self._process = self._process, None
        if process is not None:
            await asyncio.to_thread(process.wait)
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_GRACE)
            for task in late:
                task.cancel()
        if self._wrapped is not None:
            self._wrapped.started()
            await asyncio.to_thread(self._wrapped.ended)
            self._wrapped = None
        self._let_go()
        if self._network is not None:
            await asyncio.to_thread(self._network.close)
            self._network = None
        if self._tmp is not None:
            await asyncio.to_thread(shutil.rmtree, self._tmp, True)
            self._tmp = None

    async def _spawn(self) -> None:
        paths = await asyncio.to_thread(self._prepare)
        ours, theirs = socket.socketpair()
        out, child_out = os.pipe()
        try:
            self._process = self._popen(paths, theirs.fileno(), child_out)
        except BaseException:
            ours.close()
            os.close(out)
            raise
        finally:
            theirs.close()
            os.close(child_out)
            if self._wrapped is not None:
                self._wrapped.started()
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self._aside(self._listen(reader))
        self._aside(self._drain(out))

    def _prepare(self) -> GrantedPaths:
        """Folders, paths and network, before the start. Blocks."""
        launch = self.launch
        private_folder(launch.data)
        private_folder(launch.home.run)
        self._tmp = Path(tempfile.mkdtemp(prefix="plugin-", dir=launch.home.run)).resolve()
        paths = granted_paths(launch.capabilities, launch.workspace, launch.user, launch.home, launch.environ)
        if launch.capabilities.hosts:
            self._network = PluginNetwork.open(launch.sandbox, launch.capabilities.hosts, launch.secrets)
        if launch.sandbox.name != "none":
            self._let_go = gaps(launch.workspace, paths)
        return paths

    def _popen(self, paths: GrantedPaths, link: int, output: int) -> subprocess.Popen[bytes]:
        argv, environ, fds = self._command(paths)
        return subprocess.Popen(
            argv,
            stdin=link,
            stdout=output,
            stderr=output,
            cwd=self.launch.root,
            env=environ,
            pass_fds=fds,
            start_new_session=True,
            umask=person_umask(),
        )

    def _command(self, paths: GrantedPaths) -> tuple[list[str], dict[str, str], tuple[int, ...]]:
        launch = self.launch
        argv = [sys.executable, "-I", "-B", "-u", "-X", "utf8", "-c", _START, str(PROGRAM)]
        assert self._tmp is not None
        environ = _environment(launch, self._tmp)
        if launch.sandbox.name == "none":
            return argv, environ, ()
        policy = plugin_policy(
            root=launch.root,
            data=launch.data,
            tmp=self._tmp,
            paths=paths,
            workspace=launch.workspace,
            user=launch.user,
            home=launch.home,
            environ=launch.environ,
            space=None if self._network is None else self._network.space,
        )
        self._wrapped = wrapped = launch.sandbox.wrap(argv, policy)
        kept = {name: value for name, value in environ.items() if name not in wrapped.unset}
        network = {} if self._network is None else self._network.variables
        return wrapped.argv, {**kept, **wrapped.env, **network}, wrapped.fds

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Hand answers to whoever waits for them, until it hangs up or talks nonsense."""
        try:
            while (said := await read_frame(reader, LARGEST_FRAME)) is not None:
                if not isinstance(number := said.get("id"), int):
                    raise FrameError("it names no request")
                waiting = self._waiting.pop(number, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(said)
        except LargeFrameError:
            self._fail(f"sent more than {LARGEST_FRAME:,} bytes at once and was cut off")
            return
        except FrameError:
            self._fail("sent an answer that cannot be read and was cut off")
            return
        except OSError:
            pass
        if not self._is_closing:
            self._fail(await asyncio.to_thread(self._ending))

    async def _drain(self, descriptor: int) -> None:
        """Read what it prints into its log."""
        log = OutputLog(self.launch.home.logs / "plugins" / f"{self.launch.name}.log")
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
        )
        total = 0
        try:
            while data := await reader.read(_READ_AT_ONCE):
                total += len(data)
                if total > MOST_PRINTED:
                    self._fail(f"printed more than {MOST_PRINTED // 1_000_000} MB and was cut off")
                    return
                if total <= MOST_LOGGED:
                    await asyncio.to_thread(log.write, data)
        finally:
            transport.close()
            log.finish()

    def _ending(self) -> str:
        """How it ended by itself. Blocks for a moment."""
        process = self._process
        if process is None:
            return "has ended"
        try:
            code = process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            return "has closed its connection and was cut off"
        number = -code if code < 0 else code - 128
        if 0 < number < 65:
            return f"was ended by signal {number}"
        return f"has ended by itself with code {code}"

    async def _stop(self, number: int) -> None:
        """Have a handler end that nobody waits for; if it does not, cut the plugin off."""
        answer = self._waiting.get(number)
        if answer is None or self._writer is None or not self.is_alive:
            return
        data = json.dumps({"id": number, "do": "cancel"}).encode("ascii")
        with suppress(ConnectionError, OSError):
            self._writer.write(framed(data))
            await self._writer.drain()
        _, late = await asyncio.wait({answer}, timeout=_GRACE)
        self._waiting.pop(number, None)
        if late:
            self._fail("did not stop when it was interrupted and was cut off")

    def _fail(self, what: str) -> None:
        """It is over: kill it, and tell everybody who waits."""
        if not self.failed:
            self.failed = what
        self._kill()
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(self._error(self.failed))
                # Nobody may be there to hear it.
                answer.exception()

    def _kill(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            kill_group(process.pid)

    def _error(self, what: str) -> PluginFailedError:
        return PluginFailedError(f"The plugin {self.launch.name} {what}.")

    def _aside(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work, name=f"plugin {self.launch.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _environment(launch: PluginLaunch, tmp: Path) -> dict[str, str]:
    given = {name: launch.environ[name] for name in launch.capabilities.env if name in launch.environ}
    usual = {name: launch.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in launch.environ}
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        **usual,
        **given,
        "HOME": str(launch.data),
        "TMPDIR": str(tmp),
        "TERM": "dumb",
        "PLUGIN_ROOT": str(launch.root),
        "PLUGIN_DATA": str(launch.data),
    }


async def _encoded(frame: Mapping[str, Any]) -> bytes:
    def encode() -> bytes:
        return json.dumps(frame, default=str, ensure_ascii=True).encode("ascii")

    # How large it is is not known before; results and arguments may be.
    return encode() if frame["do"] == "load" else await asyncio.to_thread(encode)

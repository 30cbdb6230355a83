"""The process of one plugin: started inside its sandbox, controlled by frames, killed if it misbehaves."""

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
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.core.home import PRIVATE_FILE, Home, private_folder
from agent.core.net.exchange import Decide, outgoing_network
from agent.core.net.hosts import HostEntry, HostList, entry, own_networks, services
from agent.errors import ConfigError
from agent.integrations.plugins.child.hermes_plugin_child.context import Context, run
from agent.integrations.plugins.child.hermes_plugin_child.loading import load_apart
from agent.integrations.plugins.files import DeclaredCapabilities, PluginFailedError, SkippedPart
from agent.safety.sandbox import secrets
from agent.safety.sandbox.filtered import VARIABLES, FilteredNetwork
from agent.safety.sandbox.landlock import own_files
from agent.safety.sandbox.layout import GuardedFinder, found_in
from agent.safety.sandbox.opening import Bubblewrap, unfiltered
from agent.safety.sandbox.repository import repository_of
from agent.workspace.placeholders import hold
from tools.kit.children import FrameError, LargeFrameError, framed, kill_group, read_frame
from tools.kit.umask import person_umask
from tools.results import ToolError
from tools.services.sandbox import NetworkSpace, Sandbox, SandboxLimits, SandboxPolicy, Wrapped
from tools.text.safe_text import Cleaner
from tools.text.words import brief

LOADING = 10.0
TOOL = 30.0
"""The timeout in seconds of calls of tools, commands and search services."""
HOOK = 5.0
"""The timeout in seconds of hooks, and of the memory notes that a new session waits for."""
MAKING = 180.0
"""Seconds to make an image or speech, or to transcribe a recording."""


LARGEST = 1_000_000
"""The size in bytes after which a new log file begins; the previous one is kept."""


class OutputLog:
    """A log of a plugin's standard output and error. The methods block, so call them in a thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cleaner = Cleaner()

    def write(self, data: bytes) -> None:
        """Append output. If writing fails, the output is lost, because the plugin must not be held up."""
        self._add(self._cleaner.feed(data))

    def finish(self) -> None:
        """Append the last line if it has no line ending."""
        if rest := self._cleaner.finish():
            self._add(rest + "\n")

    def _add(self, text: str) -> None:
        if not text:
            return
        try:
            private_folder(self.path.parent)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open(self.path, flags, PRIVATE_FILE)
            try:
                if os.fstat(file).st_size > LARGEST:
                    self.path.replace(self.path.with_suffix(".log.1"))
                    os.close(file)
                    file = os.open(self.path, flags, PRIVATE_FILE)
                os.write(file, text.encode("utf-8", "replace"))
            finally:
                os.close(file)
        except (OSError, ConfigError):
            pass


PROGRAM = Path(__file__).resolve().parent / "child"
"""The folder with the program of the plugin process."""
MEMORY = 512_000_000
"""The maximum private memory of one plugin process, in bytes."""
LIMITS = SandboxLimits(processes=128, files=512, data=MEMORY)

_OF_PROGRAMS = frozenset(
    {"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "nix", "gnu", "dev", "proc", "sys"}
    | {"run", "tmp", "var"}
)
"""Top-level folders that programs may need; the user's folders inside them are hidden separately."""
_HIDDEN_BELOW = tuple(
    Path(name) for name in ("/var/lib", "/var/log", "/var/mail", "/var/spool", "/var/backups", "/var/www")
)


@dataclass(frozen=True, slots=True)
class GrantedPaths:
    """The paths that a plugin may use, with links resolved."""

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    refused: tuple[SkippedPart, ...] = ()


def granted_paths(
    declared: DeclaredCapabilities, workspace: Path, user: Path, home: Home, environ: Mapping[str, str]
) -> GrantedPaths:
    """Return the declared paths with links resolved, and those that are refused.

    Secrets and the home folder of Hermes are never granted.
    """
    closed = [Path(os.path.realpath(path)) for path in _hidden_paths(user, home, environ)]
    refused: list[SkippedPart] = []

    def lying(kind: str, given: Iterable[str]) -> tuple[Path, ...]:
        found: list[Path] = []
        for text in given:
            path, wrong = _resolve_path(text, workspace, user)
            if not wrong and any(path.is_relative_to(each) for each in closed):
                wrong = "it is where secrets are kept, which no plugin is shown"
            if wrong:
                refused.append(SkippedPart(f"capabilities.paths.{kind}: {brief(text)}", wrong))
            else:
                found.append(path)
        return tuple(found)

    read, write = lying("read", declared.read), lying("write", declared.write)
    return GrantedPaths(read, write, tuple(refused))


def plugin_policy(
    *,
    root: Path,
    data: Path,
    tmp: Path,
    paths: GrantedPaths,
    workspace: Path,
    user: Path,
    home: Home,
    environ: Mapping[str, str],
    space: NetworkSpace | None,
) -> SandboxPolicy:
    """Return the sandbox policy for a plugin's process. `space` is its network; None means no network."""
    return SandboxPolicy(
        workspace=data,
        tmp=tmp,
        writable=paths.write,
        readable=(root, PROGRAM, *own_files(), *paths.read),
        hidden=(
            *_undeclared_paths(user, workspace, paths),
            *dict.fromkeys(Path(os.path.realpath(each)) for each in _hidden_paths(user, home, environ)),
        ),
        protected=(root, *_guarded_paths(workspace, paths), *_start_up(user, paths)),
        space=space,
        dies_with_parent=True,
        limits=LIMITS,
    )


def protect_git_files(workspace: Path, paths: GrantedPaths) -> Callable[[], None]:
    """Keep a plugin that may write to the workspace from creating files that make git run programs.

    The protection lasts until the returned function is called.
    """
    if not _changes(workspace, paths):
        return lambda: None
    try:
        return hold(*repository_of(workspace).gaps()).release
    except OSError:
        # What cannot be made here cannot be made by the plugin either.
        return lambda: None


def _guarded_paths(workspace: Path, paths: GrantedPaths) -> Iterable[Path]:
    """Yield files of the workspace that can start programs; a plugin must not change them."""
    if _changes(workspace, paths):
        places = (*repository_of(workspace).guarded, *found_in([GuardedFinder(workspace)]).read_only)
        yield from filter(os.path.lexists, places)


def _start_up(user: Path, paths: GrantedPaths) -> Iterable[Path]:
    """Yield files that run at login and that are inside the plugin's writable paths."""
    for path in secrets.start_up(user):
        if os.path.lexists(path) and any(path.is_relative_to(each) for each in paths.write):
            yield path


def _changes(workspace: Path, paths: GrantedPaths) -> bool:
    return any(each.is_relative_to(workspace) or workspace.is_relative_to(each) for each in paths.write)


def _hidden_paths(user: Path, home: Home, environ: Mapping[str, str]) -> Iterable[Path]:
    """Yield the paths that are hidden from every plugin, whatever it declares."""
    yield home.root
    for each in dict.fromkeys((user, Path(environ.get("HOME") or user))):
        yield from secrets.in_home(each)
    yield from secrets.of_session(environ)
    yield from secrets.of_system()


def _undeclared_paths(user: Path, workspace: Path, paths: GrantedPaths) -> list[Path]:
    """Return the user's folders, except those that are granted or inside a granted path."""
    own = (*_beside_programs(), *filter(Path.is_dir, _HIDDEN_BELOW), user, workspace)
    granted = (*paths.read, *paths.write)
    real = dict.fromkeys(Path(os.path.realpath(each)) for each in own)
    return [each for each in real if not any(each.is_relative_to(path) for path in granted)]


def _beside_programs() -> list[Path]:
    """Return the top-level folders of the file system that are not needed to run programs."""
    try:
        with os.scandir("/") as entries:
            return [
                Path(entry.path)
                for entry in entries
                if entry.name not in _OF_PROGRAMS and not entry.is_symlink()
            ]
    except OSError:
        return []


def _resolve_path(text: str, workspace: Path, user: Path) -> tuple[Path, str]:
    """Return the target of a declared path, and a clause on what is wrong with it, empty if nothing is."""
    if text == "~" or text.startswith("~/"):
        return Path(os.path.realpath(user / text[2:])), ""
    if text.startswith("~"):
        return user, "only one's own home can be named"
    if text.startswith("/"):
        return Path(os.path.realpath(text)), ""
    base = Path(os.path.realpath(workspace))
    path = Path(os.path.realpath(base / text))
    return path, "" if path.is_relative_to(base) else "it leads out of the workspace"


class PluginNetwork:
    """The network of one plugin.

    Open it before the process starts and close it after the process ended; both block.
    """

    variables: Mapping[str, str] = VARIABLES
    """The environment variables that name the proxy to programs."""

    def __init__(self, filtered: FilteredNetwork, hosts: Sequence[str]) -> None:
        self._filtered = filtered
        filtered.decide = _decider(hosts)
        self.space: NetworkSpace = filtered.space()
        """The network namespace that the process joins."""
        self._number = filtered.register()

    @classmethod
    def open(cls, sandbox: Sandbox, hosts: Sequence[str], secrets: Mapping[str, str]) -> PluginNetwork | None:
        """Open the network for some hosts; None without a sandbox. Raises `ToolError`."""
        if sandbox.name == "none":
            return None
        if not isinstance(sandbox, Bubblewrap) or unfiltered(sandbox):
            raise ToolError(
                f"it declares hosts, and the network cannot be filtered here: {unfiltered(sandbox)}"
            )
        filtered = FilteredNetwork(
            sandbox.path,
            secrets=secrets,
            network=outgoing_network(os.environ),
            services=services(hosts),
            is_own=own_networks(hosts).lists,
        )
        return cls(filtered, hosts)

    def close(self) -> None:
        """Close the network with every connection."""
        self._filtered.unregister(self._number)
        self._filtered.close()


def _decider(hosts: Sequence[str]) -> Decide:
    entries: list[HostEntry] = []
    for text in hosts:
        with suppress(ValueError):
            entries.append(entry(text))
    listed = HostList(entries)

    async def decide(host: str, port: int) -> str | None:
        return None if listed.lists(host, port) else "is not among the hosts that the plugin declares"

    return decide


LARGEST_FRAME = 4_100_000
"""The maximum size of one frame in bytes; the plugin process itself sends a little less."""
MOST_PRINTED = 4_000_000
"""The number of bytes of output after which a process is killed."""
MOST_LOGGED = 500_000
"""The number of bytes of output that are kept."""
_READ_AT_ONCE = 65_536
_GRACE = 2.0
"""Seconds that a handler has to end after its caller no longer waits."""
_START = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from hermes_plugin_child.main import main; sys.exit(main())"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginLaunch:
    """Everything needed to start the process of a plugin."""

    name: str
    root: Path
    data: Path
    handler: Path | None
    capabilities: DeclaredCapabilities
    workspace: Path
    home: Home
    environ: Mapping[str, str]
    """The user's environment variables; the plugin gets those that it declared."""
    sandbox: Sandbox
    user: Path
    memory: int = MEMORY
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Values, by name, that never leave through its network, except for those that it was given."""


class PluginProcess:
    """One run of a plugin's process. If it fails, `failed` gives the reason; a new run needs a new object."""

    def __init__(self, launch: PluginLaunch) -> None:
        self.launch = launch
        self.failed: str = ""
        """What went wrong, as a clause that follows the plugin's name; empty if nothing did."""
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
        """Start the process and load the plugin's code; return its unchecked registrations. Raises
        `PluginFailedError`.

        Must be called on the main thread: the kernel may end the process together with the thread that
        started it.
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
        """Send a request and return the answer. Raises `PluginFailedError`, also if a handler raised an
        error.

        If there is no answer within `seconds`, the process is killed. Cancelling this call stops the handler.
        """
        if not self.is_alive or self._writer is None:
            raise self._error(self.failed or "has ended")
        number = next(self._numbers)
        data = await _encode({"id": number, "do": do, **fields})
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
        """End the process and everything it started, and clean up. May be called again."""
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
        """Create folders and network before the start, and return the granted paths. Blocks."""
        launch = self.launch
        private_folder(launch.data)
        private_folder(launch.home.run)
        self._tmp = Path(tempfile.mkdtemp(prefix="plugin-", dir=launch.home.run)).resolve()
        paths = granted_paths(launch.capabilities, launch.workspace, launch.user, launch.home, launch.environ)
        if launch.capabilities.hosts:
            self._network = PluginNetwork.open(launch.sandbox, launch.capabilities.hosts, launch.secrets)
        if launch.sandbox.name != "none":
            self._let_go = protect_git_files(launch.workspace, paths)
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
        """Pass answers to the waiting callers until the process closes the socket or sends something
        invalid.
        """
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
        """Copy the process's output to its log."""
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
        """Return a description of how the process ended by itself. Blocks for a moment."""
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
        """Stop a handler whose caller no longer waits; if it does not end, kill the process."""
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
        """Kill the process, and report the failure to all waiting callers."""
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


async def _encode(frame: Mapping[str, Any]) -> bytes:
    def encode() -> bytes:
        return json.dumps(frame, default=str, ensure_ascii=True).encode("ascii")

    # How large it is is not known before; results and arguments may be.
    return encode() if frame["do"] == "load" else await asyncio.to_thread(encode)


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """The last failure of a plugin, and the number of failures."""

    plugin: str
    what: str
    """A sentence that names the plugin."""
    times: int
    """The number of failures of the plugin in this session."""
    is_off: bool
    """Whether it is no longer used for the rest of the session."""


class InProcessPlugin:
    """A plugin whose code runs in this process; it has the same methods as `PluginProcess`.

    A thread that hangs cannot be ended, so it is abandoned.
    """

    def __init__(self, launch: PluginLaunch) -> None:
        self.launch = launch
        self.failed = ""
        """What went wrong, as a clause that follows the plugin's name; empty if nothing did."""
        self._context: Context | None = None

    @property
    def is_alive(self) -> bool:
        return self._context is not None and not self.failed

    async def start(self) -> list[Any]:
        """Load the plugin's code; return its unchecked registrations. Raises `PluginFailedError`."""
        launch = self.launch
        context = Context(launch.name, str(launch.root), str(launch.data), str(launch.workspace))
        if launch.handler is not None:
            await self._within(LOADING, self._load(launch.handler, context))
        self._context = context
        return context.entries()

    async def ask(self, do: str, seconds: float, **fields: Any) -> Any:
        """Call a handler of the plugin and return its answer. May raise `PluginFailedError`."""
        if self._context is None or self.failed:
            raise PluginFailedError(f"The plugin {self.launch.name} {self.failed or 'has ended'}.")
        return await self._within(seconds, self._context.call(do, fields["name"], fields["given"]))

    async def aclose(self) -> None:
        """Release the plugin; its modules stay loaded."""
        self._context = None

    async def _load(self, handler: Path, context: Context) -> None:
        name = f"hermes_plugin_{self.launch.name.replace('-', '_').replace('.', '_')}"
        register = await asyncio.to_thread(load_apart, str(handler), name)
        await run(register, context)

    async def _within(self, seconds: float, work: Awaitable[Any]) -> Any:
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            self.failed = f"has not answered within {seconds:g} s and was left behind"
            raise PluginFailedError(f"The plugin {self.launch.name} {self.failed}.") from None
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            text = brief(f"{type(error).__name__}: {error}".rstrip(": "), 1_000).rstrip(".")
            raise PluginFailedError(f"The plugin {self.launch.name} failed: {text}.") from error

"""The child process of a script: its interpreter, start, output and end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.code.data import Mode, frame
from tools.code.server import Connection, ScriptServer
from tools.code.stubs import FILE, compiled
from tools.kit.children import kill_group
from tools.kit.files import write_new
from tools.kit.threads import on_thread, to_the_end
from tools.kit.umask import person_umask
from tools.results import ToolError
from tools.services.sandbox import Boundary, Need, Wrapped
from tools.terminal import process_tree
from tools.terminal.process_tree import KillGuard
from tools.text.redact import redact
from tools.text.safe_text import clean, printable

PROGRAM = Path(__file__).resolve().parent / "child"
"""The folder of the child program, which it also removes from `sys.path`."""

_START = "import sys; sys.path.insert(0, sys.argv[1]); from hermes_child.main import main; sys.exit(main())"
_VENVS = (".venv", "venv", "env")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter and the command that starts it.

    `is_ours` tells whether it can load code that this interpreter compiled.
    """

    path: str
    flags: tuple[str, ...]
    sys_path: tuple[str, ...] = ()
    """The folders in which scripts search first."""
    is_ours: bool = False

    def roots(self) -> tuple[Path, ...]:
        """Return the installation folder of the interpreter, with and without links resolved."""
        given = Path(self.path)
        return tuple({path.parent.parent for path in (given, given.resolve())})

    def argv(self) -> list[str]:
        return [self.path, *self.flags, "-X", "utf8", "-c", _START, str(PROGRAM)]


def choose(mode: Mode, folder: Path, environ: Mapping[str, str]) -> Interpreter:
    """Return the interpreter for scripts of a mode that run in `folder`.

    `strict` is the interpreter that runs Hermes, isolated so that neither the project nor the user's packages
    can change what a script means. `project` is the interpreter of the virtual environment of the folder or
    of one above it, else the active one, else `python3`. Raises `ToolError` if there is none.
    """
    if mode == "strict":
        return Interpreter(_base_python(), ("-I", "-S"), is_ours=True)
    found = _project_python(folder, environ) or shutil.which("python3", path=environ.get("PATH"))
    if found is None:
        raise ToolError(
            "The project mode found no Python: neither a virtual environment in the project nor python3 "
            "on PATH. Create one with `python3 -m venv .venv`, or use the strict mode."
        )
    return Interpreter(found, (), (str(folder),))


def _base_python() -> str:
    """Return this interpreter's path outside its virtual environment: only the standard library is there."""
    return os.path.realpath(sys.executable)


def _project_python(folder: Path, environ: Mapping[str, str]) -> str | None:
    for place in (folder, *folder.parents):
        for name in _VENVS:
            python = place / name / "bin" / "python"
            if (place / name / "pyvenv.cfg").is_file() and os.access(python, os.X_OK):
                return str(python)
        if (place / ".git").exists():
            break
    active = environ.get("VIRTUAL_ENV")
    if active and os.access(python := Path(active) / "bin" / "python", os.X_OK):
        return str(python)
    return None


HEAD = 0.4
"""Share of the limit for the beginning; the end matters more."""

_NEWEST_BYTES, _NEWEST_LINES = 4_000, 20
_SEAM = 200
"""Bytes at the start of the end part that may be dropped to begin with a whole line."""
_EDGE = 4_096
"""Bytes next to a gap that are kept but not shown, because half a secret would not be masked."""


class Capture:
    """Captured output of any length, of which `limit` bytes from its beginning and its end are shown.

    `secrets` are values to mask by name, in addition to texts with the shape of a secret.
    """

    def __init__(self, limit: int, secrets: Mapping[str, str] | None = None) -> None:
        self._limit = limit
        self._secrets = secrets or {}
        self._edge = max([_EDGE, *(len(value.encode()) for value in self._secrets.values())])
        self._head_room = int(limit * HEAD)
        self._head = bytearray()
        self._tail = bytearray()
        self._has_gap = False
        self._shown = (0, "")
        self.total = 0
        """The number of bytes ever received."""

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        kept = self._limit + self._edge
        room = kept - len(self._head)
        if not self._tail and room > 0:
            # As long as everything fits nothing is split.
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            # Cut rarely: each cut moves what stays.
            if len(self._tail) > 4 * kept:
                del self._tail[:-kept]
                self._has_gap = True

    @property
    def is_cut(self) -> bool:
        return self.total > self._limit

    def newest(self) -> str:
        """Return the last few lines, cleaned and masked."""
        if self.total == self._shown[0]:
            return self._shown[1]
        wanted = _NEWEST_BYTES + self._edge
        end = self._tail[-wanted:]
        if len(end) < wanted and not self._has_gap:
            end = self._head[-(wanted - len(end)) :] + end
        is_whole = len(end) == self.total
        text = redact(printable(end.decode("utf-8", "ignore")), self._secrets)
        if not is_whole:
            text = text[self._edge :]
        self._shown = self.total, "\n".join(text[-_NEWEST_BYTES:].splitlines()[-_NEWEST_LINES:])
        return self._shown[1]

    def text(self) -> str:
        """Return the output, cleaned and masked; above the limit, its beginning, a marker, and its end."""
        if not self._has_gap:
            whole = self._masked(self._head + self._tail)
            if not self.is_cut:
                return whole.decode()
            first = last = whole
        else:
            first = self._masked(self._head)[: -self._edge]
            last = self._masked(self._tail)[self._edge :]
        size = f"{self._limit // 1000}KB"
        mark = f"\n[output truncated at {size}: the middle of {self.total:,} bytes is left out]\n"
        room = max(self._limit - len(mark), 0)
        if first is last and len(first) <= room:
            # Masked, or without what only steers terminals, it fits after all.
            return first.decode()
        head = first[: min(self._head_room, room)]
        end = last[max(len(last) - (room - len(head)), 0) :]
        seam = end.find(b"\n", 0, _SEAM)
        end = end[seam + 1 :]
        return head.decode("utf-8", "ignore") + mark + end.decode("utf-8", "ignore")

    def _masked(self, data: bytes | bytearray) -> bytes:
        """Return the data cleaned, then masked, so that control characters cannot hide a secret."""
        return redact(clean(data.decode("utf-8", "replace")), self._secrets).encode()


_PIECE = 65_536
_LAST_PIECES = 64
"""The maximum number of reads from each pipe for what an ended script left in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything a child needs before its script. Children of equal recipes are interchangeable."""

    interpreter: Interpreter
    folder: Path
    environ: tuple[tuple[str, str], ...]
    module: str
    """Source of `hermes_tools`."""
    memory: int = 0
    processes: int = 0
    private: tuple[Path, ...] = ()
    """Files whose reading needs the user's permission, so that the script reads them only by tool calls."""


@dataclass(frozen=True, slots=True)
class ChildHome:
    """What an owner's children share: its id, a guard that kills them if this process ends, the boundary."""

    owner: str
    guard: KillGuard
    boundary: Boundary | None = None


class ScriptChild:
    """An interpreter that waits for a script, or runs one."""

    def __init__(
        self, recipe: Recipe, home: ChildHome, server: ScriptServer, mark: str, *, is_kernel: bool
    ) -> None:
        self.recipe = recipe
        self.server = server
        self.is_kernel = is_kernel
        self.captures = (Capture(0), Capture(0))
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The exit code as in `subprocess`: negative for a signal."""
        self.reported: int | None = None
        """The exit code chosen by the script, if it could be taken for a signal."""
        self._home = home
        self._mark = mark
        self._process: subprocess.Popen[bytes] | None = None
        self._wrapped: Wrapped | None = None
        self._link: Connection | None = None
        self._outputs: list[int] = []
        self._ours: list[int] = []
        self._nudge = -1
        self._passed: tuple[int, ...] = ()

    @classmethod
    async def start(
        cls, recipe: Recipe, home: ChildHome, *, warm: bool = False, kernel: bool = False
    ) -> ScriptChild:
        """Start a child that waits for its script; `warm` makes it load common modules meanwhile.

        Must be called on the main thread: the kernel may tie the child's life to the starting thread. Raises
        `ToolError` if the child cannot be started.
        """
        server = ScriptServer()
        await server.start()
        child = cls(recipe, home, server, f"{home.owner}.{os.urandom(6).hex()}", is_kernel=kernel)
        try:
            if home.boundary is not None and not home.boundary.is_ready:
                await on_thread(home.boundary.prepare)
            _write_private(server.folder / FILE, recipe.module)
            link = child._spawn()
            child._link = await server.adopt(link)
            child._link.send(frame(child._setup(warm=warm)))
        except OSError as error:
            await child.end()
            raise ToolError(
                f"Python could not be started in {recipe.folder}: {error.strerror or error}."
            ) from error
        except BaseException:
            await child.end()
            raise
        return child

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    @property
    def is_bounded(self) -> bool:
        """Return whether a boundary separates the child from this process."""
        return self._home.boundary is not None and self._home.boundary.level != "none"

    @property
    def is_alive(self) -> bool:
        return self._process is not None and not self.exited.done()

    def withdraw(self) -> None:
        """Remove from the workspace what a child needs only while it runs a script. Raises `OSError`."""
        if self._wrapped is not None and self._home.boundary is not None:
            self._home.boundary.withdraw(self._wrapped)

    def restore(self) -> bool:
        """Restore what `withdraw` removed; return whether the child's boundary is complete again."""
        wrapped, boundary = self._wrapped, self._home.boundary
        return wrapped is None or boundary is None or boundary.restore(wrapped)

    def begin(self, script: str, name: str) -> None:
        """Send the script; the child runs it at once."""
        if self._link is not None:
            self._link.send(frame({"script": script, "name": name}))

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the script of a kernel."""
        if self._nudge >= 0:
            with contextlib.suppress(OSError):
                os.write(self._nudge, b"!")

    def relatives(self) -> list[process_tree.ChildProcess]:
        """Return living processes descended from the child. Blocks for some milliseconds; use a thread."""
        return [] if self._process is None else process_tree.relatives(self._process.pid, self._mark)

    def collect(self) -> None:
        """Read the output left in the pipes, with at most `_LAST_PIECES` reads from each."""
        for descriptor in list(self._outputs):
            for _ in range(_LAST_PIECES):
                if not self._read(descriptor):
                    break

    async def end(self, grace: float = process_tree.GRACE) -> None:
        """Kill the child and its descendants if they still run, and clean up. May be called again."""
        await to_the_end(asyncio.ensure_future(self._end(grace)))

    async def _end(self, grace: float) -> None:
        process, self._process = self._process, None
        if process is not None:
            if not self.exited.done():
                kill_group(process.pid, signal.SIGTERM)
            await on_thread(process_tree.kill, process.pid, self._mark, grace)
            with contextlib.suppress(asyncio.TimeoutError):
                async with asyncio.timeout(5.0):
                    await asyncio.shield(self.exited)
            self._home.guard.remove(process.pid)
            self.collect()
        if self._wrapped is not None:
            self._wrapped.started()
            await on_thread(self._wrapped.ended)
            self._wrapped = None
        for descriptor in self._outputs:
            asyncio.get_running_loop().remove_reader(descriptor)
        for descriptor in [*self._outputs, *self._ours]:
            os.close(descriptor)
        self._outputs, self._ours, self._nudge = [], [], -1
        self.server.close()

    def _spawn(self) -> socket.socket:
        link, theirs = socket.socketpair()
        life, ours = os.pipe()
        out, child_out = os.pipe()
        errors, child_errors = os.pipe()
        self._outputs, self._ours = [out, errors], [ours]
        passed = [life]
        if self.is_kernel:
            nudged, self._nudge = os.pipe()
            self._ours.append(self._nudge)
            passed.append(nudged)
        self._passed = tuple(passed)
        try:
            argv, environ, fds = self._command()
            self._process = subprocess.Popen(
                argv,
                stdin=theirs.fileno(),
                stdout=child_out,
                stderr=child_errors,
                cwd=self.recipe.folder,
                env=environ,
                pass_fds=(*passed, *fds),
                start_new_session=True,
                umask=person_umask(),
            )
        except BaseException:
            link.close()
            raise
        finally:
            theirs.close()
            for descriptor in [*passed, child_out, child_errors]:
                os.close(descriptor)
            if self._wrapped is not None:
                self._wrapped.started()
        link.setblocking(False)
        self._home.guard.add(self._process.pid)
        self._watch()
        return link

    def _command(self) -> tuple[list[str], dict[str, str], tuple[int, ...]]:
        argv = self.recipe.interpreter.argv()
        environ = {**dict(self.recipe.environ), process_tree.MARK: self._mark}
        if self._home.boundary is None:
            return argv, environ, ()
        read = (PROGRAM, self.server.folder, *self.recipe.interpreter.roots())
        need = Need(
            read=read,
            sockets=True,
            dies_with_parent=True,
            offline=True,
            counts=False,
            needs_git_copies=True,
            hide=self.recipe.private,
        )
        self._wrapped = wrapped = self._home.boundary.wrap(argv, need)
        kept = {name: value for name, value in environ.items() if name not in wrapped.unset}
        return wrapped.argv, {**kept, **wrapped.env}, wrapped.fds

    def _setup(self, *, warm: bool) -> dict[str, object]:
        recipe = self.recipe
        return {
            "token": self.server.token,
            "socket": str(self.server.path),
            "file": str(self.server.folder / FILE),
            "module": _compiled(recipe.module) if recipe.interpreter.is_ours else recipe.module,
            "lifeline": self._passed[0],
            "nudge": self._passed[1] if self.is_kernel else -1,
            "memory": recipe.memory,
            "processes": _highest_count(recipe.processes),
            "path": list(recipe.interpreter.sys_path),
            "hide": [str(PROGRAM), ""],
            "warm": warm,
            "kernel": self.is_kernel,
        }

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        for descriptor in self._outputs:
            os.set_blocking(descriptor, False)
            loop.add_reader(descriptor, self._read, descriptor)
        process = self._process
        assert process is not None
        on_exit(process, self._note_exit)

    def _note_exit(self, code: int) -> None:
        if not self.exited.done():
            self.exited.set_result(code)

    def _read(self, descriptor: int) -> bool:
        """Read one piece from a descriptor; return whether more may follow."""
        try:
            data = os.read(descriptor, _PIECE)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(descriptor)
            return False
        self.captures[self._outputs.index(descriptor)].feed(data)
        return True


def on_exit(process: subprocess.Popen[bytes], tell: Callable[[int], None]) -> None:
    """Call `tell` with the exit code, on the event loop, after the process ends."""
    loop = asyncio.get_running_loop()
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        waiting = on_thread(process.wait)
        waiting.add_done_callback(lambda done: None if done.cancelled() else tell(done.result()))
        return

    def ended() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        tell(process.wait())

    loop.add_reader(descriptor, ended)


def _highest_count(more: int) -> int:
    """Return the process limit to set for the child: `more` than now run in the system; 0 for no limit.

    The operating system counts all processes of the user, not only those of the child.
    """
    return threads_of_system() + more if more else 0


def threads_of_system() -> int:
    """Return the number of processes and threads in the system; 0 if unknown."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, IndexError, ValueError):
        return 0


_codes: dict[str, bytes] = {}


def _compiled(module: str) -> bytes:
    if module not in _codes:
        _codes.clear()
        _codes[module] = compiled(module)
    return _codes[module]


def _write_private(path: Path, text: str) -> None:
    write_new(path, text.encode("utf-8", "replace"))

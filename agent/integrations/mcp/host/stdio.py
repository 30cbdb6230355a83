"""Starting a server, and exchanging lines of JSON with it over standard input and output.

Output lines that are not messages are ignored. Standard error is written to a file of limited size. A message
may have at most `LARGEST_MESSAGE` bytes.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from agent.core.home import Home, private_folder
from agent.integrations.mcp.launch import Confinement
from agent.safety.sandbox import secrets
from agent.safety.sandbox.boundary import BoundaryFolders, SessionBoundary
from agent.safety.sandbox.layout import PRIVATE_TMP
from agent.safety.sandbox.opening import SandboxMode, probe
from tools.kit.children import end_child, start_child
from tools.services.sandbox import Need, SandboxLimits, Wrapped
from tools.text.safe_text import clean

LARGEST_MESSAGE = 16_000_000
"""The maximum size of one message, in bytes."""
LARGEST_LOG = 1_000_000
"""The maximum number of bytes of a server's error output that are kept in its file."""
_CHUNK = 65_536
_ERROR = re.compile(
    r"(?:uncaught |unhandled )?"
    r"(?:[\w.]*(?:Error|Exception)(?: \[\w+\])?|error|fatal|panic|thread '.*' panicked)\b"
    r"(?:\[\w+\]|\(.*?\))?\s*[:!]?\s*\S",
    re.IGNORECASE,
)
_MESSAGE = re.compile(r'^\s*"message": "([^"\n]+)"', re.MULTILINE)
"""The message of an error that a program printed as JSON over several lines."""
_TOO_NEW = re.compile(
    r"cannot import name '[^']*' from '(\w+)|No module named '(\w+)\.|module '(\w+)[\w.]*' has no attribute"
    r"|'Server' object has no attribute '\w+'"  # of mcp, whose version 2 takes handlers otherwise
)
"""Messages of Python about a library that has changed since the server was written."""
_LAST_WORDS = 0.25
"""Seconds in which the rest of a server's error output is read after its end."""
_GRACE = 1.0
"""Seconds that a server has to end by itself, and again after a request to end."""


@dataclass(slots=True)
class ErrorOutput:
    """A server's error output: written to a file up to a limit, with the newest lines in memory."""

    file: Path
    first: str = ""
    newest: deque[str] = field(default_factory=lambda: deque(maxlen=200))
    written: int = 0
    _rest: bytes = field(default=b"")

    def take(self, data: bytes) -> None:
        if self.written < LARGEST_LOG:
            with suppress(OSError):
                descriptor = os.open(
                    self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
                )
                with os.fdopen(descriptor, "ab", 0) as log:
                    log.write(data[: LARGEST_LOG - self.written])
            self.written += len(data)
        lines = (self._rest + data)[-20_000:].split(b"\n")
        self._rest = lines.pop()
        texts = [clean(line.decode("utf-8", "replace").rstrip()) for line in lines]
        # What npx says of itself is not a word of the server.
        said = [
            text
            for text in texts
            if any(map(str.isalnum, text)) and not text.startswith(("npm notice", "npm warn"))
        ]
        self.newest += said
        self.first = self.first or next(iter(said), "")

    def words(self) -> str:
        """Return why the server ended, as far as its error output shows it."""
        rest = clean(self._rest.decode("utf-8", "replace"))
        lines = [*self.newest, rest] if rest.strip() else list(self.newest)
        reason = error_line(lines)
        if not reason and (messages := _MESSAGE.findall("\n".join(lines))):
            reason = _short(f"{self.first.rstrip('[{: ')}: {'; '.join(messages[:3])}")
        if not reason and lines:
            first, last = (_short(each) for each in (self.first or lines[0], lines[-1]))
            reason = first if first == last else f"{first} … {last}; all of it is in {self.file}"
        return reason


def error_line(lines: Sequence[str]) -> str:
    """Return the line of a program's output that names its error; empty if none clearly does. Pure.

    Python prints that line after the traceback, Node before it, and some programs print their usage first.
    """
    errors = [line.strip() for line in lines if _ERROR.match(line)]
    if not errors:
        return ""
    is_python = any(line.startswith("Traceback (most recent call last)") for line in lines)
    return _short(errors[-1] if is_python else errors[0])


def _short(line: str) -> str:
    return " ".join(line.split())[:300]


@asynccontextmanager
async def stdio_streams(
    start: Callable[[], Wrapped],
    env: Mapping[str, str],
    cwd: str,
    complaints: ErrorOutput,
    ended: Callable[[str], None],
) -> AsyncIterator[Any]:
    """Start a server and yield its message streams. `ended` is called with a reason if the server ends by
    itself.

    Raises `OSError` if the server cannot be started.
    """
    wrapped = start()
    environment = {name: value for name, value in {**env, **wrapped.env}.items() if name not in wrapped.unset}
    try:
        process = await start_child(
            wrapped.argv,
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            cwd=cwd or None,
            fds=wrapped.fds,
            limit=_CHUNK,
        )
    except BaseException:
        wrapped.ended()
        raise
    finally:
        wrapped.started()
    to_session, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    listening = asyncio.create_task(_listening(process, complaints))
    reading = asyncio.create_task(_reading(process, to_session, complaints, listening, ended))
    tasks = [reading, listening, asyncio.create_task(_writing(process, from_session))]
    try:
        yield read_stream, write_stream
    finally:
        try:
            await asyncio.shield(end_child(process, _GRACE))
            if process.stdout is not None and process.stdout.at_eof():
                await asyncio.wait({reading}, timeout=_GRACE)  # it is about to say how the server ended
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (to_session, read_stream, write_stream, from_session):
                stream.close()
            # What outlives the server may hold its pipes, which nothing public lets go of.
            process._transport.close()  # pyright: ignore[reportAttributeAccessIssue]
            await asyncio.sleep(0)
            wrapped.ended()


async def _reading(
    process: asyncio.subprocess.Process,
    to_session: Any,
    complaints: ErrorOutput,
    listening: asyncio.Task[None],
    ended: Callable[[str], None],
) -> None:
    """Pass on the messages in a server's output; everything else is ignored."""
    assert process.stdout is not None
    held = bytearray()
    reason = ""
    try:
        while chunk := await process.stdout.read(_CHUNK):
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                held += line
                if (
                    held.strip()
                    and len(held) <= LARGEST_MESSAGE
                    and (message := _message(bytes(held))) is not None
                ):
                    await to_session.send(message)
                held.clear()
            held += rest
            if len(held) > LARGEST_MESSAGE:
                reason = f"it sent a message of more than {LARGEST_MESSAGE // 1_000_000} MB"
                break
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return
    finally:
        to_session.close()
    ended(reason or await _how(process, complaints, listening))


def _message(line: bytes) -> SessionMessage | None:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except (ValueError, RecursionError):
        return None


async def _how(
    process: asyncio.subprocess.Process, complaints: ErrorOutput, listening: asyncio.Task[None]
) -> str:
    """Return a description of how the server ended."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_GRACE):
            await process.wait()
    # What it started may keep its errors open.
    await asyncio.wait({listening}, timeout=_LAST_WORDS)
    said = complaints.words()
    code = process.returncode
    how = "it closed its output" if code is None else f"it ended with code {code}"
    if code is not None and code < 0:
        with suppress(ValueError):
            how = f"it was ended by {signal.Signals(-code).name}"
    pin = ""
    if too_new := _TOO_NEW.search(said):
        library = next(filter(None, too_new.groups()), "mcp")
        version = "2" if library == "mcp" else "VERSION"
        pin = f"; its library {library} may be too new for it: "
        pin += f"with uvx, `--with '{library}<{version}'` pins one"
    return f"{how} ({said}){pin}" if said else how


async def _writing(process: asyncio.subprocess.Process, from_session: Any) -> None:
    assert process.stdin is not None
    with suppress(ConnectionError, OSError, anyio.ClosedResourceError):
        async for message in from_session:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(line.encode("utf-8", "replace") + b"\n")
            await process.stdin.drain()


async def _listening(process: asyncio.subprocess.Process, complaints: ErrorOutput) -> None:
    assert process.stderr is not None
    while data := await process.stderr.read(_CHUNK):
        complaints.take(data)


def resolved_command(command: Sequence[str], path: str) -> list[str]:
    """Return the command with its program looked up in `path`. Raises `FileNotFoundError`."""
    import shutil

    program = shutil.which(command[0], path=path)
    if program is None:
        raise FileNotFoundError(command[0])
    return [program, *command[1:]]


def wrap_command(argv: Sequence[str], confinement: Confinement | None, folder: Path) -> Wrapped:
    """Return the command that starts a server inside its sandbox.

    Reads the disk. Raises `ToolError` if the sandbox cannot be set up.
    """
    if confinement is None:
        return Wrapped(argv=list(argv))
    workspace = Path(confinement.workspace)
    writable = [(workspace / Path(path).expanduser()).resolve() for path in confinement.writable]
    boundary = SessionBoundary(
        probe(cast("SandboxMode", confinement.mode)),
        BoundaryFolders(
            folder,
            folder / "tmp",
            Home(Path(confinement.home)),
            writable,
            [Path(path) for path in confinement.hidden],
            [
                *(Path(path) for path in confinement.readable),
                *([] if workspace.resolve() in writable else [workspace]),
                *_in_temporary_folders(argv, (confinement.home, *confinement.hidden)),
            ],
        ),
        network="on" if confinement.network else "off",
        environ=confinement.environ,
        limits=SandboxLimits(data=confinement.memory),
    )
    private_folder(folder / "tmp")
    return boundary.wrap(argv, Need(hide=tuple(secrets.in_workspace(workspace)), dies_with_parent=True))


def _in_temporary_folders(argv: Sequence[str], secret: Sequence[str]) -> list[Path]:
    """Return the paths in temporary folders that the program and its scripts need.

    Servers have their own temporary folders, so these paths are mounted read-only.
    """
    private = [*PRIVATE_TMP, *(folder.resolve() for folder in PRIVATE_TMP)]
    kept_away = [Path(each).expanduser().resolve() for each in secret]
    found = []
    for number, word in enumerate(argv):
        path = Path(word)
        if not path.is_absolute() or not path.exists():
            continue
        for each in (path, path.resolve()):
            folder = each if each.is_dir() else each.parent
            if number == 0 and folder.name == "bin":
                folder = folder.parent
            shown = each if folder in private else folder
            inside = any(shown.is_relative_to(root) for root in private) and shown not in private
            if inside and not any(shown.resolve().is_relative_to(root) for root in kept_away):
                found.append(shown)
    return list(dict.fromkeys(found))


def own_places(folder: Path) -> dict[str, str]:
    """Create a server's own folder; return variables that put its caches there.

    They also make npm show the output of a package's scripts, because it shows nothing else if one fails.
    """
    cache = folder / "cache"
    private_folder(folder)
    private_folder(cache)
    return {
        "XDG_CACHE_HOME": str(cache),
        "npm_config_cache": str(cache / "npm"),
        "UV_CACHE_DIR": str(cache / "uv"),
        "PIP_CACHE_DIR": str(cache / "pip"),
        "DOTNET_BUNDLE_EXTRACT_BASE_DIR": str(cache / "dotnet"),
        "PUPPETEER_CACHE_DIR": str(cache / "puppeteer"),
        "npm_config_foreground_scripts": "true",
    }

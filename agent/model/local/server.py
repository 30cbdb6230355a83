"""llama.cpp's server as a child process: for this machine only, with a token, ended with this process."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import secrets
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from agent.errors import ConfigError, HermesError
from agent.model.local.profile import free_cores, free_memory, physical_cores
from tools.extras import missing
from tools.kit.children import kill_child, start_child
from tools.text.words import plural

CHILD = Path(__file__).with_name("serve_child.py")
MISSING = missing("The local model", "local")

_MAGIC = b"GGUF"
_MEMORY_FACTOR = 1.5
"""The memory that a model needs, as a multiple of its file: weights, partly repacked, and cache."""
_NEWS_EVERY = 5.0
_STOP_GRACE = 2.0
_TAIL = 4_000

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of the model's chat-completions API, and its key."""

    base_url: str
    token: str


def _silent(_line: str) -> None:
    return


class LocalServer:
    """One local model in one child process.

    `threads` 0 means one per physical core that is free now; `context` is in tokens. `progress` receives
    sentences while the weights load. `child` is the script to run, `library` the module that serves the
    model.
    """

    def __init__(
        self,
        model_path: Path,
        threads: int = 0,
        context: int = 8192,
        *,
        progress: Progress = _silent,
        child: Path = CHILD,
        library: str = "xllamacpp",
    ) -> None:
        self._model = model_path
        self._threads = threads or free_cores(physical_cores())
        self._context = context
        self._progress = progress
        self._child = child
        self._library = library
        self._process: asyncio.subprocess.Process | None = None
        self._errors = bytearray()
        self._drain: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the child; None if none was started."""
        return None if self._process is None else self._process.pid

    @property
    def running(self) -> bool:
        """True if the child process is running."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> Endpoint:
        """Load the model and wait until it answers; return its address. Raises `HermesError`."""
        folder = await asyncio.to_thread(self._check)
        token = secrets.token_urlsafe(32)
        order = {
            "library": self._library,
            "folder": folder,
            "model": str(self._model),
            "threads": self._threads,
            "context": self._context,
            "token": token,
            "parent": os.getpid(),
        }
        began = monotonic()
        self._progress(f"Loading {self._model.name} with {plural(self._threads, 'thread')}.")
        try:
            report = await self._launch(order, began)
        except BaseException:
            await self.stop()
            raise
        self._progress(f"{self._model.name} is ready after {monotonic() - began:.0f} s.")
        return Endpoint(f"{report['address']}/v1", token)

    async def stop(self) -> None:
        """Stop the child process. May be called at any time, more than once."""
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_GRACE):
                    await process.wait()
            await kill_child(process)
        drain, self._drain = self._drain, None
        if drain is not None:
            await drain

    def _check(self) -> str:
        """Return the folder from which to import the library. Raises `ConfigError` if the model cannot be
        served.
        """
        try:
            with self._model.open("rb") as file:
                magic = file.read(len(_MAGIC))
            size = self._model.stat().st_size
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(
                f"Cannot read the model {self._model}: {reason}; fetch one with: hermes model pull"
            ) from None
        if magic != _MAGIC:
            raise ConfigError(f"{self._model} is not a GGUF file; fetch one with: hermes model pull")
        spec = importlib.util.find_spec(self._library)
        if spec is None or spec.origin is None:
            raise ConfigError(MISSING)
        needed, free = int(size * _MEMORY_FACTOR), free_memory()
        if free is not None and free < needed:
            raise ConfigError(
                f"{self._model.name} needs about {needed / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB "
                "are free; close other programs or take the smaller one: hermes model pull --small"
            )
        return str(Path(spec.origin).parent.parent)

    async def _launch(self, order: dict[str, Any], began: float) -> dict[str, Any]:
        try:
            process = await start_child(
                [sys.executable, "-I", str(self._child)],
                stdin=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=_child_environment(),
                cwd="/",
                private=True,
            )
        except OSError as error:
            raise HermesError(f"The local model cannot be started: {error.strerror or error}.") from error
        self._process = process
        assert process.stdin and process.stdout and process.stderr
        self._drain = asyncio.create_task(self._keep_tail(process.stderr))
        with suppress(ConnectionError):
            process.stdin.write(json.dumps(order).encode() + b"\n")
            await process.stdin.drain()
        report = _report(await self._first_line(process.stdout, began))
        if "missing" in report:
            raise ConfigError(f"{MISSING} ({report['missing']})")
        if "address" not in report:
            raise await self._failure(process)
        return report

    async def _first_line(self, output: asyncio.StreamReader, began: float) -> bytes:
        reading = asyncio.ensure_future(output.readline())
        try:
            while True:
                done, _ = await asyncio.wait({reading}, timeout=_NEWS_EVERY)
                if done:
                    return reading.result()
                self._progress(f"Still loading {self._model.name}, {monotonic() - began:.0f} s.")
        finally:
            reading.cancel()

    async def _keep_tail(self, errors: asyncio.StreamReader) -> None:
        while piece := await errors.read(4096):
            self._errors += piece
            del self._errors[:-_TAIL]

    async def _failure(self, process: asyncio.subprocess.Process) -> HermesError:
        code = await process.wait()
        if self._drain is not None:
            await self._drain
        said = self._errors.decode("utf-8", "replace")
        return HermesError(f"{self._model.name} could not be loaded: {_reason(code, said)}.")


def _child_environment() -> dict[str, str]:
    """Return the child's environment: only the variables for paths and the language."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}


def _report(line: bytes) -> dict[str, Any]:
    try:
        report = json.loads(line)
    except ValueError:
        return {}
    return report if isinstance(report, dict) else {}


def _reason(code: int, said: str) -> str:
    """Return a clause on why the child process ended, from its exit code and its last output."""
    lowered = said.lower()
    if "unable to allocate" in lowered or "failed to allocate" in lowered or "bad_alloc" in lowered:
        return "there is not enough memory; lower local.context or take a smaller model"
    if code == -signal.SIGKILL:
        return "the system ended it, most likely for lack of memory"
    if code == -signal.SIGILL:
        return "this processor lacks instructions the library needs (AVX2 and FMA)"
    if "unknown model architecture" in lowered:
        return "the library does not know this kind of model; update it with: pip install -U xllamacpp"
    if "gguf_init" in lowered or "incomplete" in lowered:
        return "the file is incomplete or damaged; fetch it again with: hermes model pull"
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
    return f"the server ended with code {code}" + (f" ({last[:200]})" if last else "")

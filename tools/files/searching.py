"""Running a search as a child process: ripgrep, and our own for patterns it does not know."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tools.files.threads import Stopped
from tools.kit.children import kill_group
from tools.results import ToolError

TIMEOUT = 30.0
"""Seconds a search may take."""
MAX_OUTPUT_BYTES = 256_000_000
MAX_RECORD_BYTES = 4_000_000
"""Length of a record above which it is left out: a line of a file that no one can read."""

_CHILD = Path(__file__).with_name("search_child.py")
_KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
_READ_BYTES = 1 << 16
_PYTHON_ONLY = ("look-around", "backreferences")


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What to search. `pattern` None lists files. `rules` are lines of an ignore file."""

    root: Path
    pattern: str | None
    rules: tuple[str, ...] = ()
    context: int = 0

    @property
    def multiline(self) -> bool:
        """Whether the pattern speaks of line ends, so that a match may span lines."""
        return self.pattern is not None and ("\\n" in self.pattern or "\n" in self.pattern)


@dataclass(slots=True)
class SearchEnding:
    """How a search ended; filled in when its records are used up."""

    incomplete: str = ""
    """Why not everything was searched, as the end of a sentence."""
    left_out: int = 0
    """Records that were too long."""


def find_ripgrep(environ: Mapping[str, str] = os.environ) -> str | None:
    """The `rg` that was installed beside this Python, else the one on the PATH."""
    beside = Path(sys.executable).with_name("rg")
    if os.access(beside, os.X_OK):
        return str(beside)
    return shutil.which("rg", path=environ.get("PATH", os.defpath))


def records(
    request: SearchRequest, ending: SearchEnding, stop: threading.Event
) -> Generator[bytes, None, None]:
    """The records of a search as they come: JSON lines, or paths. Close the iterator to end it early.

    Raises `ToolError` for an invalid pattern and where ripgrep is missing.
    """
    program = find_ripgrep()
    if program is None:
        raise ToolError("ripgrep (rg) is not installed; install it or reinstall Hermes.")
    try:
        yield from _ripgrep(program, request, ending, stop)
    except ToolError as error:
        if not any(word in str(error) for word in _PYTHON_ONLY):
            raise
        found = [*_ripgrep(program, replace(request, pattern=None), ending, stop)]
        yield from _python(request, sorted(found, key=lambda path: path.split(b"/")), ending, stop)


def _ripgrep(
    program: str, request: SearchRequest, ending: SearchEnding, stop: threading.Event
) -> Iterator[bytes]:
    arguments = [program, "--no-config", "--hidden", "--no-require-git", "--no-ignore-global"]
    arguments += ["--no-messages", "--color=never", "--glob=!.git"]
    folder, target = place(request.root)
    if request.root == Path("/"):
        arguments += [f"--glob=!{skipped}" for skipped in _KERNEL_FOLDERS]
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="hermes-") as rules:
        if request.rules:
            rules.write("\n".join(request.rules) + "\n")
            rules.flush()
            arguments.append(f"--ignore-file={rules.name}")
        if request.pattern is None:
            arguments += ["--files", "--null"]
        else:
            arguments += ["--json", "--sort=path", "--crlf", f"--context={request.context}"]
            arguments += ["--multiline"] if request.multiline else []
            arguments.append(f"--regexp={request.pattern}")
        # `./` keeps a name that begins with a dash from being read as an option.
        yield from _run([*arguments, "--", f"./{target}"], folder, b"", request, ending, stop)


def _python(
    request: SearchRequest, files: list[bytes], ending: SearchEnding, stop: threading.Event
) -> Iterator[bytes]:
    order = {
        "files": [os.fsdecode(path) for path in files],
        "pattern": request.pattern,
        "context": request.context,
        "multiline": request.multiline,
    }
    arguments = [sys.executable, "-I", "-W", "ignore", str(_CHILD)]
    folder = place(request.root)[0]
    yield from _run(arguments, folder, json.dumps(order).encode(), request, ending, stop)


def place(root: Path) -> tuple[Path, str]:
    """The folder to search in and the one file to search there, empty for all."""
    return (root, "") if root.is_dir() else (root.parent, root.name)


def _run(
    arguments: list[str],
    folder: Path,
    order: bytes,
    request: SearchRequest,
    ending: SearchEnding,
    stop: threading.Event,
) -> Iterator[bytes]:
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as given:
        given.write(order)
        given.seek(0)
        with subprocess.Popen(
            arguments,
            cwd=folder,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        ) as process:
            try:
                separator = b"\0" if request.pattern is None else b"\n"
                yield from _split(_chunks(process, ending, stop), separator, ending)
            finally:
                if process.poll() is None:
                    kill_group(process.pid)
                    process.kill()
        if process.returncode == 2 and not ending.incomplete:
            errors.seek(0)
            reason = errors.read(4000).decode("utf-8", "replace").strip()
            # ripgrep also ends with 2 when it could not read some file, and then says nothing.
            if reason:
                raise ToolError(reason)


def _chunks(process: subprocess.Popen[bytes], ending: SearchEnding, stop: threading.Event) -> Iterator[bytes]:
    """The output of the child until it ends or a limit is reached."""
    assert process.stdout is not None
    deadline = time.monotonic() + TIMEOUT
    received = 0
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if stop.is_set():
                raise Stopped
            if time.monotonic() > deadline:
                ending.incomplete = f"it was stopped after {TIMEOUT:.0f} seconds"
                return
            if not selector.select(0.1):
                continue
            chunk = os.read(process.stdout.fileno(), _READ_BYTES)
            if not chunk:
                process.wait(TIMEOUT)
                return
            received += len(chunk)
            if received > MAX_OUTPUT_BYTES:
                ending.incomplete = "it found too much"
                return
            yield chunk


def _split(chunks: Iterator[bytes], separator: bytes, ending: SearchEnding) -> Iterator[bytes]:
    """Records out of chunks, in linear time; those that are too long are counted and left out."""
    held: list[bytes] = []
    size = 0
    for chunk in chunks:
        *complete, rest = chunk.split(separator)
        for piece in complete:
            size += len(piece)
            if size > MAX_RECORD_BYTES:
                ending.left_out += 1
            else:
                yield b"".join([*held, piece])
            held, size = [], 0
        size += len(rest)
        if size <= MAX_RECORD_BYTES:
            held.append(rest)
    if held and size and size <= MAX_RECORD_BYTES and not ending.incomplete:
        yield b"".join(held)

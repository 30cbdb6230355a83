"""Searches in a child process: ripgrep, or a program of Hermes for patterns that only Python supports.

Also globs, and the collection of hits.
"""

from __future__ import annotations

import base64
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from tools.files.access import printable
from tools.files.text_files import decode_line
from tools.kit.children import kill_group
from tools.kit.files import NotAFileError, require_file
from tools.kit.lazy_pattern import lazy_pattern
from tools.kit.threads import Stopped
from tools.results import ToolError

Engine = Literal["ripgrep", "python"]

TIMEOUT = 30.0
"""Seconds a search may take."""
MAX_OUTPUT_BYTES = 256_000_000
MAX_RECORD_BYTES = 4_000_000
"""The size in bytes above which a record is left out, because its line is too long to read."""

_CHILD = Path(__file__).with_name("search_child.py")
_KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
_READ_BYTES = 1 << 16
_IGNORE_FILES = (".ignore", ".rgignore", ".gitignore", ".git", ".git/info/exclude")
"""Files that ripgrep opens in each folder. It hangs at a FIFO or a device of such a name."""
_PYTHON_ONLY = ("look-around", "backreferences")


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search. `pattern` None lists files. `rules` are lines of an ignore file."""

    root: Path
    pattern: str | None
    rules: tuple[str, ...] = ()
    context: int = 0
    ignored: bool = False
    """Whether gitignored files are searched too."""

    @property
    def multiline(self) -> bool:
        """Return whether the pattern mentions line breaks, so that a match may span lines."""
        return self.pattern is not None and ("\\n" in self.pattern or "\n" in self.pattern)


@dataclass(slots=True)
class SearchEnding:
    """The end of a search, filled in when its records are used up."""

    incomplete: str = ""
    """Why the search is incomplete, as the end of a sentence."""
    advice: str = "Use a narrower pattern or path."
    """A sentence on what to do about that."""
    left_out: int = 0
    """Records that were too long."""


def find_ripgrep(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the path of `rg`: the one installed next to this Python, else one on the PATH, else None."""
    beside = Path(sys.executable).with_name("rg")
    if os.access(beside, os.X_OK):
        return str(beside)
    return shutil.which("rg", path=environ.get("PATH", os.defpath))


def records(
    request: SearchRequest, ending: SearchEnding, stop: threading.Event, engine: Engine | None = None
) -> Generator[bytes, None, None]:
    """Yield the records of a search: JSON lines, or paths without a pattern. Close it to stop early.

    Without `engine`, ripgrep is used if it is installed, and Python for patterns that only Python supports.
    Raises `ToolError` for an invalid pattern.
    """
    program = find_ripgrep()
    if engine == "ripgrep" and program is None:
        raise ToolError("ripgrep (rg) is not installed; install it or reinstall Hermes.")
    if program is not None and (engine != "python" or request.pattern is None):
        try:
            yield from _ripgrep(program, request, ending, stop)
            return
        except ToolError as error:
            if engine == "ripgrep" or not any(word in str(error) for word in _PYTHON_ONLY):
                raise
    files = replace(request, pattern=None)
    found = _walk(request.root) if program is None else _ripgrep(program, files, ending, stop)
    paths = sorted((path.removeprefix(b"./") for path in found), key=lambda path: path.split(b"/"))
    yield from paths if request.pattern is None else _python(paths, request, ending, stop)


def _walk(root: Path) -> Iterator[bytes]:
    """Yield all regular files below a folder, for a system without ripgrep: no ignore file is read."""
    folder, target = split_root(root)
    if target:
        yield os.fsencode(target)
        return
    for parent, names in _folders(root):
        for path in (parent / name for name in names):
            if path.is_file() and not path.is_symlink():
                yield os.fsencode(path.relative_to(folder))


def _folders(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield the folders that a search may enter, and the names of what else is in them."""
    for parent, folders, names in os.walk(root):
        folders[:] = [each for each in folders if each != ".git" and f"{parent}{each}" not in _skipped(root)]
        yield Path(parent), names


def _endless_ignore_files(root: Path) -> Iterator[str]:
    """Yield a clause for each ignore file that never ends, such as a FIFO, and an empty text per folder."""
    for folder in chain(root.parents, (parent for parent, _ in _folders(root))):
        for file in (folder / name for name in _IGNORE_FILES):
            try:
                require_file(file.stat())
            except NotAFileError as error:
                if error.kind in ("FIFO", "device"):
                    name = printable(os.path.relpath(file, split_root(root)[0]))
                    yield f"the ignore file {name} is a {error.kind}, not a file"
            except OSError:
                continue
        yield ""


def _ripgrep(
    program: str, request: SearchRequest, ending: SearchEnding, stop: threading.Event
) -> Iterator[bytes]:
    arguments = [program, "--no-config", "--hidden", "--no-require-git", "--no-ignore-global"]
    arguments += ["--no-messages", "--color=never", "--glob=!.git"]
    arguments += ["--no-ignore"] if request.ignored else []
    folder, target = split_root(request.root)
    if not target:
        arguments += [f"--glob=!{skipped}" for skipped in _skipped(request.root)]
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
    paths: list[bytes], request: SearchRequest, ending: SearchEnding, stop: threading.Event
) -> Iterator[bytes]:
    order = {"pattern": request.pattern, "context": request.context, "multiline": request.multiline}
    given = b"\0".join([json.dumps(order).encode(), *paths])
    arguments = [sys.executable, "-I", "-W", "ignore", str(_CHILD)]
    yield from _run(arguments, split_root(request.root)[0], given, request, ending, stop)


def split_root(root: Path) -> tuple[Path, str]:
    """Return the folder to search, and the only file name to search in it, or empty for all files."""
    return (root, "") if root.is_dir() else (root.parent, root.name)


def _skipped(root: Path) -> tuple[str, ...]:
    return _KERNEL_FOLDERS if root == Path("/") else ()


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
                endless = iter(()) if order else _endless_ignore_files(request.root)
                yield from _split(_chunks(process, endless, ending, stop), separator, ending)
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


def _chunks(
    process: subprocess.Popen[bytes], endless: Iterator[str], ending: SearchEnding, stop: threading.Event
) -> Iterator[bytes]:
    """Yield the output of the child until it ends or a limit is reached. Raises `Stopped`."""
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
                # Looking before each search would take as long as the search.
                pause = time.monotonic() + 0.1
                for ending.incomplete in endless:
                    if ending.incomplete:
                        ending.advice = "Remove it, or search a folder that has none in or above it."
                        return
                    if time.monotonic() > pause:
                        break
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
    """Split chunks into records in linear time. Records that are too long are counted and left out."""
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


_MAX_PATTERNS = 200
_BRACES = lazy_pattern(r"\{([^{}]*)\}")
_SPECIAL = lazy_pattern(r"[*?\[{]")


def is_glob(text: str) -> bool:
    """Return whether `text` is a glob and not a part of a name."""
    return bool(_SPECIAL.search(text))


def expand(pattern: str) -> list[str]:
    """Expand a list with commas and braces into patterns. Raises `ToolError` if there are too many."""
    expanded: list[str] = []
    for part in _split_outside_braces(pattern):
        for plain in _without_braces(part.strip()):
            expanded.append(plain.replace("./", "", 1) if plain.startswith(("./", "!./")) else plain)
            if len(expanded) > _MAX_PATTERNS:
                raise ToolError(f"The glob {pattern!r} stands for too many patterns; use a shorter one.")
    return [plain for plain in dict.fromkeys(expanded) if plain not in ("", "!")]


def ignore_rules(pattern: str) -> list[str]:
    """Return lines of an ignore file that keep only what matches `pattern`."""
    patterns = expand(pattern)
    wanted = [plain for plain in patterns if not plain.startswith("!")]
    unwanted = [plain[1:] for plain in patterns if plain.startswith("!")]
    return [*(["*", "!*/", *("!" + plain for plain in wanted)] if wanted else []), *unwanted]


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that returns whether a path, relative to the searched folder, matches `pattern`."""
    import pathspec

    spec = pathspec.GitIgnoreSpec.from_lines(ignore_rules(pattern))
    return lambda path: not spec.match_file(path)


def _split_outside_braces(pattern: str) -> Iterator[str]:
    depth = start = 0
    for index, character in enumerate(pattern):
        depth += (character == "{") - (character == "}")
        if character == "," and depth <= 0:
            yield pattern[start:index]
            start = index + 1
    yield pattern[start:]


def _without_braces(pattern: str) -> Iterator[str]:
    """Yield the patterns that result from expanding all braces, innermost first.

    There may be very many; the caller must stop.
    """
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        braces = _BRACES.search(current)
        if braces is None:
            yield current
            continue
        head, tail = current[: braces.start()], current[braces.end() :]
        waiting.extend(head + choice + tail for choice in reversed(braces[1].split(",")))


MAX_HITS = 50_000
"""Hits after which a search ends."""
MAX_SHOWN_CHARS = 60_000
"""Characters of lines in one result."""
MAX_LINE_CHARS = 400
_MAX_CONTEXT_CHARS = 200
_LEAD_CHARS = 100
"""Characters kept before a match when its line is shortened."""


@dataclass(slots=True)
class FileHit:
    """One match and the lines around it. A match of a pattern with line breaks may span several lines."""

    path: str
    line: int
    content: str
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"path": self.path, "line": self.line, "content": self.content}
        if self.before:
            data["before"] = self.before
        if self.after:
            data["after"] = self.after
        return data


@dataclass(slots=True)
class _File:
    """The hits of one file. They count only once the file is known to be text."""

    path: str
    hits: list[FileHit] = field(default_factory=list)
    count: int = 0
    chars: int = 0
    waiting: list[tuple[int, str]] = field(default_factory=list)
    """Context lines that may belong before the next hit."""


@dataclass
class FileHits:
    """A collector that counts all hits and keeps at most `limit` of them, from hit `offset` (from 0)."""

    offset: int
    limit: int
    context: int
    prefix: str = ""
    """The prefix that turns paths of the search into displayed ones."""
    accepts: Callable[[str], bool] = lambda path: True
    """Returns whether hits in a path (relative to the searched folder) may be shown."""
    fits: Callable[[str], bool] = lambda path: True
    """Returns whether a path matches the requested glob."""

    total: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    shown: list[FileHit] = field(default_factory=list)
    omitted: int = 0
    """Hits in files whose content is not shown."""
    full: bool = False
    """Whether `MAX_SHOWN_CHARS` ended the shown part."""
    _chars: int = 0
    _file: _File | None = None

    def take_all(self, records: Iterable[bytes]) -> bool:
        """Take records until there are too many hits; return whether all were taken."""
        for record in records:
            try:
                parsed = json.loads(record)
            except ValueError:
                continue
            self._take(parsed["type"], parsed["data"])
            if self.total >= MAX_HITS:
                return False
        if self._file is not None:
            # The search was stopped within a file.
            self._take("end", {})
        return True

    def _take(self, kind: str, data: dict[str, Any]) -> None:
        match kind:
            case "begin":
                self._file = _File(_path(data))
            case "match" if self._file is not None:
                self._match(self._file, data)
            case "context" if self._file is not None:
                self._context(self._file, data)
            case "end" if self._file is not None:
                if data.get("binary_offset") is None and self._file.count and self.fits(self._file.path):
                    self._settle(self._file)
                self._file = None

    def _match(self, file: _File, data: dict[str, Any]) -> None:
        file.count += 1
        number = self.total + file.count
        if not self.offset < number <= self.offset + self.limit:
            file.waiting.clear()
            return
        raw = _bytes(data["lines"]).removesuffix(b"\n").removesuffix(b"\r")
        submatches = data.get("submatches") or [{"start": 0}]
        line = int(data["line_number"])
        before = [text for number, text in file.waiting if number >= line - self.context]
        file.waiting.clear()
        file.hits.append(FileHit(file.path, line, _shortened(raw, int(submatches[0]["start"])), before))

    def _context(self, file: _File, data: dict[str, Any]) -> None:
        number = int(data["line_number"])
        text = decode_line(_bytes(data["lines"]).rstrip(b"\r\n"))
        if len(text) > _MAX_CONTEXT_CHARS:
            text = text[:_MAX_CONTEXT_CHARS] + "…"
        last = file.hits[-1] if file.hits and self.total + file.count <= self.offset + self.limit else None
        if last is not None and number <= last.line + last.content.count("\n") + self.context:
            last.after.append(text)
        else:
            file.waiting.append((number, text))
            del file.waiting[: -self.context]

    def _settle(self, file: _File) -> None:
        if not self.accepts(file.path):
            self.omitted += file.count
            return
        path = self.prefix + printable(file.path)
        self.counts[path] = file.count
        self.total += file.count
        for hit in file.hits:
            self._chars += len(hit.content) + sum(map(len, hit.before)) + sum(map(len, hit.after))
            if self._chars > MAX_SHOWN_CHARS and self.shown:
                self.full = True
            if self.full:
                return
            hit.path = path
            self.shown.append(hit)


def _path(data: dict[str, Any]) -> str:
    return os.fsdecode(_bytes(data["path"])).removeprefix("./")


def _bytes(value: dict[str, str]) -> bytes:
    """Return the bytes of a text in a record, which is in base64 if it is not UTF-8."""
    if "text" in value:
        return value["text"].encode("utf-8", "surrogatepass")
    return base64.b64decode(value["bytes"])


def _shortened(line: bytes, start: int) -> str:
    """Return the line as text; a long one is cut to the surroundings of the match at byte `start`."""
    text = decode_line(line)
    if len(text) <= MAX_LINE_CHARS:
        return text
    first = max(len(decode_line(line[:start])) - _LEAD_CHARS, 0)
    first = min(first, len(text) - MAX_LINE_CHARS)
    cut = text[first : first + MAX_LINE_CHARS]
    return ("…" if first else "") + cut + ("…" if first + MAX_LINE_CHARS < len(text) else "")

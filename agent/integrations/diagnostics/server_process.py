"""A running language server: its process, its open documents, and the problems it finds in them."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.kit.children import end_child, kill_group, start_child
from tools.services.diagnostics import FileEdit
from tools.services.sandbox import Wrapped
from tools.text.safe_text import clean
from tools.text.words import brief

LARGEST = 8_000_000
"""The maximum size of one message, in bytes."""
_LARGEST_HEAD = 4_096
_MUCH = 100_000
"""The size in bytes from which a message is parsed off the event loop."""
_LENGTH = re.compile(rb"^content-length:[ \t]*([0-9]{1,10})[ \t]*$", re.IGNORECASE | re.MULTILINE)


class FramingError(Exception):
    """The received bytes are not a message. The text gives the reason as a clause."""


def pack_message(message: Mapping[str, Any]) -> bytes:
    """Encode a message as bytes, with its header."""
    data = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return b"Content-Length: %d\r\n\r\n" % len(data) + data


async def read_message(reader: asyncio.StreamReader) -> tuple[dict[str, Any], int] | None:
    """Read the next message; return it and its size in bytes, None at the end. Raises `FramingError`."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise FramingError("it sent something else than messages") from error
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    found = _LENGTH.search(head.replace(b"\r", b""))
    if found is None or len(head) > _LARGEST_HEAD:
        raise FramingError("it sent something else than messages")
    size = int(found.group(1))
    if size > LARGEST:
        raise FramingError(f"it sent a message of {size:,} bytes")
    try:
        data = await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    try:
        message = await asyncio.to_thread(json.loads, data) if size > _MUCH else json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FramingError("it sent a message that is not JSON") from error
    if not isinstance(message, dict):
        raise FramingError("it sent a message that is not an object")
    return message, size


MOST_SHOWN = 10
"""The maximum number of findings of an edit that are shown; the rest are counted."""
MOST_KEPT = 2_000
"""The maximum number of findings of one file that are read."""
_MESSAGE = 300
_WORDS = {1: "error", 2: "warning"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem that a server reported. Lines and columns count from 1."""

    line: int
    column: int
    severity: int
    """1: error, 2: warning."""
    message: str
    origin: str
    """The tool that found it, with the name of its rule."""

    @property
    def kind(self) -> tuple[int, str, str]:
        """Severity, message and origin. They stay the same when lines are added or removed above."""
        return self.severity, self.message, self.origin

    def words(self, path: str) -> str:
        """Return the finding on one line.

        An example is `src/a.py:3:5 error: it is not defined [Pyright reportUndefined]`.
        """
        origin = f" [{self.origin}]" if self.origin else ""
        return f"{path}:{self.line}:{self.column} {_WORDS[self.severity]}: {self.message}{origin}"


def findings_of(items: Any) -> tuple[Finding, ...]:
    """Return the errors and warnings in a list of diagnostics. Malformed entries and hints are left out."""
    if not isinstance(items, list):
        return ()
    read = (_finding(item) for item in items[:MOST_KEPT])
    return tuple(each for each in read if each is not None)


def _finding(item: Any) -> Finding | None:
    if not isinstance(item, Mapping) or not isinstance(item.get("message"), str):
        return None
    severity = item.get("severity", 1)
    if severity not in _WORDS:
        return None
    try:
        start = item["range"]["start"]
        line, column = int(start["line"]) + 1, int(start["character"]) + 1
    except (KeyError, TypeError, ValueError):
        return None
    code = item.get("code")
    origin = " ".join(str(part) for part in (item.get("source"), code) if isinstance(part, str | int))
    return Finding(
        line=line,
        column=column,
        severity=severity,
        message=brief(item["message"][: 4 * _MESSAGE], _MESSAGE),
        origin=brief(origin[:320]),
    )


def news(before: Iterable[Finding], after: Iterable[Finding]) -> list[Finding]:
    """Return the findings that an edit has added, errors first.

    A finding that only moved to another line does not count as new.
    """
    known = Counter(each.kind for each in before)
    fresh: list[Finding] = []
    for each in sorted(after, key=lambda each: (each.line, each.column)):
        if known[each.kind] > 0:
            known[each.kind] -= 1
        else:
            fresh.append(each)
    return sorted(fresh, key=lambda each: each.severity)


def report(found: Sequence[tuple[str, Finding]], pending: Sequence[str]) -> dict[str, Any] | None:
    """Return an edit's problem report: findings by path, and servers not ready yet; None without any."""
    said: dict[str, Any] = {}
    if found:
        ordered = sorted(found, key=lambda each: each[1].severity)
        said["new"] = [finding.words(path) for path, finding in ordered[:MOST_SHOWN]]
        if len(ordered) > MOST_SHOWN:
            said["more"] = len(ordered) - MOST_SHOWN
    if pending:
        said["still_running"] = list(pending)
    return said or None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKind:
    """One language server that can be used if it is installed."""

    command: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    """Initialization options, as the server defines them."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that make it write into its own folder, for which `{folder}` stands."""
    settle: float = 0.15
    """Seconds without a further message after which the published findings count as complete."""
    publishes_too: bool = False
    """Whether it publishes findings that it leaves out of its answers to requests."""
    silent_when_same: bool = False
    """Whether it publishes nothing if an edit did not change its findings."""

    @property
    def name(self) -> str:
        return Path(self.command[0]).name


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """A language and its servers, the preferred one first."""

    name: str
    files: Mapping[str, str]
    """File name endings, each with the language id of the protocol."""
    servers: tuple[ServerKind, ...]


LANGUAGES: tuple[Language, ...] = (
    Language(
        name="python",
        files={".py": "python", ".pyi": "python"},
        servers=(
            ServerKind(command=("pyright-langserver", "--stdio")),
            ServerKind(command=("pylsp",), settle=0.3),
            ServerKind(command=("ruff", "server"), env={"RUFF_CACHE_DIR": "{folder}/cache/ruff"}),
        ),
    ),
    Language(
        name="typescript",
        files={
            ".ts": "typescript",
            ".mts": "typescript",
            ".cts": "typescript",
            ".tsx": "typescriptreact",
            ".js": "javascript",
            ".mjs": "javascript",
            ".cjs": "javascript",
            ".jsx": "javascriptreact",
        },
        # It publishes syntax, then meaning, then suggestions.
        servers=(ServerKind(command=("typescript-language-server", "--stdio"), settle=0.5),),
    ),
    Language(
        name="go",
        files={".go": "go"},
        servers=(
            ServerKind(
                command=("gopls",),
                options={"pullDiagnostics": True},
                env={"GOCACHE": "{folder}/cache/go", "GOFLAGS": "-mod=mod"},
                silent_when_same=True,
            ),
        ),
    ),
    Language(
        name="rust",
        files={".rs": "rust"},
        servers=(
            ServerKind(
                command=("rust-analyzer",),
                options={"cargo": {"targetDir": True}},
                env={"CARGO_TARGET_DIR": "{folder}/cache/target", "CARGO_NET_OFFLINE": "true"},
                publishes_too=True,
                silent_when_same=True,
            ),
        ),
    ),
    Language(
        name="cpp",
        files={
            ".c": "c",
            ".h": "c",
            ".cc": "cpp",
            ".cpp": "cpp",
            ".cxx": "cpp",
            ".hh": "cpp",
            ".hpp": "cpp",
            ".hxx": "cpp",
        },
        servers=(ServerKind(command=("clangd", "--background-index=false")),),
    ),
)

_BY_ENDING = {ending: each for each in LANGUAGES for ending in each.files}


def language_of(path: Path) -> Language | None:
    """Return the language of a file by its extension; None if it is not known."""
    return _BY_ENDING.get(path.suffix.lower())


def find_server(
    language: Language, commands: Mapping[str, str], environ: Mapping[str, str]
) -> ServerKind | None:
    """Return the server to use: the configured one, or the first that is installed; None if there is none.

    The returned server has the full path of its program.
    """
    own = commands.get(language.name)
    if own is None:
        kinds = language.servers
    elif not (words := shlex.split(own)):
        return None
    else:
        known = next((each for each in language.servers if each.name == Path(words[0]).name), None)
        kinds = (_with(known or ServerKind(command=("",)), tuple(words)),)
    for kind in kinds:
        if (program := _find_program(kind.command[0], environ)) is not None:
            return _with(kind, (program, *kind.command[1:]))
    return None


def _find_program(name: str, environ: Mapping[str, str]) -> str | None:
    found = shutil.which(name, path=environ.get("PATH", ""))
    with suppress(OSError):
        if found and Path(found).samefile(Path(found).with_name("rustup")):
            # rustup puts this name on the path also if no toolchain has the program.
            home = Path(environ.get("RUSTUP_HOME") or Path(environ.get("HOME", "~"), ".rustup"))
            return found if any(home.glob(f"toolchains/*/bin/{Path(found).name}")) else None
    return found


def _with(kind: ServerKind, command: tuple[str, ...]) -> ServerKind:
    from dataclasses import replace

    return replace(kind, command=command)


MOST_BYTES = 64_000_000
"""The maximum number of bytes that a server may send between two edits."""
MOST_MESSAGES = 20_000
_CAPABILITIES: dict[str, Any] = {
    "textDocument": {
        "synchronization": {"didSave": True},
        "publishDiagnostics": {"versionSupport": True},
        "diagnostic": {"dynamicRegistration": False},
    },
    "workspace": {"configuration": True, "workspaceFolders": True},
    "window": {"workDoneProgress": True},
}
_STARTING = 30.0
"""The time limit for the answer to `initialize`, in seconds."""
_GRACE = 1.0
_CHUNK = 65_536
_PULL_AGAIN = 0.1
"""Seconds until a server that is not ready to answer is asked again."""


class ServerFault(Exception):  # noqa: N818 - it is the server's, not an error of ours
    """The server can no longer be used. The text gives the reason as a clause."""


class ServerProcess:
    """A running language server. Create it with `start`."""

    def __init__(self, process: asyncio.subprocess.Process, wrapped: Wrapped, kind: ServerKind) -> None:
        self._process = process
        self._wrapped = wrapped
        self._kind = kind
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._published: dict[str, tuple[int, int | None, tuple[Finding, ...]]] = {}
        """By URI of the document: the number of the message, the version it is about, and its findings."""
        self._received = itertools.count(1)
        self._bytes = self._messages = 0
        self._news = asyncio.Event()
        self._complaint = b""
        self._pulls = False
        self._root = ""
        self.fault = ""
        """Why the server can no longer be used, as a clause; empty while it can."""
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._listen())]

    @classmethod
    async def start(
        cls, wrap: Callable[[], Wrapped], env: Mapping[str, str], cwd: str, kind: ServerKind
    ) -> ServerProcess:
        """Start a server. `wrap` returns the command that runs it in the sandbox. Raises `ServerFault`."""
        wrapped = await asyncio.to_thread(wrap)
        environment = {**env, **wrapped.env}
        try:
            process = await start_child(
                wrapped.argv,
                stdin=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={name: value for name, value in environment.items() if name not in wrapped.unset},
                cwd=cwd,
                fds=wrapped.fds,
            )
        except OSError as error:
            wrapped.ended()
            raise ServerFault(f"it cannot be started: {error.strerror or error}") from error
        except BaseException:
            wrapped.ended()
            raise
        finally:
            wrapped.started()
        return cls(process, wrapped, kind)

    async def initialize(self, root: str, options: Mapping[str, Any]) -> None:
        """Exchange capabilities with the server. Raises `ServerFault`, also if it takes too long."""
        self._root = root
        params = {
            "processId": None,
            "rootUri": root,
            "workspaceFolders": [{"uri": root, "name": "workspace"}],
            "capabilities": _CAPABILITIES,
            "initializationOptions": dict(options),
        }
        try:
            async with asyncio.timeout(_STARTING):
                answer = await self._request("initialize", params)
        except TimeoutError:
            raise ServerFault(f"it did not answer within {_STARTING:g} s of its start") from None
        able = answer.get("capabilities") if isinstance(answer, Mapping) else None
        self._pulls = isinstance(able, Mapping) and able.get("diagnosticProvider") not in (None, False)
        self.notify("initialized", {})

    def begin(self) -> None:
        """Start counting received bytes and messages from zero, as a new edit begins."""
        self._bytes = self._messages = 0

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification to the server. Raises `ServerFault`."""
        self._send({"method": method, "params": dict(params)})

    def mark(self) -> int:
        """Return a sequence number, lower than those of everything that the server publishes from now on."""
        return next(self._received)

    async def diagnostics(self, uri: str, version: int, since: int) -> tuple[Finding, ...]:
        """Return the findings for one version of a document. Waits until the server has reported them.

        Only reports later than `since`, a number from `mark`, count. Raises `ServerFault`.
        """
        if self._pulls:
            pulled = await self._pull(uri)
            more = self.published_findings(uri) if self._kind.publishes_too else ()
            return tuple(dict.fromkeys((*pulled, *more)))
        while True:
            self._news.clear()
            self._check()
            number, about, found = self._published.get(uri, (0, None, ()))
            if number > since and (about is None or about >= version):
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._kind.settle):
                        await self._news.wait()
                self._check()
                if self._published[uri][0] == number:
                    return found
                continue
            await self._news.wait()

    def published_findings(self, uri: str) -> tuple[Finding, ...]:
        """Return the findings that the server last published for a document without a request."""
        return self._published.get(uri, (0, None, ()))[2]

    async def close(self) -> None:
        """End the server and all processes it started. Never raises."""
        if not self.fault:
            with suppress(TimeoutError, ServerFault):
                async with asyncio.timeout(_GRACE):
                    await self._request("shutdown", None)
                    self._send({"method": "exit"})
                    await self._process.wait()
        await end_child(self._process, _GRACE, asked=True)
        self._end("it was ended")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # What outlives the server may hold its pipes, which nothing public lets go of.
        self._process._transport.close()  # pyright: ignore[reportAttributeAccessIssue]
        await asyncio.sleep(0)
        await asyncio.to_thread(self._wrapped.ended)

    async def _pull(self, uri: str) -> tuple[Finding, ...]:
        while True:
            try:
                answer = await self._request("textDocument/diagnostic", {"textDocument": {"uri": uri}})
            except _RefusedRequest:
                await asyncio.sleep(_PULL_AGAIN)
                continue
            return findings_of(answer.get("items")) if isinstance(answer, Mapping) else ()

    async def _request(self, method: str, params: Mapping[str, Any] | None) -> Any:
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"id": number, "method": method, "params": params})
            reply = await future
        except asyncio.CancelledError:
            with suppress(ServerFault):
                self._send({"method": "$/cancelRequest", "params": {"id": number}})
            raise
        finally:
            self._waiting.pop(number, None)
        if "error" in reply:
            raise _RefusedRequest
        return reply.get("result")

    def _send(self, message: Mapping[str, Any]) -> None:
        self._check()
        assert self._process.stdin is not None
        self._process.stdin.write(pack_message(message))

    def _check(self) -> None:
        if self.fault:
            raise ServerFault(self.fault)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while (received := await read_message(self._process.stdout)) is not None:
                message, size = received
                self._bytes += size
                self._messages += 1
                if self._bytes > MOST_BYTES or self._messages > MOST_MESSAGES:
                    raise FramingError("it floods its output")
                self._take(message)
                if self._messages % 16 == 0:
                    await asyncio.sleep(0)  # a full buffer is read without a pause
        except FramingError as error:
            self._end(str(error))
            kill_group(self._process.pid)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await self._process.wait()
        code, words = self._process.returncode, self._words()
        how = "it closed its output" if code is None else f"it ended with code {code}"
        self._end(f"{how} ({words})" if words else how)

    def _take(self, message: Mapping[str, Any]) -> None:
        method, number = message.get("method"), message.get("id")
        if method is None:
            future = self._waiting.get(number) if isinstance(number, int) else None
            if future is not None and not future.done():
                future.set_result(message)
        elif number is not None:
            with suppress(ServerFault):
                self._send({"id": number, "result": self._answer(str(method), message.get("params"))})
        elif method == "textDocument/publishDiagnostics":
            params = message.get("params")
            if isinstance(params, Mapping) and isinstance(params.get("uri"), str):
                version = params.get("version")
                self._published[params["uri"]] = (
                    next(self._received),
                    version if isinstance(version, int) else None,
                    findings_of(params.get("diagnostics")),
                )
                self._news.set()

    def _answer(self, method: str, params: Any) -> Any:
        """Return the answer to a request from the server.

        Requests to change the workspace are refused.
        """
        if method == "workspace/configuration":
            items = params.get("items") if isinstance(params, Mapping) else None
            return [None] * min(len(items), 100) if isinstance(items, list) else []
        if method == "workspace/applyEdit":
            return {"applied": False}
        if method == "workspace/workspaceFolders":
            return [{"uri": self._root, "name": "workspace"}]
        return None

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(_CHUNK):
            self._complaint = (self._complaint + data)[-1_000:]

    def _words(self) -> str:
        lines = clean(self._complaint.decode("utf-8", "replace")).split("\n")
        said = [" ".join(line.split())[:200] for line in lines if line.strip()]
        # A backtrace may follow the error.
        return next((line for line in said if line.lower().startswith("error")), said[-1] if said else "")

    def _end(self, reason: str) -> None:
        self.fault = self.fault or reason
        self._news.set()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ServerFault(self.fault))
                future.exception()  # nobody may be waiting any more


class _RefusedRequest(ServerFault):
    """The server answered a request with an error."""


_CREATED, _CHANGED, _DELETED = 1, 2, 3
MOST_OPEN = 50
"""The maximum number of open documents; those edited longest ago are closed."""


@dataclass(slots=True)
class _Document:
    """A document as the server last received it."""

    text: str
    version: int
    since: int
    """The number from `mark` after which messages are about this version."""
    known: tuple[Finding, ...] | None
    """The findings before the next edit, which are not new to the model; None: not known yet."""


class Documents:
    """The documents that are open in one server."""

    def __init__(self, server: ServerProcess, language: Language, *, silent_when_same: bool) -> None:
        self._server = server
        self._language = language
        self._silent_when_same = silent_when_same
        self._open: dict[Path, _Document] = {}

    async def after(self, edit: FileEdit, deadline: float) -> list[Finding] | None:
        """Return the findings that an edit has added; None if they are not known by `deadline`.

        `deadline` is in seconds of the event loop's clock. Raises `ServerFault`.
        """
        uri = edit.path.as_uri()
        if edit.after is None:
            self._close(edit.path)
            self._on_disk(uri, _DELETED)
            return []
        document = self._open.pop(edit.path, None)
        if document is None:
            document = self._open_document(edit.path, edit.after if edit.before is None else edit.before)
            document.known = () if edit.before is None else None
        self._open[edit.path] = document  # the newest last
        if document.known is None and not await self._learn(uri, document, deadline):
            # The text before the edit stays with the server, so that what is new can be told later.
            return None
        if edit.before is not None and edit.before != document.text:
            # Somebody else changed it meanwhile: that is not the edit's doing.
            self._change(uri, document, edit.before)
            await self._learn(uri, document, deadline)
        if edit.after != document.text:
            self._change(uri, document, edit.after)
        self._on_disk(uri, _CREATED if edit.before is None else _CHANGED)
        self._server.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
        before = document.known or ()
        if not await self._learn(uri, document, deadline):
            return None
        self._forget_oldest()
        return news(before, document.known or ())

    async def _learn(self, uri: str, document: _Document, deadline: float) -> bool:
        """Fetch the findings for the current state of a document; return False if time ran out."""
        try:
            async with asyncio.timeout_at(deadline):
                document.known = await self._server.diagnostics(uri, document.version, document.since)
        except TimeoutError:
            if not self._silent_when_same or document.known is None:
                return False
            document.known = self._server.published_findings(uri)
        return True

    def _open_document(self, path: Path, text: str) -> _Document:
        document = _Document(text, 1, self._server.mark(), None)
        item = {
            "uri": path.as_uri(),
            "languageId": self._language.files[path.suffix.lower()],
            "version": 1,
            "text": text,
        }
        self._server.notify("textDocument/didOpen", {"textDocument": item})
        return document

    def _change(self, uri: str, document: _Document, text: str) -> None:
        document.text, document.version, document.since = text, document.version + 1, self._server.mark()
        self._server.notify(
            "textDocument/didChange",
            {
                "textDocument": {"uri": uri, "version": document.version},
                "contentChanges": [{"text": text}],
            },
        )

    def _close(self, path: Path) -> None:
        if self._open.pop(path, None) is not None:
            self._server.notify("textDocument/didClose", {"textDocument": {"uri": path.as_uri()}})

    def _on_disk(self, uri: str, kind: int) -> None:
        self._server.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri, "type": kind}]})

    def _forget_oldest(self) -> None:
        for path in list(self._open)[:-MOST_OPEN]:
            self._close(path)

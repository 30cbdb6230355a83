"""A strict model server on loopback that answers from a script.

In a test:

    async with ModelServer([call("terminal", command="ls"), say("Two files.")]) as server:
        ...  # talk to server.base_url
        assert server.refusals == []

As a child process that prints its base URL. The script file is Python, finds
everything below at hand, and defines `script` and, if it likes, `rules`:

    python -m tests.support.model_server --script FILE --port 0

(`tests.support.model_process` does this for a test.)

A request that a real provider would refuse is answered with HTTP 400 and kept
in `refusals`; it never consumes a reply of the script.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import runpy
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from tests.support.delivery import Delivery, Recorded
from tests.support.replies import (
    DONE,
    Call,
    Reply,
    ScriptItem,
    Wire,
    by_step,
    call,
    calls,
    chunks,
    completion,
    exhausted,
    first,
    refuse,
    resolve,
    say,
    with_ids,
)
from tests.support.wire_rules import Refused, Rules, check_request, parse_body

__all__ = [
    "Call",
    "ModelServer",
    "Recorded",
    "Reply",
    "Rules",
    "Wire",
    "by_step",
    "call",
    "calls",
    "first",
    "refuse",
    "say",
]

log = logging.getLogger(__name__)

Script = Sequence[ScriptItem] | Callable[[Any], Reply]
MAX_HEAD = 256 * 1024


class ModelServer:
    """See the module's text. `models` empty = any model name; `api_key` None = no key is asked for.

    `forms` are addresses beside chat completions, such as `/v1/messages`.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        rules: Rules = Rules(),  # noqa: B008 - frozen
        api_key: str | None = None,
        models: Sequence[str] = (),
        port: int = 0,
        on_request: Callable[[Recorded], None] | None = None,
        forms: Mapping[str, Form] | None = None,
    ) -> None:
        self.script = script
        self.requests: list[Recorded] = []
        """Every chat request, refused or not, in order of arrival."""
        self.refusals: list[str] = []
        self.documents: dict[str, Any] = {}
        """What GET requests are answered with, as JSON, by their paths."""
        self.looked_up: list[str] = []
        """The paths of GET requests, in order of arrival."""
        self.connections = 0
        """Connections accepted so far."""
        self._forms: dict[str, Form] = {"/v1/chat/completions": ChatForm(rules), **(forms or {})}
        self._api_key = api_key
        self._models = tuple(models)
        self._port = port
        self._on_request = on_request
        self._answered = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", self._port, limit=MAX_HEAD, start_serving=True
        )
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)
            await self._server.wait_closed()
            self._server = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raw_socket = writer.get_extra_info("socket")
        raw_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request: Recorded | None = None
        try:
            while (request := await _read_request(reader)) is not None:
                if not await Delivery(reader, writer, request).send(*self._answer(request)):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            if request is not None:
                request.hung_up.set()
        finally:
            writer.close()
            try:
                await writer.wait_closed()
            except ConnectionError:
                pass

    def _answer(self, request: Recorded) -> tuple[Reply, bytes]:
        """The reply to a request and its body."""
        if request.method == "GET":
            self.looked_up.append(request.path)
        if self._api_key is not None and not _has_key(request, self._api_key):
            reply = refuse(401, "Incorrect API key provided: sk-wro*****ong.", code="invalid_api_key")
        elif request.method == "GET" and request.path in self.documents:
            body = json.dumps(self.documents[request.path]).encode()
            return Reply(content_type="application/json"), body
        elif request.method == "GET" and request.path == "/v1/models":
            aliases = [] if self._models else ["scripted"]
            data = [
                {"id": name, "object": "model", "owned_by": "tests", "aliases": aliases}
                for name in self._models or ("test-model",)
            ]
            return Reply(content_type="application/json"), json.dumps(
                {"object": "list", "data": data}
            ).encode()
        elif request.method == "POST" and (form := self._forms.get(request.path)) is not None:
            return self._reply(request, form)
        else:
            reply = refuse(404, f"Invalid URL ({request.method} {request.path})")
        return reply, reply.body or b""

    def _reply(self, request: Recorded, form: Form) -> tuple[Reply, bytes]:
        self.requests.append(request)
        try:
            if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                raise Refused("Unsupported content type; use 'application/json'.")
            request.body = parse_body(request.raw)
            form.check(request)
        except Refused as refused:
            self.refusals.append(refused.message)
            body = json.dumps(form.refusal(refused)).encode()
            reply = Reply(status=400, content_type="application/json", body=body)
        else:
            try:
                reply = self._scripted(request)
                body = form.body(reply, request) if reply.body is None else reply.body
            except Exception as error:
                log.exception("the script failed")
                self.refusals.append(f"The script failed: {error!r}")
                reply = refuse(400, self.refusals[-1], kind="script", code="script_failed")
                body = reply.body or b""
        if self._on_request is not None:
            self._on_request(request)
        return reply, body

    def _scripted(self, request: Recorded) -> Reply:
        model = request.body["model"]
        if self._models and model not in self._models:
            message = f"The model `{model}` does not exist or you do not have access to it."
            return refuse(404, message, code="model_not_found")
        if callable(self.script):
            return self.script(request)
        if self._answered >= len(self.script):
            return exhausted(self._answered)
        self._answered += 1
        return resolve(self.script[self._answered - 1], request)


async def _read_request(reader: asyncio.StreamReader) -> Recorded | None:
    """The next request on a connection, or None when the client is done with it or speaks no HTTP."""
    try:
        start = await reader.readexactly(1)
        if not start.isalpha():
            return None
        head = start + await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first_line, *lines = head.decode("latin-1").split("\r\n")
    method, target, _version = first_line.split(" ", 2)
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    raw = bytearray()
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await reader.readline()).split(b";")[0], 16):
            raw += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    else:
        raw += await reader.readexactly(int(headers.get("content-length", "0")))
    path, _, query = target.partition("?")
    return Recorded(method, path, headers, bytes(raw), query=query)


def _has_key(request: Recorded, key: str) -> bool:
    bearer, plain = request.headers.get("authorization"), request.headers.get("x-api-key")
    return (bearer, plain) in ((f"Bearer {key}", None), (None, key))


class Form(Protocol):
    """What a server takes and gives at one address."""

    def check(self, request: Recorded) -> None:
        """Raises `Refused` for a request that a real provider would refuse."""
        ...

    def refusal(self, refused: Refused) -> dict[str, Any]:
        """The error as this provider words it."""
        ...

    def body(self, reply: Reply, request: Recorded) -> bytes:
        """The reply on the wire."""
        ...


class ChatForm:
    """Chat completions."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def check(self, request: Recorded) -> None:
        check_request(request.body, self._rules)

    def refusal(self, refused: Refused) -> dict[str, Any]:
        return refused.body()

    def body(self, reply: Reply, request: Recorded) -> bytes:
        return _chat_body(reply, request)


def _chat_body(reply: Reply, request: Recorded) -> bytes:
    """The bytes after the headers."""
    body = request.body
    reply = with_ids(reply, body["messages"])
    if not body.get("stream") or not reply.stream:
        return json.dumps(completion(reply, body["model"], len(request.raw)), ensure_ascii=False).encode()
    include_usage = bool((body.get("stream_options") or {}).get("include_usage"))
    events = chunks(reply, body["model"], len(request.raw), include_usage)
    encoded = b"".join(map(reply.wire.encode, events))
    if reply.wire.open_end:
        encoded = encoded.rstrip(b"\r\n")
    return b"\xef\xbb\xbf" + encoded if reply.wire.bom else encoded


def _load_script(path: Path) -> dict[str, Any]:
    import tests.support.faults as faults
    import tests.support.model_server as exported

    names = {name: getattr(exported, name) for name in __all__}
    return runpy.run_path(str(path), init_globals={**names, "FAULTS": faults.FAULTS, "DONE": DONE})


async def _run(options: argparse.Namespace) -> None:
    loaded = _load_script(options.script)
    record = options.record.open("a", encoding="utf-8") if options.record else None

    def note(request: Recorded) -> None:
        if record is not None:
            refused = server.refusals[-1] if len(server.refusals) > known["refusals"] else None
            known["refusals"] = len(server.refusals)
            record.write(json.dumps({"body": request.body, "refused": refused}) + "\n")
            record.flush()

    known = {"refusals": 0}
    server = ModelServer(
        loaded["script"],
        rules=loaded.get("rules", Rules()),
        api_key=options.api_key,
        port=options.port,
        on_request=note,
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    parent = os.getppid()
    async with server:
        print(server.base_url, flush=True)
        while not stop.is_set() and os.getppid() == parent:
            try:
                await asyncio.wait_for(stop.wait(), 0.5)
            except TimeoutError:
                continue
    if record is not None:
        record.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve scripted chat completions; prints its base URL.")
    parser.add_argument("--script", type=Path, required=True, help="Python file that defines `script`")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--api-key", default=None)
    parser.add_argument("--record", type=Path, default=None, help="file that gets one JSON line per request")
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()

"""A loopback server that speaks to all programs at once and writes down what came when.

The first part of an address names the program, whose shell tool the answers then call:
`http://127.0.0.1:PORT/codex/v1/responses`. Runs as a process of its own, so that it never waits for the one
that measures:

    python -m benchmarks.peers.server FOLDER

prints its port. FOLDER gets `requests.jsonl`, and the body of each request without a play.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import sys
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.peers.catalogue import read_peers
from benchmarks.peers.wire import PLAY, Answer, Ask, events, plan, read_ask, whole

FORMS = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages"}


class Server(ThreadingHTTPServer):
    """Answers by script; one line of `requests.jsonl` for each request and each answer."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.shells = {peer.name: peer.shell for peer in read_peers()}
        self.numbers = itertools.count(1)
        self._log = (folder / "requests.jsonl").open("a", encoding="utf-8")
        self._lock = threading.Lock()

    def note(self, **what: Any) -> None:
        with self._lock:
            self._log.write(json.dumps(what) + "\n")
            self._log.flush()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A program that was killed in the middle of an answer is what some rows are about."""


class Handler(BaseHTTPRequestHandler):
    """One connection of a program."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the log of requests has it all."""

    def do_HEAD(self) -> None:
        self._json({})

    def do_GET(self) -> None:
        model = {
            "id": "test-model",
            "object": "model",
            "owned_by": "tests",
            "type": "model",
            "display_name": "Test",
        }
        models = {"object": "list", "data": [model], "models": [], "has_more": False}
        if self.path.partition("?")[0].endswith("/models"):
            self._json(models)
        else:
            self._json({"error": {"message": f"nothing at {self.path}"}}, 404)

    def do_POST(self) -> None:
        arrived = time.monotonic()
        raw = self._body()
        path, _, _query = self.path.partition("?")
        form, stream = read_path(path)
        if path.endswith(("count_tokens", ":countTokens")):
            self._json({"input_tokens": len(raw) // 4, "totalTokens": len(raw) // 4})
        elif not form:
            self._json({"error": {"message": f"nothing at {path}"}}, 404)
        else:
            try:
                body = json.loads(raw)
                ask = read_ask(form, body, stream=stream)
            except (ValueError, KeyError, TypeError) as error:
                self._json({"error": {"message": f"not a request of this form: {error!r}"}}, 400)
            else:
                self._play(arrived, path.split("/")[1], ask, str(body.get("model", "test-model")), raw)

    def _play(self, arrived: float, peer: str, ask: Ask, model: str, raw: bytes) -> None:
        """Answer by script, and write down when the request came and when its answer had left."""
        answer = replace(plan(ask, self.server.shells[peer]), read=len(raw) // 4)
        number = next(self.server.numbers)
        more = {"file": f"hi-{number}.json"} if not PLAY.search(ask.text) else {}
        for name in more.values():
            (self.server.folder / name).write_bytes(raw)
        self.server.note(
            kind="request",
            number=number,
            peer=peer,
            at=arrived,
            bytes=len(raw),
            form=ask.form,
            tools=ask.tools,
            results=ask.results,
            text=ask.text[-2000:],
            **more,
        )
        last = time.monotonic()
        if ask.stream:
            last = self._stream(ask, model, answer, number)
        else:
            self._send(whole(ask, model, answer, number), "application/json")
        self.server.note(kind="answer", number=number, peer=peer, last=last, at=time.monotonic())

    def _stream(self, ask: Ask, model: str, answer: Answer, number: int) -> float:
        """Send the events; the moment the last piece of text left."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        last = began = time.monotonic()
        sent = 0
        for event in events(ask, model, answer, number):
            if event.paced:
                if answer.rate and (wait := began + sent / answer.rate - time.monotonic()) > 0:
                    time.sleep(wait)
                sent += 1
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event.data), event.data))
            if event.paced or answer.call:
                last = time.monotonic()
        self.wfile.write(b"0\r\n\r\n")
        return last

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            parts: list[bytes] = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            raw = b"".join(parts)
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(raw) if self.headers.get("Content-Encoding") == "gzip" else raw

    def _json(self, value: Any, status: int = 200) -> None:
        self._send(json.dumps(value).encode(), "application/json", status)

    def _send(self, data: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def read_path(path: str) -> tuple[str, bool | None]:
    """The form of an address (empty: unknown), and whether it means a stream, if the address says so."""
    if path.endswith(":streamGenerateContent"):
        return "gemini", True
    if path.endswith(":generateContent"):
        return "gemini", False
    return next((form for end, form in FORMS.items() if path.endswith(end)), ""), None


def main() -> None:
    server = Server(Path(sys.argv[1]))
    parent = os.getppid()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    while os.getppid() == parent:
        time.sleep(0.5)


if __name__ == "__main__":
    main()

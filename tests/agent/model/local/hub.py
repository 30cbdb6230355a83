"""A small model hub on loopback: serves one file with ranges, and can misbehave."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Hub:
    content: bytes
    ranges: bool = True
    status: int = 0
    """Answer everything with this status, if set."""
    cuts: list[int] = field(default_factory=list)
    """How many bytes each of the next answers delivers before the connection breaks."""
    asked: list[str] = field(default_factory=list)
    """The Range headers of the requests so far, and their paths."""
    stall_after: int = 0
    """Bytes after which an answer waits until `released`, if set."""
    released: threading.Event = field(default_factory=threading.Event)
    base: str = ""


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            wanted = self.headers.get("Range", "")
            hub.asked.append(f"{wanted} {self.path}".strip())
            if hub.status:
                self.send_error(hub.status)
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and hub.ranges else 0
            body = hub.content[start:]
            self.send_response(206 if start else 200)
            if start:
                total = len(hub.content)
                self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if hub.cuts:
                self.wfile.write(body[: hub.cuts.pop(0)])
                self.wfile.flush()
                self.connection.close()
                self.close_connection = True
                return
            if hub.stall_after:
                self.wfile.write(body[: hub.stall_after])
                hub.released.wait(60)
                body = body[hub.stall_after :]
            with suppress(OSError):  # the other side may have left
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    hub.base = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        hub.released.set()
        server.shutdown()
        thread.join()
        server.server_close()

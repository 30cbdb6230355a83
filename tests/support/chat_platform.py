"""What tests ask of a server that stands for a messenger: what people do there, and what they see."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

OWNER = "1111111"
STRANGER = "2222222"
PATIENCE = 30.0


@dataclass
class ShownMessage:
    """A message of ours as people see it there."""

    id: str
    chat: str
    text: str
    buttons: list[tuple[str, str]] = field(default_factory=list)
    """Label and value."""
    versions: list[str] = field(default_factory=list)
    """Every text it had, the first one first."""
    file: bytes = b""
    form: dict[str, Any] = field(default_factory=dict)


class LocalPlatform:
    """What platforms on loopback have in common unless they say otherwise."""

    name = ""
    owner = ""
    stranger = ""
    edits = True
    types = True
    """Whether a sign of typing is seen there."""
    connects = True
    """Whether it is heard over a lasting connection, not by calls of the platform."""

    def chat(self, person: str) -> str:
        """Where a person is spoken to alone."""
        return person

    def choose(self, message: ShownMessage, label: str, sender: str = "") -> None:
        """Take a choice under a message: its button, or its number where there are none."""
        mine: Any = self
        if message.buttons:
            mine.press(message, label, sender or self.owner)
            return
        line = next(each for each in message.text.split("\n") if each.endswith(f". {label}"))
        mine.write(line.split(".")[0], sender or self.owner)

    @property
    def unconfirmed(self) -> int:
        """What people did and nobody has confirmed."""
        return 0


def until(condition: Callable[[], Any], what: str = "it", patience: float = PATIENCE) -> Any:
    """The first true value of a condition."""
    end = time.monotonic() + patience
    while True:
        if found := condition():
            return found
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.02)


class LoopbackServer:
    """An HTTP server in threads of its own; `answer` is called for each request."""

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler, bytes], None], port: int = 0) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length)
                if len(body) < length:
                    # Whoever sent it was killed over it.
                    self.close_connection = True
                    return
                try:
                    answer(self, body)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - as the library asks

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                """Programs that are killed reset their connections."""

        self._server = Server(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def reply(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    """Answer a request."""
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)

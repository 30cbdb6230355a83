"""A model's server in a thread of the measuring process, so that only the program measured is timed."""

from __future__ import annotations

import socket
import threading
import time
from abc import ABC, abstractmethod

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b"


class ModelListener(ABC):
    """Takes requests on loopback. What it answers to a chat is for a subclass to say."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self.left = 0.0
        """When the last answer was sent, as `time.monotonic` tells it."""
        threading.Thread(target=self._listen, daemon=True).start()

    @abstractmethod
    def answer(self, arrived: float, asked: bytes) -> bytes:
        """Return the stream that answers a chat, whose request began to arrive at `arrived`."""

    def _listen(self) -> None:
        while True:
            threading.Thread(target=self._serve, args=(self._socket.accept()[0],), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            while line := lines.readline():
                arrived, length = time.monotonic(), 0
                while (header := lines.readline().strip().lower()) != b"":
                    if header.startswith(b"content-length:"):
                        length = int(header.partition(b":")[2])
                asked = lines.read(length)
                kind, body = b"application/json", b'{"object": "list", "data": []}'
                if line.startswith(b"POST"):
                    kind, body = b"text/event-stream", self.answer(arrived, asked)
                connection.sendall(_HEAD % (kind, len(body), body))
                self.left = time.monotonic()

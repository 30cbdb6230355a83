"""`hermes serve` as a real process, with devices paired over its own doors."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Self
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from tests.support import command

PATIENCE = 30.0


class Service:
    """A service in a home of its own; `start` and `kill` may follow each other."""

    def __init__(self, home: Path, base_url: str, *options: str, **environ: str) -> None:
        self.home = home
        self.env = command.environment(home, base_url, **environ)
        self.options = options
        self.url = ""
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, port: int = 0) -> None:
        """Start it and wait for its ready line."""
        arguments = [*command.HERMES, "serve", "--json", "--port", str(port), *self.options]
        here = self.home.parent / "here"
        here.mkdir(exist_ok=True)
        self._process = subprocess.Popen(arguments, env=self.env, cwd=here, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the service did not start; its error is above"
        self.url = json.loads(line)["url"]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def kill(self) -> None:
        """End it the hard way."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in order."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self._process is not None:
            os.kill(self._process.pid, number)
            self._process.wait(PATIENCE)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def code(self, scope: str, name: str = "") -> str:
        """A pairing code, as `hermes serve pair` makes one."""
        from app.service.credentials import Credentials

        return Credentials(self.home / "serve").make_code(scope, name)[0]  # type: ignore[arg-type]

    def device(self, scope: str, name: str = "test") -> Head:
        """A device that was paired."""
        _, told = call(f"{self.url}/api/pair", {"code": self.code(scope), "name": name})
        return Head(self, told["token"], told["device"])


class Head:
    """A program with a token."""

    def __init__(self, service: Service, token: str, device: str) -> None:
        self.service = service
        self.token = token
        self.device = device

    def get(self, path: str) -> tuple[int, Any]:
        """Status and answer."""
        return call(self.service.url + path, token=self.token)

    def post(self, path: str, data: Any = None) -> tuple[int, Any]:
        """Status and answer."""
        return call(self.service.url + path, {} if data is None else data, self.token)

    def session(self, workspace: Path) -> str:
        """A new session."""
        status, told = self.post("/api/sessions", {"workspace": str(workspace)})
        assert status == 201, told
        return told["session"]

    def say(self, session: str, text: str, how: str = "prompt") -> None:
        """Send a message."""
        status, told = self.post(f"/api/sessions/{session}/messages", {"text": text, "how": how})
        assert status == 202, told

    def events(self, session: str, after: int = 0, wait: int = 0) -> list[dict[str, Any]]:
        """The events behind a number."""
        status, told = self.get(f"/api/sessions/{session}/events?after={after}&wait={wait}")
        assert status == 200, told
        return told["events"]

    def until(self, session: str, kind: str, after: int = 0, count: int = 1) -> list[dict[str, Any]]:
        """The events behind a number, up to the first (or `count`th) of a kind."""
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for event in self.events(session, found[-1]["seq"] if found else after, wait=5):
                found.append(event)
                count -= event["type"] == kind
                if not count:
                    return found
        raise AssertionError(f"no {kind} came; there was {[each['type'] for each in found]}")


def call(url: str, data: Any = None, token: str = "") -> tuple[int, Any]:
    """A request as JSON; status and answer."""
    headers = {"Content-Type": "application/json"} if data is not None else {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    body = None if data is None else json.dumps(data).encode()
    try:
        with urlopen(Request(url, body, headers), timeout=PATIENCE) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def raw(port: int, data: bytes, *, most: int = 65_536) -> bytes:
    """What comes back for these bytes, up to the end or as long as something comes."""
    with socket.create_connection(("127.0.0.1", port), timeout=15) as connection:
        try:
            connection.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        found = b""
        try:
            while len(found) < most and (piece := connection.recv(65_536)):
                found += piece
                if b"\r\n\r\n" in found and _is_whole(found):
                    break
        except (TimeoutError, ConnectionResetError):
            pass
        return found


def _is_whole(answer: bytes) -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return len(body) >= int(value)
    return head.startswith(b"HTTP/1.1 101")


def status(answer: bytes) -> int:
    """The status of an answer; 0 where the connection was closed without one."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 0

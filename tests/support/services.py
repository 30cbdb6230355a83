"""Services that draw, speak, listen, and reach homes and people, on loopback, as their docs say.

The forms are those of platform.openai.com/docs/api-reference (images, audio), docs.fal.ai (synchronous
requests), elevenlabs.io/docs/api-reference (text-to-speech), developers.home-assistant.io/docs/api/rest and
docs.ntfy.sh/publish (JSON). A request that they would refuse is refused.
"""

from __future__ import annotations

import base64
import json
import threading
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.support.images import png

KEYS = {
    "openai": "sk-test-openai-000",
    "fal": "fal-test-000",
    "eleven": "el-test-000",
    "home": "hass-test-000",
}
MP3 = b"ID3\x04\0\0\0\0\0\0" + b"\0" * 64
SIZES = {"1024x1024", "1536x1024", "1024x1536", "auto"}
STATES = [
    {
        "entity_id": "light.kitchen",
        "state": "off",
        "attributes": {"friendly_name": "Kitchen"},
        "last_changed": "x",
    },
    {
        "entity_id": "sensor.out",
        "state": "7.5",
        "attributes": {"unit_of_measurement": "°C"},
        "last_changed": "x",
    },
]


@dataclass
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    form: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class RefusedRequestError(Exception):
    """What a service answers to a wrong request."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Services:
    """All of them behind one address; `asked` are the requests in order."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.broken: dict[str, tuple[int, bytes]] = {}
        """By path: status and body of an answer that is given instead."""
        services = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(size)
                path = self.path.partition("?")[0]
                asked = Asked(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                services.asked.append(asked)
                try:
                    if path in services.broken:
                        status, data = services.broken[path]
                        kind = "application/json"
                    else:
                        status, (kind, data) = 200, services._answer(asked, path)
                except RefusedRequestError as error:
                    status, kind = error.status, "application/json"
                    data = json.dumps({"error": {"message": str(error)}}).encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self) -> None:
                self.answer()

            def do_POST(self) -> None:
                self.answer()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_given: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def _answer(self, asked: Asked, path: str) -> tuple[str, bytes]:
        key = asked.headers.get("authorization", "")
        if path.startswith("/v1/text-to-speech/"):
            _need(asked.headers.get("xi-api-key") == KEYS["eleven"], 401, "Invalid API key")
            _need({"text", "model_id"} <= asked.json.keys(), 422, "Field required")
            return "audio/mpeg", MP3
        if path.startswith("/v1/"):
            _need(key == f"Bearer {KEYS['openai']}", 401, "Incorrect API key provided.")
            return self._openai(asked, path)
        if path.startswith("/fal-ai/"):
            _need(key == f"Key {KEYS['fal']}", 401, "Cannot access application")
            _need(
                asked.json["image_size"] in ("square_hd", "landscape_4_3", "portrait_4_3"), 422, "image_size"
            )
            url = "data:image/png;base64," + base64.b64encode(png(8, 8)).decode()
            return _json(
                {"images": [{"url": url, "width": 8, "height": 8}], "seed": asked.json.get("seed", 7)}
            )
        if path.startswith("/api/"):
            _need(key == f"Bearer {KEYS['home']}", 401, "401: Unauthorized")
            return self._home(asked, path)
        if path == "/" and asked.method == "POST":
            _need(
                set(asked.json) <= {"topic", "message", "title"} and asked.json["topic"],
                400,
                "invalid request",
            )
            return _json({"id": "m1", "event": "message", "topic": asked.json["topic"]})
        if path == "/hook":
            _need(isinstance(asked.json, dict), 400, "no object")
            return "text/plain", b"ok"
        if path == "/picture.png":
            return "image/png", png(6, 6)
        raise RefusedRequestError(404, "Not Found")

    def _openai(self, asked: Asked, path: str) -> tuple[str, bytes]:
        if path == "/v1/images/generations":
            wanted = asked.json
            _need(wanted["prompt"] != "refuse me", 400, "Your request was rejected by the safety system.")
            _need(wanted["size"] in SIZES and wanted["n"] == 1, 400, "Invalid size")
            packed = base64.b64encode(png(8, 8)).decode()
            return _json({"created": 1, "data": [{"b64_json": packed}]})
        if path == "/v1/audio/speech":
            wanted = asked.json
            _need(
                {"model", "input", "voice"} <= wanted.keys() and len(wanted["input"]) <= 4096, 400, "Invalid"
            )
            return "audio/mpeg", MP3
        asked.form = _form(asked)
        if path == "/v1/images/edits":
            _need({"model", "prompt", "image[]"} <= asked.form.keys(), 400, "Missing image")
            return _json({"created": 1, "data": [{"b64_json": base64.b64encode(png(9, 9)).decode()}]})
        if path == "/v1/audio/transcriptions":
            _need({"model", "file"} <= asked.form.keys(), 400, "Missing file")
            return _json({"text": "Hello \x1b[31mthere."})
        raise RefusedRequestError(404, "Not Found")

    def _home(self, asked: Asked, path: str) -> tuple[str, bytes]:
        if path == "/api/states":
            return _json(STATES)
        if path.startswith("/api/states/"):
            found = [each for each in STATES if each["entity_id"] == path.rpartition("/")[2]]
            _need(bool(found), 404, "Entity not found.")
            return _json(found[0])
        if path == "/api/services":
            return _json([{"domain": "light", "services": {"turn_on": {}, "turn_off": {}}}])
        _need(asked.method == "POST" and path == "/api/services/light/turn_on", 400, "400: Bad Request")
        return _json([{**STATES[0], "state": "on"}])


def _need(holds: bool, status: int, words: str) -> None:
    if not holds:
        raise RefusedRequestError(status, words)


def _json(data: Any) -> tuple[str, bytes]:
    return "application/json", json.dumps(data).encode()


def _form(asked: Asked) -> dict[str, list[tuple[str, bytes]]]:
    head = f"Content-Type: {asked.headers['content-type']}\r\n\r\n".encode()
    parts: dict[str, list[tuple[str, bytes]]] = {}
    for part in BytesParser(policy=HTTP).parsebytes(head + asked.body).iter_parts():
        data = part.get_payload(decode=True)
        name = str(part.get_param("name", header="content-disposition"))
        parts.setdefault(name, []).append(
            (part.get_filename() or "", data if isinstance(data, bytes) else b"")
        )
    return parts

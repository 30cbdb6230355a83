"""The other side of the generic webhook, as docs/gateway.md describes it: it signs, and checks signatures."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

from tests.support.chat_platform import OWNER, STRANGER, LocalPlatform, LoopbackServer, ShownMessage, reply

SECRET = "a-secret-of-both-sides"


class WebhookServer(LocalPlatform):
    """Where answers go, and what is sent to the service; one that is down is tried again."""

    name, owner, stranger = "webhook", OWNER, STRANGER
    types = connects = False

    def __init__(self) -> None:
        self.shown: list[ShownMessage] = []
        self.refusals: list[str] = []
        self.actions: list[str] = ["none"]
        self.target = ""
        """Address of the service, once it runs."""
        self._keys: dict[str, str] = {}
        self._number = 0
        self._last: dict[str, Any] = {}
        self._limited = (0, 0)
        self._lock = threading.Lock()
        self._server = LoopbackServer(self._answer)

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__()

    def settings(self) -> dict[str, Any]:
        return {"enabled": True, "api_url": self._server.url + "/answers", "approve": [OWNER]}

    def secrets(self) -> dict[str, str]:
        return {"HERMES_WEBHOOK_SECRET": SECRET}

    def write(self, text: str, sender: str = OWNER, chat: str = "", **more: Any) -> str:
        self._number += 1
        id = f"m{self._number}"
        self._last = {
            "id": id,
            "chat": chat or sender,
            "from": {"id": sender, "name": "Test"},
            "text": text,
            **more,
        }
        self._bring(self._last)
        return id

    def photo(self, data: bytes, caption: str = "", sender: str = OWNER) -> str:
        return self._file(data, "image.png", "image", caption, sender)

    def voice(self, data: bytes, sender: str = OWNER) -> str:
        return self._file(data, "voice.ogg", "voice", "", sender)

    def document(self, data: bytes, name: str, sender: str = OWNER) -> str:
        return self._file(data, name, "file", "", sender)

    def _file(self, data: bytes, name: str, kind: str, text: str, sender: str) -> str:
        file = {"name": name, "kind": kind, "data": base64.b64encode(data).decode()}
        return self.write(text, sender, files=[file])

    def change(self, id: str, text: str, sender: str = OWNER) -> None:
        self._bring({"type": "edited", "id": id, "chat": sender, "from": {"id": sender}, "text": text})

    def press(self, message: ShownMessage, label: str, sender: str = OWNER) -> None:
        value = next(value for name, value in message.buttons if name == label)
        self._number += 1
        self._bring({"type": "button", "id": f"b{self._number}", "chat": message.chat, "from": {"id": sender},
                     "button": value, "message": message.id})  # fmt: skip

    def again(self) -> None:
        self._bring(self._last)

    def limit(self, count: int, seconds: int) -> None:
        self._limited = (count, seconds)

    def cut(self, count: int) -> None:
        """There is no lasting connection."""

    def post(self, data: Any, *, at: float | None = None, secret: str = SECRET) -> int:
        """Send a signed request; its status."""
        body = json.dumps(data).encode()
        stamp = str(int(time.time() if at is None else at))
        request = urllib.request.Request(f"{self.target}/gateways/webhook", body, method="POST")
        request.add_header("X-Hermes-Timestamp", stamp)
        request.add_header("X-Hermes-Signature", _signed(secret, stamp, body))
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code

    def _bring(self, data: Any) -> None:
        end = time.monotonic() + 30
        while True:
            try:
                if self.post(data) == 202:
                    return
            except OSError:
                pass
            assert time.monotonic() < end, "the service does not take it"
            time.sleep(0.05)

    def _answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        stamp = handler.headers.get("X-Hermes-Timestamp", "")
        if handler.headers.get("X-Hermes-Signature") != _signed(SECRET, stamp, body):
            self.refusals.append("the signature is wrong")
            reply(handler, 401, b"")
            return
        count, seconds = self._limited
        if count:
            self._limited = (count - 1, seconds)
            reply(handler, 429, b"", Retry_After=str(seconds))
            return
        data = json.loads(body)
        with self._lock:
            id = self._keys.get(data["key"])
            if id is None:
                id = self._keys[data["key"]] = f"h{len(self._keys) + 1}"
                self._show(id, data)
        reply(handler, 200, json.dumps({"id": id}).encode())

    def _show(self, id: str, data: dict[str, Any]) -> None:
        buttons = [(each["label"], each["value"]) for each in data.get("buttons", ())]
        if data["type"] == "edit":
            found = next((each for each in self.shown if each.id == data["message"]), None)
            if found is None:
                self.refusals.append("an edit of nothing")
                return
            found.text, found.buttons = data["text"], buttons
            found.versions.append(data["text"])
            return
        file = base64.b64decode(data["file"]["data"]) if "file" in data else b""
        self.shown.append(ShownMessage(id, data["chat"], data["text"], buttons, [data["text"]], file, data))


def _signed(secret: str, stamp: str, body: bytes) -> str:
    return "sha256=" + hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()

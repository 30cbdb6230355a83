"""A strict stand-in for `signal-cli daemon --http`: envelopes and answers as its documentation shows
them (https://github.com/AsamK/signal-cli/blob/master/man/signal-cli-jsonrpc.5.adoc).
"""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

from tests.support.chat_platform import OWNER, STRANGER, LocalPlatform, LoopbackServer, ShownMessage, reply

ACCOUNT, ACI = "+33111111111", "11111111-1111-4111-8111-111111111111"
_METHODS: dict[str, set[str]] = {
    "listAccounts": set(),
    "send": {"account", "recipient", "groupId", "message", "attachments", "editTimestamp"},
    "sendTyping": {"account", "recipient", "groupId", "stop"},
    "getAttachment": {"account", "id", "recipient", "groupId"},
}


class _RpcError(Exception):
    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.body = {"code": code, "message": message, "data": data}


class SignalServer(LocalPlatform):
    """The daemon and what people do."""

    name, owner, stranger = "signal", OWNER, STRANGER

    def __init__(self) -> None:
        self.shown: list[ShownMessage] = []
        self.refusals: list[str] = []
        self.actions: list[str] = []
        self.files: dict[str, bytes] = {}
        self.connections = 0
        self.asked_for_accounts = threading.Event()
        self.hold_accounts = threading.Event()
        """While it is not set, nobody is told the accounts."""
        self.hold_accounts.set()
        self.single = False
        """Whether the daemon was started with one account (`-a`), so that it has no list of them."""
        self.failure = ""
        """The type of failure with which the next message is refused."""
        self._events: list[dict[str, Any]] = []
        self._kept: list[tuple[int, dict[str, Any]]] = []
        self._number = 0
        self._last: dict[str, Any] = {}
        self._time = 1_631_458_508_784
        self._limited = (0, 0)
        self._cut = 0
        self._changed = threading.Condition()
        self._server = LoopbackServer(self._answer)

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__()

    def settings(self) -> dict[str, Any]:
        return {"enabled": True, "api_url": self._server.url, "approve": [OWNER]}

    def secrets(self) -> dict[str, str]:
        return {}

    # What people do

    def write(self, text: str, sender: str = OWNER, chat: str = "", **more: Any) -> str:
        """A message; its time, which names it. `group` is the id of a group."""
        group = more.pop("group", "")
        at = self._next()
        message = {
            "timestamp": at,
            "message": text or None,
            "expiresInSeconds": 0,
            "viewOnce": False,
            "mentions": [],
            "attachments": [],
            "contacts": [],
            **({"groupInfo": {"groupId": group, "type": "DELIVER"}} if group else {}),
            **more,
        }
        self._bring(sender, at, {"dataMessage": message})
        return str(at)

    def photo(self, data: bytes, caption: str = "", sender: str = OWNER) -> str:
        """A picture."""
        self.files["image.png"] = data
        told = {"contentType": "image/png", "filename": "image.png", "id": "image.png", "size": len(data)}
        return self.write(caption, sender, attachments=[told])

    def voice(self, data: bytes, sender: str = OWNER) -> str:
        """A voice message."""
        self.files["rec.aac"] = data
        told = {"contentType": "audio/aac", "filename": None, "id": "rec.aac", "size": len(data)}
        return self.write("", sender, attachments=[told])

    def document(self, data: bytes, name: str, sender: str = OWNER) -> str:
        """A file."""
        self.files["file.pdf"] = data
        told = {"contentType": "application/pdf", "filename": name, "id": "file.pdf", "size": len(data)}
        return self.write("", sender, attachments=[told])

    def change(self, id: str, text: str, sender: str = OWNER) -> None:
        """An edit of a message."""
        at = self._next()
        message = {"timestamp": at, "message": text, "expiresInSeconds": 0, "viewOnce": False}
        self._bring(sender, at, {"editMessage": {"targetSentTimestamp": int(id), "dataMessage": message}})

    def again(self) -> None:
        """The last event once more."""
        with self._changed:
            self._events.append(self._last)
            self._changed.notify_all()

    def limit(self, count: int, seconds: int) -> None:
        """Refuse so many messages for a while."""
        self._limited = (count, seconds)

    def cut(self, count: int) -> None:
        """Break the stream of events off."""
        with self._changed:
            self._cut += count
            self._changed.notify_all()

    @property
    def unconfirmed(self) -> int:
        """Events that wait for somebody to connect."""
        return len(self._events)

    def bring(self, what: dict[str, Any], sender: str = OWNER) -> None:
        """An envelope with anything in it."""
        self._bring(sender, self._next(), what)

    def _bring(self, sender: str, at: int, what: dict[str, Any]) -> None:
        envelope = {
            "source": sender,
            "sourceNumber": None,
            "sourceUuid": sender,
            "sourceName": "Peter Parker",
            "sourceDevice": 1,
            "timestamp": at,
            "serverReceivedTimestamp": at,
            "serverDeliveredTimestamp": at,
            **what,
        }
        with self._changed:
            self._last = {"envelope": envelope, "account": ACCOUNT}
            self._events.append(self._last)
            self._changed.notify_all()

    def _next(self) -> int:
        self._time += 1
        return self._time

    # The daemon

    def _answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        if handler.path == "/api/v1/events" and handler.command == "GET":
            self._stream(handler)
            return
        if handler.path != "/api/v1/rpc" or handler.command != "POST":
            reply(handler, 404, b"")
            return
        asked = json.loads(body)
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked.get("id")}
        try:
            answer["result"] = self._call(asked["method"], asked.get("params") or {})
        except _RpcError as error:
            answer["error"] = error.body
            if error.body["code"] not in (-5, -32601) and error.body["data"] is None:
                self.refusals.append(str(error))
        reply(handler, 200, json.dumps(answer).encode())

    def _call(self, method: str, given: dict[str, Any]) -> Any:
        if method not in _METHODS:
            raise _RpcError(-32601, "Method not implemented")
        if unknown := set(given) - _METHODS[method]:
            raise _RpcError(-32602, f"Unrecognized field {unknown}")
        if method == "listAccounts":
            self.asked_for_accounts.set()
            if self.single:
                # src/main/java/org/asamk/signal/jsonrpc/SignalJsonRpcCommandHandler.java
                raise _RpcError(-32601, "Method not implemented")
            self.hold_accounts.wait(20)
            return [{"number": ACCOUNT, "aci": ACI}]
        if given.get("account") != ACCOUNT and not (self.single and "account" not in given):
            raise _RpcError(-32602, "Specified account does not exist")
        if method == "getAttachment":
            if given["id"] not in self.files:
                raise _RpcError(-1, "Could not find attachment with ID")
            return {"data": base64.b64encode(self.files[given["id"]]).decode()}
        to = given.get("groupId") or given.get("recipient")
        if not to or (given.get("recipient") is not None and not isinstance(given["recipient"], list)):
            raise _RpcError(-1, "No recipients given")
        if method == "sendTyping":
            self.actions.append("typing")
            return {}
        return self._send(given, given.get("groupId") or given["recipient"][0])

    def _send(self, given: dict[str, Any], chat: str) -> Any:
        address = {"recipientAddress": {"uuid": chat, "number": None, "username": None}}
        if self.failure:
            failed, self.failure = {**address, "type": self.failure}, ""
            raise _RpcError(-1, "Failed to send message", {"response": {"timestamp": 1, "results": [failed]}})
        count, seconds = self._limited
        if count:
            self._limited = (count - 1, seconds)
            failure = {**address, "type": "RATE_LIMIT_FAILURE", "token": "t", "retryAfterSeconds": seconds}
            told = {"response": {"timestamp": 1, "results": [failure]}}
            raise _RpcError(-5, "Failed to send message", told)
        text, at = given.get("message") or "", self._next()
        if not text and not given.get("attachments"):
            raise _RpcError(-1, "No message or attachment given")
        if len(text.encode("utf-16-le")) // 2 > 2_000:
            raise _RpcError(-1, "The message is too long")
        if (target := given.get("editTimestamp")) is not None:
            found = next((e for e in self.shown if e.id == str(target)), None)
            if found is None:
                raise _RpcError(-1, "There is no such message")
            found.text = text
            found.versions.append(text)
        else:
            file = b""
            for each in given.get("attachments") or ():
                assert each.startswith("data:"), "a path of another machine"
                file = base64.b64decode(each.partition("base64,")[2])
            self.shown.append(ShownMessage(str(at), chat, text, [], [text], file, given))
        return {"timestamp": at, "results": [{**address, "type": "SUCCESS"}]}

    def _stream(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.close_connection = True
        self.connections += 1
        me = self.connections
        if (last := handler.headers.get("Last-Event-ID")) is not None:
            # "A client that reconnects with a Last-Event-ID header first receives the events after that id.
            # If the id is unknown, all kept events are sent."
            known = [number for number, _ in self._kept if str(number) == last]
            for number, event in [each for each in self._kept if each[0] > (known or [0])[0]]:
                handler.wfile.write(_told(number, event))
            handler.wfile.flush()
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._events or self._cut or self.connections != me, timeout=0.5
                )
                if self._cut or self.connections != me:
                    self._cut = max(0, self._cut - 1)
                    return
                event = self._events.pop(0) if self._events else None
                if event is not None:
                    self._number += 1
                    self._kept = [*self._kept, (self._number, event)][-1_000:]
                number = self._number
            try:
                handler.wfile.write(b":\n\n" if event is None else _told(number, event))
                handler.wfile.flush()
            except OSError:
                return
            time.sleep(0)


def _told(number: int, event: dict[str, Any]) -> bytes:
    return f"event:receive\nid:{number}\ndata:{json.dumps(event)}\n\n".encode()

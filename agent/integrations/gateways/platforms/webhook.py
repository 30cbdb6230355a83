"""A webhook for any program: receives signed JSON at `/gateways/webhook`, sends signed JSON to `api_url`.

Both directions use the same headers. `X-Hermes-Timestamp` holds seconds since the epoch. `X-Hermes-Signature`
is `sha256=` and the hexadecimal HMAC-SHA256 of timestamp, a dot and the body, with the shared secret.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from agent.core.config.sections import WebhookSettings
from agent.integrations.gateways.adapter import (
    ODD,
    Adapter,
    CallAnswer,
    GatewayContext,
    GatewayKind,
    Incoming,
    IncomingFile,
    Outgoing,
    OutgoingFile,
    Place,
    PlatformCall,
    PlatformLimits,
    Secret,
    Sender,
    Take,
    UndeliverableError,
    json_call,
)

LIMITS = PlatformLimits(
    text=20_000,
    form="markdown",
    edits=True,
    buttons=10,
    send_file=10_000_000,
    fetch_file=1_000_000,
    keys=True,
)


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the value of the signature header. Pure."""
    made = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
    return "sha256=" + made.hexdigest()


class WebhookAdapter(Adapter):
    """A webhook that accepts signed, recent requests and sends answers to `api_url`, each with its key."""

    limits = LIMITS
    title = "The webhook"

    def __init__(self, context: GatewayContext) -> None:
        super().__init__(context)
        assert isinstance(context.settings, WebhookSettings)
        self._secret = context.secret("secret_env")
        self._window = context.settings.window
        self._url = context.settings.api_url

    async def run(self, take: Take, ready: Callable[[str], None]) -> None:
        import asyncio

        ready(self._url or "nowhere")
        await asyncio.Event().wait()

    async def hook(self, request: PlatformCall, take: Take) -> CallAnswer:
        timestamp = request.headers.get("x-hermes-timestamp", "")
        if request.method != "POST" or request.path:
            return CallAnswer(404)
        if not timestamp.isascii() or not timestamp.isdigit() or len(timestamp) > 12:
            return CallAnswer(401, b"X-Hermes-Timestamp is missing")
        given = request.headers.get("x-hermes-signature", "")
        wanted = signature(self._secret, timestamp, request.body)
        if not hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace")):
            return CallAnswer(401, b"the signature is wrong")
        if abs(time.time() - int(timestamp)) > self._window:
            return CallAnswer(401, b"the timestamp is outside the window")
        try:
            incoming = _read(json.loads(request.body))
        except ODD as error:
            return CallAnswer(400, f"not understood: {error}".encode()[:200])
        # A request that is replayed within the window has the same id, and is dropped as a duplicate.
        await take(incoming)
        return CallAnswer(202, b'{"ok": true}', "application/json")

    async def send(self, place: Place, message: Outgoing, key: str) -> str:
        return await self._post({"type": "message", **_where(place), **_message_fields(message)}, key)

    async def edit(self, place: Place, message_id: str, message: Outgoing) -> None:
        told = {"type": "edit", "message": message_id, **_where(place), **_message_fields(message)}
        await self._post(told, f"{message_id}-{time.time_ns()}")

    async def send_file(self, place: Place, file: OutgoingFile, key: str) -> str:
        import asyncio

        data = await asyncio.to_thread(file.path.read_bytes)
        told = {"name": file.name, "kind": file.kind, "data": base64.b64encode(data).decode()}
        return await self._post({"type": "file", **_where(place), "text": file.caption, "file": told}, key)

    async def fetch(self, file: IncomingFile, most: int) -> bytes:
        try:
            data = base64.b64decode(file.id, validate=True)
        except binascii.Error:
            raise UndeliverableError("The data of a file must be base64.") from None
        if len(data) > most:
            raise UndeliverableError(f"The file is larger than {most:,} bytes.")
        return data

    async def _post(self, body: Mapping[str, Any], key: str) -> str:
        if not self._url:
            raise UndeliverableError("gateways.webhook.api_url is empty, so nothing can be sent.")
        data = json.dumps({**body, "key": key}, ensure_ascii=False).encode()
        timestamp = str(int(time.time()))
        headers = {
            "X-Hermes-Timestamp": timestamp,
            "X-Hermes-Signature": signature(self._secret, timestamp, data),
            "Idempotency-Key": key,
        }
        answer = await json_call(self._http, "POST", self._url, "The webhook", raw=data, headers=headers)
        return str(answer["id"]) if isinstance(answer, Mapping) and answer.get("id") else key


def _read(data: Any) -> Incoming:
    """Return the message in a request body. Raises `ValueError`, `KeyError` and `TypeError`."""
    if not isinstance(data, dict):
        raise TypeError("an object is wanted")
    sender = data["from"]
    kind = data.get("type", "message")
    if kind not in ("message", "edited", "button"):
        raise ValueError("type is message, edited or button")
    return Incoming(
        id=_text(data, "id", 200),
        kind=kind,
        place=Place(_text(data, "chat", 200), _text(data, "thread", 200, "")),
        sender=Sender(_text(sender, "id", 200), _text(sender, "name", 200, "")),
        text=_text(data, "text", 100_000, ""),
        files=tuple(_file(each) for each in data.get("files", ())),
        group=data.get("group") is True,
        mentioned=data.get("mentioned", True) is True,
        button=_text(data, "button", 60, ""),
        message=_text(data, "message", 200, ""),
    )


def _file(data: Any) -> IncomingFile:
    kind = data.get("kind", "file")
    if kind not in ("image", "voice", "file"):
        raise ValueError("kind is image, voice or file")
    content = _text(data, "data", 1_400_000)
    return IncomingFile(content, _text(data, "name", 200), kind, _text(data, "media_type", 100, ""))


def _text(data: Any, name: str, most: int, default: str | None = None) -> str:
    value = data[name] if default is None else data.get(name, default)
    if not isinstance(value, str) or len(value) > most or (default is None and not value):
        raise ValueError(f"{name} is a text of at most {most} characters")
    return value


def _where(place: Place) -> dict[str, str]:
    return {"chat": place.chat, "thread": place.thread}


def _message_fields(message: Outgoing) -> dict[str, Any]:
    buttons = [{"label": each.label, "value": each.value} for each in message.buttons]
    return {"text": message.text, "buttons": buttons, "reply_to": message.reply_to, "quiet": message.quiet}


GATEWAY = GatewayKind(
    name="webhook",
    title="Webhook",
    make=WebhookAdapter,
    secrets=(
        Secret(
            field="secret_env",
            variable="HERMES_WEBHOOK_SECRET",
            asked="A secret of your own that both sides know",
        ),
    ),
    fields={"api_url": "Address that answers are sent to"},
)

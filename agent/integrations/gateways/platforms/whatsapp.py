"""WhatsApp through Meta's Cloud API: receives signed webhook requests, sends through the Graph API."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import mimetypes
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from agent.errors import ConfigError
from agent.integrations.gateways.adapter import (
    ANSWER,
    ODD,
    Adapter,
    BadCredentialsError,
    CallAnswer,
    GatewayContext,
    GatewayError,
    GatewayKind,
    Incoming,
    IncomingFile,
    Outgoing,
    OutgoingFile,
    Place,
    PlatformCall,
    PlatformLimits,
    RateLimitedError,
    Secret,
    Sender,
    Take,
    UndeliverableError,
    asked_pause,
    file_kind,
    reading,
    receive,
    require_host,
    status_sentence,
)
from agent.integrations.gateways.markup import translate_markdown

if TYPE_CHECKING:
    import httpx2

log = logging.getLogger(__name__)

API = "https://graph.facebook.com/v23.0"
TITLE = "WhatsApp"
LIMITS = PlatformLimits(text=4_096, form="whatsapp", buttons=3, send_file=16_000_000, fetch_file=16_000_000)
_TOO_MANY = frozenset({4, 80007, 130429, 131048, 131056})
_BAD_TOKEN = frozenset({0, 190})
_LATER = frozenset({1, 2, 131000, 131016, 131057, 133004})
_MEDIA = ("image", "audio", "voice", "document", "video", "sticker")


class WhatsAppAdapter(Adapter):
    """The connection of one telephone number."""

    limits = LIMITS
    title = TITLE

    def __init__(self, context: GatewayContext) -> None:
        super().__init__(context, API)
        self._phone = str(getattr(context.settings, "phone_id", ""))
        if not self._phone.isdigit():
            raise ConfigError("Set gateways.whatsapp.phone_id to the id of your number in the Cloud API.")
        self._token = context.secret("token_env")
        self._headers = {"Authorization": f"Bearer {self._token}"}
        self._secret = context.secret("secret_env").encode()
        self._verify = context.secret("verify_env")

    async def run(self, take: Take, ready: Callable[[str], None]) -> None:
        told = await self._call("GET", f"{self._phone}?fields=display_phone_number")
        ready(str(told.get("display_phone_number") or self._phone))
        # What comes in comes by `hook`.
        await asyncio.Event().wait()

    async def hook(self, request: PlatformCall, take: Take) -> CallAnswer:
        if request.method == "GET":
            word = request.query.get("hub.verify_token", "")
            if request.query.get("hub.mode") == "subscribe" and hmac.compare_digest(
                word.encode("utf-8", "replace"), self._verify.encode()
            ):
                return CallAnswer(200, request.query.get("hub.challenge", "")[:200].encode())
            return CallAnswer(403, b"the word is another one")
        if request.method != "POST":
            return CallAnswer(405, b"not in this way")
        wanted = "sha256=" + hmac.new(self._secret, request.body, hashlib.sha256).hexdigest()
        given = request.headers.get("x-hub-signature-256", "")
        if not hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace")):
            return CallAnswer(401, b"the signature is wrong")
        try:
            found = list(self._read(json.loads(request.body)))
        except ODD:
            # The platform would send it again and again.
            return CallAnswer(200, b"not understood")
        for each in found:
            await take(each)
        return CallAnswer(200)

    async def send(self, place: Place, message: Outgoing, key: str) -> str:
        text = translate_markdown(message.text, "whatsapp")
        body: dict[str, Any] = {"type": "text", "text": {"preview_url": False, "body": text}}
        # Text above buttons has at most 1,024 characters; a longer one goes first.
        if message.buttons and len(text) > 1_024:
            await self._message(place, body, message.reply_to)
            text = "…"
        if message.buttons:
            buttons = [
                {"type": "reply", "reply": {"id": each.value, "title": each.label[:20] or each.value[:20]}}
                for each in message.buttons[:3]
            ]
            interactive = {"type": "button", "body": {"text": text}, "action": {"buttons": buttons}}
            body = {"type": "interactive", "interactive": interactive}
        return await self._message(place, body, message.reply_to)

    async def send_file(self, place: Place, file: OutgoingFile, key: str) -> str:
        data = await asyncio.to_thread(file.path.read_bytes)
        media = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        request = self._http.build_request(
            "POST",
            f"{self._base}/{self._phone}/media",
            headers=self._headers,
            data={"messaging_product": "whatsapp", "type": media},
            files={"file": (file.name, data, media)},
        )
        told = await self._request(request)
        kind = {"image": "image", "voice": "audio", "file": "document"}[file.kind]
        with reading(TITLE):
            content: dict[str, Any] = {"id": str(told["id"])}
        if file.caption and kind != "audio":
            content["caption"] = translate_markdown(file.caption, "whatsapp")[:1_024]
        if kind == "document":
            content["filename"] = file.name
        return await self._message(place, {"type": kind, kind: content}, "")

    async def fetch(self, file: IncomingFile, most: int) -> bytes:
        told = await self._call("GET", quote(file.id, safe=""))
        hosts = ("facebook.com", "fbsbx.com", "whatsapp.net", "fbcdn.net")
        url = require_host(str(told.get("url", "")), hosts, self._base)
        return await self._read_url(url, most, self._token)

    async def _message(self, place: Place, body: Mapping[str, Any], reply: str) -> str:
        context = {"context": {"message_id": reply}} if reply else {}
        told = await self._call(
            "POST",
            f"{self._phone}/messages",
            {
                "messaging_product": "whatsapp",
                "recipient_type": "individual" if place.chat.isdigit() else "group",
                "to": place.chat,
                **context,
                **body,
            },
        )
        with reading(TITLE):
            return str(told["messages"][0]["id"])

    async def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        request = self._http.build_request(method, f"{self._base}/{path}", headers=self._headers, json=body)
        return await self._request(request)

    async def _request(self, request: httpx2.Request) -> dict[str, Any]:
        """Send a request to the Graph API and return its JSON. Raises the matching `GatewayError`."""
        beyond = GatewayError("WhatsApp answers too much.")
        response, data = await receive(self._http, request, ANSWER, TITLE, beyond)
        try:
            told = json.loads(data)
        except (ValueError, RecursionError):
            told = {}
        told = told if isinstance(told, dict) else {}
        if response.status_code < 300:
            if not told:
                raise GatewayError("WhatsApp answers something else than JSON; check its api_url.")
            return told
        found = told.get("error")
        fault: dict[str, Any] = found if isinstance(found, dict) else {}
        code, said = fault.get("code"), str(fault.get("message", ""))[:200]
        if response.status_code == 429 or code in _TOO_MANY:
            raise RateLimitedError(asked_pause(response.headers, data))
        if (response.status_code == 401 and fault) or code in _BAD_TOKEN:
            raise BadCredentialsError("WhatsApp does not take the token; set it again.")
        # Without an error of its own, a proxy answered.
        if response.status_code >= 500 or code in _LATER or not fault:
            raise GatewayError(status_sentence("WhatsApp answers", response.status_code, said))
        raise UndeliverableError(status_sentence("WhatsApp refuses with", code or response.status_code, said))

    def _read(self, data: Any) -> Iterator[Incoming]:
        """Yield the messages of a webhook request, skipping those of an unknown form.

        Raises one of `ODD`.
        """
        if data["object"] != "whatsapp_business_account":
            return
        for entry in data["entry"]:
            for change in entry["changes"]:
                value = change["value"]
                if change["field"] != "messages" or value["metadata"]["phone_number_id"] != self._phone:
                    continue
                names = {
                    str(each.get("wa_id")): str((each.get("profile") or {}).get("name") or "")
                    for each in value.get("contacts", ())
                }
                for message in value.get("messages", ()):
                    try:
                        incoming = _incoming(message, names)
                    except ODD:
                        log.warning("a message of WhatsApp has a form that is not known")
                        continue
                    if incoming is not None:
                        yield incoming


def _incoming(message: Mapping[str, Any], names: Mapping[str, str]) -> Incoming | None:
    kind, person = str(message["type"]), str(message["from"])
    text, button, files = "", "", ()
    if kind == "text":
        text = str(message["text"]["body"])
    elif kind == "interactive":
        said = message["interactive"]
        button = str(said[said["type"]]["id"])
    elif kind == "button":
        text = str(message["button"]["text"])
    elif kind in _MEDIA:
        held = message[kind]
        media = str(held.get("mime_type") or "").partition(";")[0]
        name = str(held.get("filename") or f"{kind}{mimetypes.guess_extension(media) or ''}")
        files = (IncomingFile(str(held["id"]), name, file_kind(media), media),)
        text = str(held.get("caption") or "")
    else:
        return None
    group = str(message.get("group_id") or "")
    return Incoming(
        id=str(message["id"]),
        kind="button" if button else "message",
        place=Place(group or person),
        group=bool(group),
        # Nobody can be named there: only a command speaks to us, or a button that is ours.
        mentioned=not group or bool(button) or text.startswith(("/", "!")),
        sender=Sender(person, str(names.get(person, ""))),
        text=text,
        files=files,
        button=button,
        message=str((message.get("context") or {}).get("id", "")),
    )


GATEWAY = GatewayKind(
    name="whatsapp",
    title=TITLE,
    make=WhatsAppAdapter,
    secrets=(
        Secret(field="token_env", variable="WHATSAPP_TOKEN", asked="Access token of a system user"),
        Secret(
            field="secret_env", variable="WHATSAPP_APP_SECRET", asked="App secret: Basic settings of the app"
        ),
        Secret(
            field="verify_env",
            variable="WHATSAPP_VERIFY_TOKEN",
            asked="A word of your own, the same as under Webhooks of the app",
        ),
    ),
    fields={"phone_id": "Id of the telephone number: API Setup of the app"},
)

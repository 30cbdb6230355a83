"""A strict Graph API on loopback, and signed calls as developers.facebook.com/docs/whatsapp shows them."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
from typing import Any, Self

from aiohttp import web

from agent.integrations.gateways.adapter import PlatformCall
from tests.support.chat_platform import ShownMessage

TOKEN, SECRET, WORD, PHONE = "EAAJB-token", "app-secret", "my-word", "106540352242922"
OWNER = "16505551234"


class WhatsAppServer:
    """One number of a business."""

    def __init__(self) -> None:
        self.sent: dict[str, dict[str, Any]] = {}
        self.media: dict[str, tuple[str, bytes]] = {}
        self.refusals: list[str] = []
        self.fault: tuple[int, int] | None = None
        """Status and number of the next answer."""
        self.limited = 0
        self.shown: list[ShownMessage] = []
        self.elsewhere = False
        """Whether files are said to lie with somebody else."""
        self._numbers = itertools.count(1)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=30_000_000)
        app.router.add_get(f"/v23.0/{PHONE}", self._phone)
        app.router.add_post(f"/v23.0/{PHONE}/messages", self._message)
        app.router.add_post(f"/v23.0/{PHONE}/media", self._upload)
        app.router.add_get("/v23.0/{id}", self._described)
        app.router.add_get("/media/{id}", self._media)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.host = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        self.url = f"{self.host}/v23.0"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    # What people do

    def call(
        self,
        *messages: dict[str, Any],
        phone: str = PHONE,
        secret: str = SECRET,
        contact: dict[str, Any] | None = None,
    ) -> PlatformCall:
        """A call with messages; without any, one of a status. `contact` is told in place of the usual one."""
        value: dict[str, Any] = {
            "messaging_product": "whatsapp",
            "metadata": {"display_phone_number": "15550783881", "phone_number_id": phone},
        }
        if messages:
            usual = {"profile": {"name": "Sheena Nelson"}, "wa_id": messages[0].get("from", OWNER)}
            value["contacts"] = [usual if contact is None else contact]
            value["messages"] = list(messages)
        else:
            value["statuses"] = [{"id": "wamid.x", "status": "read", "recipient_id": OWNER}]
        change = {"value": value, "field": "messages"}
        data = {
            "object": "whatsapp_business_account",
            "entry": [{"id": "102290129340398", "changes": [change]}],
        }
        body = json.dumps(data).encode()
        sign = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        return PlatformCall("POST", "", {"x-hub-signature-256": f"sha256={sign}"}, {}, body)

    def said(self, text: str, **more: Any) -> dict[str, Any]:
        return self.message("text", text={"body": text}, **more)

    def message(self, kind: str, **more: Any) -> dict[str, Any]:
        id = f"wamid.HBgLMTY1MDM4Nzk0MzkVAgASGBQzQTRBNjU5OUFFRTAzODEwMTQ0Ng{next(self._numbers)}"
        return {"from": OWNER, "id": id, "timestamp": "1749416383", "type": kind, **more}

    def pressed(self, wamid: str, value: str) -> dict[str, Any]:
        buttons = self.sent[wamid]["interactive"]["action"]["buttons"]
        held = next(each["reply"] for each in buttons if each["reply"]["id"] == value)
        return self.message(
            "interactive",
            context={"from": "15550783881", "id": wamid},
            interactive={"type": "button_reply", "button_reply": held},
        )

    # The wire

    def _checked(self, request: web.Request) -> web.Response | None:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._no(401, 190, "Error validating access token")
        if self.fault is not None:
            (status, code), self.fault = self.fault, None
            return self._no(status, code, "(#" + str(code) + ") fault")
        if self.limited and request.method == "POST":
            self.limited -= 1
            return self._no(400, 131056, "(#131056) (Business Account, Consumer Account) pair rate limit hit")
        return None

    @staticmethod
    def _no(status: int, code: int, message: str) -> web.Response:
        fault = {"message": message, "type": "OAuthException", "code": code, "fbtrace_id": "A"}
        return web.json_response({"error": fault}, status=status)

    async def _phone(self, request: web.Request) -> web.Response:
        return self._checked(request) or web.json_response(
            {"display_phone_number": "+1 555-078-3881", "id": PHONE}
        )

    async def _message(self, request: web.Request) -> web.Response:
        if (refused := self._checked(request)) is not None:
            return refused
        given = await request.json()
        kind = given.get("type")
        problem = ""
        if given.get("messaging_product") != "whatsapp" or given.get("recipient_type") != "individual":
            problem = "product"
        elif not str(given.get("to", "")).isdigit():
            problem = "to"
        elif kind == "text" and not 0 < len(given["text"]["body"]) <= 4_096:
            problem = "body"
        elif kind == "interactive":
            held = given["interactive"]
            titles = [each["reply"]["title"] for each in held["action"]["buttons"]]
            if not 0 < len(held["body"]["text"]) <= 1_024 or not 0 < len(titles) <= 3:
                problem = "interactive"
            if len(set(titles)) < len(titles) or any(not 0 < len(each) <= 20 for each in titles):
                problem = "titles"
        elif kind in ("image", "audio", "document") and given[kind]["id"] not in self.media:
            problem = "media"
        if problem:
            self.refusals.append(f"{problem}: {given}")
            return self._no(400, 100, f"Invalid parameter {problem}")
        id = f"wamid.sent{next(self._numbers)}"
        self.sent[id] = given
        self._show(id, given)
        return web.json_response(
            {
                "messaging_product": "whatsapp",
                "contacts": [{"input": given["to"], "wa_id": given["to"]}],
                "messages": [{"id": id}],
            }
        )

    def _show(self, id: str, given: dict[str, Any]) -> None:
        held = given[given["type"]]
        text = held.get("body", held.get("caption", ""))
        buttons, file = [], b""
        if given["type"] == "interactive":
            text = text["text"]
            replies = [each["reply"] for each in held["action"]["buttons"]]
            buttons = [(each["title"], each["id"]) for each in replies]
        elif "id" in held:
            file = self.media[held["id"]][1]
        self.shown.append(ShownMessage(id, given["to"], text, buttons, [text], file, given))

    async def _upload(self, request: web.Request) -> web.Response:
        if (refused := self._checked(request)) is not None:
            return refused
        form = await request.post()
        held: Any = form["file"]
        if form.get("messaging_product") != "whatsapp" or form.get("type") != held.content_type:
            self.refusals.append(f"media {dict(form)}")
        id = str(1_000_000 + next(self._numbers))
        self.media[id] = (held.content_type, held.file.read())
        return web.json_response({"id": id})

    async def _described(self, request: web.Request) -> web.Response:
        if (refused := self._checked(request)) is not None:
            return refused
        id = request.match_info["id"]
        host = "https://evil.example" if self.elsewhere else self.host
        return web.json_response(
            {
                "messaging_product": "whatsapp",
                "url": f"{host}/media/{id}",
                "mime_type": self.media[id][0],
                "id": id,
            }
        )

    async def _media(self, request: web.Request) -> web.Response:
        return self._checked(request) or web.Response(body=self.media[request.match_info["id"]][1])

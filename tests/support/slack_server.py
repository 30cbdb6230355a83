"""A strict Slack on loopback: Socket Mode and the methods we use, with the payloads of docs.slack.dev."""

from __future__ import annotations

import html
import itertools
import json
import re
from typing import Any, Self

from aiohttp import WSMsgType, web

from tests.support.chat_platform import ShownMessage

BOT, APP = "xoxb-1-2-abc", "xapp-1-A123-4-def"
ME, OWNER, CHANNEL, DIRECT = "U0LAN0Z89", "U123ABC456", "C123ABC456", "D123ABC456"
_POST = {"channel", "text", "thread_ts", "blocks", "unfurl_links", "unfurl_media", "mrkdwn"}


class SlackServer:
    """The Web API, its sockets and files, and what people do there."""

    def __init__(self) -> None:
        self.posts: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.uploads: list[dict[str, Any]] = []
        self.refusals: list[str] = []
        self.limited = 0
        self.retry_after = 30
        self.shown: list[ShownMessage] = []
        self.bad_token = self.bad_app_token = False
        self.sockets: set[web.WebSocketResponse] = set()
        self.connections = 0
        self.last: dict[str, Any] = {}
        self._waiting: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count(1)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=60_000_000)
        app.router.add_get("/link/", self._socket)
        app.router.add_get("/files/{name}", self._file)
        app.router.add_post("/upload/{id}", self._upload)
        app.router.add_route("*", "/api/{method}", self._method)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}/api"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()
        await self._runner.cleanup()

    async def cut(self) -> None:
        """Break every connection."""
        for socket in list(self.sockets):
            await socket.close()

    # What people do

    async def write(self, text: str, channel: str = DIRECT, user: str = OWNER, **more: Any) -> str:
        """A message; its `ts`."""
        ts = self._ts()
        kind = "im" if channel.startswith("D") else "channel"
        event = {
            "client_msg_id": "f0582a78-72db-4feb-b2f3-1e47d66365c8",
            "type": "message",
            "channel": channel,
            "user": user,
            "text": text,
            "team": "T123ABC456",
            "ts": ts,
            "event_ts": ts,
            "channel_type": kind,
            **more,
        }
        await self.event(event)
        return ts

    async def event(self, event: dict[str, Any]) -> None:
        """An envelope as docs.slack.dev/apis/events-api/using-socket-mode shows it."""
        payload = {
            "token": "XXYYZZ",
            "team_id": "T123ABC456",
            "api_app_id": "A123ABC456",
            "event": event,
            "type": "event_callback",
            "event_id": f"Ev{next(self._numbers):08d}",
            "event_time": 1234567890,
            "authorizations": [
                {
                    "enterprise_id": None,
                    "team_id": "T123ABC456",
                    "user_id": ME,
                    "is_bot": True,
                    "is_enterprise_install": False,
                }
            ],
            "is_ext_shared_channel": False,
            "event_context": f"1-{event['type']}-T123ABC456-{event.get('channel', '')}",
        }
        await self.envelope("events_api", payload, retry_attempt=0, retry_reason="")

    async def press(self, ts: str, value: str, channel: str = DIRECT, user: str = OWNER) -> None:
        """A press as docs.slack.dev/reference/interaction-payloads/block_actions-payload shows it."""
        post = self.posts[ts]
        held = [each for block in post["blocks"] for each in block.get("elements", ())]
        button = next(each for each in held if each["value"] == value)
        payload = {
            "type": "block_actions",
            "team": {"id": "T9TK3CUKW", "domain": "example"},
            "user": {"id": user, "username": "jtorrance", "name": "jtorrance", "team_id": "T9TK3CUKW"},
            "enterprise": None,
            "is_enterprise_install": False,
            "state": {"values": {}},
            "response_url": "https://hooks.slack.com/actions/AABA1ABCD/1232321423432/D09sSasdasdAS9091209",
            "api_app_id": "AABA1ABCD",
            "token": "9s8d9as89d8as9d8as989",
            "container": {"type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": False},
            "trigger_id": "12321423423.333649436676.d8c1bb837935619ccad0f624c448ffb3",
            "channel": {"id": channel, "name": "directmessage"},
            "message": {"bot_id": "BAH5CA16Z", "type": "message", "text": post["text"], "user": ME, "ts": ts},
            "actions": [{**button, "block_id": "=qXel", "type": "button", "action_ts": self._ts()}],
        }
        await self.envelope("interactive", payload)

    async def envelope(self, kind: str, payload: dict[str, Any], **more: Any) -> None:
        """Send something that must be acknowledged."""
        name = f"dbdd0ef3-1543-4f94-bfb4-{next(self._numbers):012d}"
        envelope = {
            "envelope_id": name,
            "type": kind,
            "accepts_response_payload": kind == "interactive",
            "payload": payload,
            **more,
        }
        self._waiting[name] = self.last = envelope
        for socket in list(self.sockets)[:1]:
            await self._sent(socket, envelope)

    async def leave(self, reason: str) -> None:
        """Say that a connection ends, as docs.slack.dev/apis/events-api/using-socket-mode shows."""
        for socket in list(self.sockets):
            told = {"type": "disconnect", "reason": reason, "debug_info": {"host": "wss-111.slack.com"}}
            await socket.send_str(json.dumps(told))

    async def again(self) -> None:
        """Everything that was not acknowledged, once more."""
        for envelope in list(self._waiting.values()) or [self.last]:
            for socket in list(self.sockets)[:1]:
                again = {"retry_attempt": 1, "retry_reason": "timeout"}
                await self._sent(socket, {**envelope, **again})

    @property
    def unacknowledged(self) -> int:
        return len(self._waiting)

    @staticmethod
    async def _sent(socket: web.WebSocketResponse, envelope: dict[str, Any]) -> None:
        try:
            await socket.send_str(json.dumps(envelope))
        except (ConnectionError, RuntimeError):
            pass

    # The wire

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("ticket") != "123-456":
            return web.Response(status=401)
        socket = web.WebSocketResponse(autoping=True)
        await socket.prepare(request)
        self.connections += 1
        hello = {
            "type": "hello",
            "num_connections": 1,
            "connection_info": {"app_id": "A1234"},
            "debug_info": {"host": "applink-7fc4fdbb64-4x5xq", "approximate_connection_time": 18060},
        }
        await socket.send_str(json.dumps(hello))
        self.sockets.add(socket)
        for envelope in list(self._waiting.values()):
            await self._sent(socket, envelope)
        try:
            async for frame in socket:
                if frame.type is WSMsgType.TEXT:
                    told = json.loads(frame.data)
                    if set(told) - {"envelope_id", "payload"} or "envelope_id" not in told:
                        self.refusals.append(f"no acknowledgement: {told}")
                    self._waiting.pop(told.get("envelope_id"), None)
        finally:
            self.sockets.discard(socket)
        return socket

    async def _method(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        if request.method != "POST":
            return self._no(f"{method}: {request.method}", "method_deprecated")
        wanted = APP if method == "apps.connections.open" else BOT
        is_refused = self.bad_app_token if wanted == APP else self.bad_token
        if request.headers.get("Authorization") != f"Bearer {wanted}" or is_refused:
            return web.json_response({"ok": False, "error": "invalid_auth"})
        given: dict[str, Any] = {}
        if request.content_type == "application/json":
            given = await request.json()
        else:
            given = {**request.query, **await request.post()}
        if self.limited and method not in ("auth.test", "apps.connections.open"):
            self.limited -= 1
            return web.json_response(
                {"ok": False, "error": "ratelimited"},
                status=429,
                headers={"Retry-After": str(self.retry_after)},
            )
        match method:
            case "auth.test":
                return web.json_response(
                    {
                        "ok": True,
                        "url": "https://subarachnoid.slack.com/",
                        "team": "Subarachnoid Workspace",
                        "user": "bot",
                        "team_id": "T0G9PQBBK",
                        "user_id": ME,
                        "bot_id": "BZYBOTHED",
                    }
                )
            case "apps.connections.open":
                return web.json_response(
                    {"ok": True, "url": f"ws://127.0.0.1:{self.port}/link/?ticket=123-456&app_id=x"}
                )
            case "chat.postMessage" | "chat.update":
                return self._post(method, given)
            case "files.getUploadURLExternal":
                if not given.get("filename") or not str(given.get("length", "")).isdigit():
                    return self._no(f"{method}: {given}", "invalid_arguments")
                id = f"F{next(self._numbers):06d}"
                return web.json_response(
                    {"ok": True, "upload_url": f"http://127.0.0.1:{self.port}/upload/{id}", "file_id": id}
                )
            case "files.completeUploadExternal":
                listed = json.loads(given["files"]) if isinstance(given["files"], str) else given["files"]
                self.uploads.append({**given, "files": listed})
                for each in listed:
                    said = str(given.get("initial_comment") or "")
                    held = self.files[each["id"]]
                    self.shown.append(ShownMessage(each["id"], str(given["channel_id"]), said, file=held))
                return web.json_response({"ok": True, "files": [{"id": each["id"]} for each in listed]})
            case _:
                return self._no(method, "unknown_method")

    def _post(self, method: str, given: dict[str, Any]) -> web.Response:
        channel, text = str(given.get("channel", "")), given.get("text", "")
        if set(given) - (_POST | {"ts"}):
            return self._no(f"{method}: {set(given) - _POST}", "invalid_arguments")
        if not re.fullmatch(r"[CDG][A-Z0-9]{8,}", channel):
            return self._no(f"{method}: {channel}", "channel_not_found")
        if len(text) > 4_000 or not text:
            return self._no(f"{method}: {len(text)} characters", "msg_too_long" if text else "no_text")
        if re.search(r"&(?!amp;|lt;|gt;)|<(?![@#!]|https?://|mailto:)", text):
            return self._no(f"{method}: unescaped {text[:80]}", "invalid_text")
        for block in given.get("blocks") or ():
            if block["type"] == "section" and not 0 < len(block["text"]["text"]) <= 3_000:
                return self._no("section", "invalid_blocks")
            for each in block.get("elements", ()):
                if not 0 < len(each["text"]["text"]) <= 75 or len(each["value"]) > 2_000:
                    return self._no("button", "invalid_blocks")
        if method == "chat.update":
            if given.get("ts") not in self.posts:
                return self._no("update", "message_not_found")
            self.posts[given["ts"]].update(text=text, blocks=given.get("blocks") or [])
            self.posts[given["ts"]]["versions"].append(text)
            seen = next(each for each in self.shown if each.id == given["ts"])
            seen.text, seen.buttons = html.unescape(text), _buttons(given)
            seen.versions.append(seen.text)
            seen.form = {**seen.form, **given}
            return web.json_response({"ok": True, "channel": channel, "ts": given["ts"], "text": text})
        ts = self._ts()
        self.posts[ts] = {**given, "blocks": given.get("blocks") or [], "versions": [text]}
        seen = html.unescape(text)
        self.shown.append(ShownMessage(ts, channel, seen, _buttons(given), [seen], form=given))
        return web.json_response({"ok": True, "channel": channel, "ts": ts, "message": {"text": text}})

    def _no(self, what: str, error: str) -> web.Response:
        self.refusals.append(f"{error}: {what}")
        return web.json_response({"ok": False, "error": error})

    async def _upload(self, request: web.Request) -> web.Response:
        self.files[request.match_info["id"]] = await request.read()
        return web.Response(text="OK")

    async def _file(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {BOT}":
            return web.Response(status=302, headers={"Location": "https://slack.com/signin"})
        return web.Response(body=self.files[request.match_info["name"]])

    def _ts(self) -> str:
        return f"1355517523.{next(self._numbers):06d}"


def _buttons(given: dict[str, Any]) -> list[tuple[str, str]]:
    held = [each for block in given.get("blocks") or () for each in block.get("elements", ())]
    return [(each["text"]["text"], each["value"]) for each in held]

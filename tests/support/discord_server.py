"""A strict Discord on loopback, gateway and API version 10: payloads of discord.com/developers/docs."""

from __future__ import annotations

import itertools
import json
import re
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any, Self

from aiohttp import WSMsgType, web

from tests.support.chat_platform import ShownMessage

TOKEN = "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs"
ME, OWNER = "1000000000000000001", "80351110224678912"
DIRECT, CHANNEL, GUILD = "319674150115610528", "290926798999357250", "290926798626357999"


def user(id: str, bot: bool = False) -> dict[str, Any]:
    return {
        "id": id,
        "username": "hermes" if bot else "nelly",
        "discriminator": "0",
        "global_name": None,
        "avatar": None,
        "bot": bot,
    }


def _json(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Without the character set that other servers add: the library looks for exactly this type."""
    body = json.dumps(data).encode()
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


def _packer(kind: str) -> Callable[[bytes], bytes]:
    """Packs each message to the end; the library asks for `zstd-stream` where Python has it (3.14)."""
    if kind == "zlib-stream":
        stream = zlib.compressobj()
        return lambda data: stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH)
    compressor = import_module("compression.zstd").ZstdCompressor()
    return lambda data: compressor.compress(data, compressor.FLUSH_BLOCK)


class DiscordServer:
    """One bot, one conversation of two, one channel of a server."""

    def __init__(self) -> None:
        self.sent: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.acknowledged: list[dict[str, Any]] = []
        self.refusals: list[str] = []
        self.shown: list[ShownMessage] = []
        self.limited = 0
        self.typing = 0
        self.history: dict[str, list[dict[str, Any]]] = {DIRECT: [], CHANNEL: []}
        self.sockets: dict[web.WebSocketResponse, Any] = {}
        self.resumable = False
        """Whether a session can be gone on with; if not, the gateway says that it is invalid."""
        self.closed = False
        """Whether the gateway lets nobody in."""
        self.identified = self.resumed = self.heartbeats = 0
        self.refuse: tuple[int, int, str] | None = None
        """Status, code and message with which the next message is refused."""
        self._told_frames: list[dict[str, Any]] = []
        self._nonces: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count(1)
        self._events = itertools.count(1)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=30_000_000)
        app.router.add_get("/gateway/", self._gateway)
        app.router.add_get("/attachments/{name}", self._file)
        app.router.add_route("*", "/api/v10/{rest:.*}", self._any)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        port = self._runner.addresses[0][1]
        self.host = f"http://127.0.0.1:{port}"
        self.url, self.gateway = f"{self.host}/api/v10", f"ws://127.0.0.1:{port}/gateway/"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()
        await self._runner.cleanup()

    async def cut(self) -> None:
        for socket in list(self.sockets):
            await socket.close(code=4000)

    # What people do

    def message(
        self, content: str, channel: str = DIRECT, author: str = OWNER, **more: Any
    ) -> dict[str, Any]:
        return {
            "type": 0,
            "tts": False,
            "timestamp": "2017-07-11T17:27:07.299000+00:00",
            "pinned": False,
            "mentions": [],
            "mention_roles": [],
            "mention_everyone": False,
            "id": str(334385199974967042 + next(self._numbers)),
            "embeds": [],
            "edited_timestamp": None,
            "content": content,
            "channel_id": channel,
            "author": user(author, author == ME),
            "attachments": [],
            "components": [],
            **({"guild_id": GUILD} if channel == CHANNEL else {}),
            **more,
        }

    async def write(self, content: str, channel: str = DIRECT, author: str = OWNER, **more: Any) -> str:
        message = self.message(content, channel, author, **more)
        self.history[channel].append(message)
        await self.dispatch("MESSAGE_CREATE", message)
        return message["id"]

    async def again(self, channel: str = DIRECT) -> None:
        await self.dispatch("MESSAGE_CREATE", self.history[channel][-1])

    async def change(self, id: str, content: str, channel: str = DIRECT) -> None:
        message = next(each for each in self.history[channel] if each["id"] == id)
        message.update(content=content, edited_timestamp="2017-07-11T17:28:07.299000+00:00")
        await self.dispatch("MESSAGE_UPDATE", message)

    async def press(self, id: str, value: str, channel: str = DIRECT, person: str = OWNER) -> None:
        held = [each for row in self.sent[id]["components"] for each in row["components"]]
        assert value in [each["custom_id"] for each in held]
        await self.dispatch(
            "INTERACTION_CREATE",
            {
                "version": 1,
                "type": 3,
                "token": "unique_interaction_token",
                "message": {**self.message("", author=ME), "id": id},
                "user": user(person),
                "id": str(846462639134605312 + next(self._numbers)),
                "data": {"custom_id": value, "component_type": 2},
                "channel_id": channel,
                "channel": {"id": channel, "type": 1, "recipients": [user(person)]},
                "application_id": ME,
                "entitlements": [],
                "attachment_size_limit": 10_000_000,
            },
        )

    async def dispatch(self, name: str, data: dict[str, Any]) -> None:
        frame = {"op": 0, "s": next(self._events), "t": name, "d": data}
        self._told_frames.append(frame)
        for socket in list(self.sockets):
            await self._told(socket, frame)

    async def ask(self, op: int) -> None:
        """What the gateway asks of everybody: 1 for a heartbeat, 7 to reconnect and resume."""
        for socket in list(self.sockets):
            await self._told(socket, {"op": op, "d": None, "s": None, "t": None})

    # The wire

    async def _told(self, socket: web.WebSocketResponse, frame: dict[str, Any]) -> None:
        pack = self.sockets.get(socket)
        data = json.dumps(frame).encode()
        try:
            if pack is None:
                await socket.send_str(data.decode())
            else:
                await socket.send_bytes(pack(data))
        except (ConnectionError, RuntimeError):
            pass

    async def _gateway(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("v") != "10" or request.query.get("encoding") != "json":
            self.refusals.append(str(request.url))
        if self.closed:
            return web.Response(status=400)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        pack = _packer(request.query["compress"]) if "compress" in request.query else None
        hello = json.dumps({"op": 10, "d": {"heartbeat_interval": 41250}, "s": None, "t": None}).encode()
        if pack is None:
            await socket.send_str(hello.decode())
        else:
            await socket.send_bytes(pack(hello))
        try:
            async for frame in socket:
                if frame.type is not WSMsgType.TEXT:
                    continue
                told = json.loads(frame.data)
                match told["op"]:
                    case 2:
                        if told["d"]["token"] != TOKEN:
                            await socket.close(code=4004)
                            break
                        if not told["d"]["intents"] & (1 << 15):
                            self.refusals.append("no message content")
                        self.sockets[socket] = pack
                        self.identified += 1
                        await self._begun(socket)
                    case 6:
                        self.sockets[socket] = pack
                        await self._go_on(socket, told["d"])
                    case 1:
                        self.heartbeats += 1
                        await self._told(socket, {"op": 11, "d": None, "s": None, "t": None})
        finally:
            self.sockets.pop(socket, None)
        return socket

    async def _begun(self, socket: web.WebSocketResponse) -> None:
        ready = {
            "v": 10,
            "user": user(ME, bot=True),
            "guilds": [],
            "session_id": "abc",
            "resume_gateway_url": self.gateway,
            "shard": [0, 1],
            "application": {"id": ME, "flags": 1 << 19},
        }
        await self._told(socket, {"op": 0, "s": next(self._events), "t": "READY", "d": ready})

    async def _go_on(self, socket: web.WebSocketResponse, given: dict[str, Any]) -> None:
        """Tell again what came behind a number, then say that this was all."""
        if not self.resumable or (given["token"], given["session_id"]) != (TOKEN, "abc"):
            await self._told(socket, {"op": 9, "d": False, "s": None, "t": None})
            del self.sockets[socket]
            return
        self.resumed += 1
        for frame in [each for each in self._told_frames if each["s"] > given["seq"]]:
            await self._told(socket, frame)
        await self._told(socket, {"op": 0, "s": next(self._events), "t": "RESUMED", "d": {}})

    async def _any(self, request: web.Request) -> web.Response:
        path = f"{request.method} {request.match_info['rest']}"
        if path.startswith("POST interactions/"):
            self.acknowledged.append(await request.json())
            held = {"id": path.split("/")[1], "type": 3}
            return _json({"interaction": held, "resource": {"type": 6}})
        if request.headers.get("Authorization") != f"Bot {TOKEN}":
            return _json({"message": "401: Unauthorized", "code": 0}, status=401)
        if path == "GET users/@me":
            return _json(user(ME, bot=True))
        if path == "GET oauth2/applications/@me":
            return _json(
                {
                    "bot_public": True,
                    "bot_require_code_grant": False,
                    "description": "Test",
                    "flags": 1 << 19,
                    "icon": None,
                    "id": ME,
                    "name": "hermes",
                    "owner": user(OWNER),
                    "summary": "",
                    "team": None,
                    "verify_key": "1e0a356058d627ca38a5c8c9648818061d49e49bd9da9e3ab17d98ad4d6bg2u8",
                }
            )
        if path in ("GET gateway", "GET gateway/bot"):
            limit = {"total": 1000, "remaining": 999, "reset_after": 14400000, "max_concurrency": 1}
            return _json({"url": self.gateway, "shards": 1, "session_start_limit": limit})
        found = re.fullmatch(r"(GET|POST|PATCH) channels/(\d+)/(messages|typing)(?:/(\d+))?", path)
        if found is None:
            self.refusals.append(path)
            return _json({"message": "404: Not Found", "code": 0}, status=404)
        method, channel, what, id = found.groups()
        if channel not in self.history:
            return _json({"message": "Unknown Channel", "code": 10003}, status=404)
        if what == "typing":
            self.typing += 1
            return web.Response(status=204)
        if method == "GET":
            after, limit = int(request.query.get("after", "0")), int(request.query["limit"])
            later = [each for each in self.history[channel] if int(each["id"]) > after]
            return _json(later[:limit][::-1])
        return await self._said(request, method, channel, id or "")

    async def _said(self, request: web.Request, method: str, channel: str, id: str) -> web.Response:
        if self.refuse is not None:
            (status, code, words), self.refuse = self.refuse, None
            return _json({"message": words, "code": code}, status=status)
        if self.limited:
            self.limited -= 1
            body = {"message": "You are being rate limited.", "retry_after": 0.05, "global": False}
            headers = {"Retry-After": "1", "X-RateLimit-Reset-After": "0.05", "Via": "1.1 google"}
            return _json(body, status=429, headers=headers)
        given: dict[str, Any]
        file_data = b""
        if request.content_type == "application/json":
            given = await request.json()
        else:
            form = await request.post()
            given = json.loads(str(form["payload_json"]))
            for name, held in form.items():
                if name.startswith("files["):
                    file: Any = held
                    self.files[file.filename] = file_data = file.file.read()
        content = given.get("content") or ""
        if len(content) > 2_000 or (not content and not self.files and method == "POST"):
            self.refusals.append(f"content of {len(content)}")
            return _json({"message": "Invalid Form Body", "code": 50035}, status=400)
        for row in given.get("components") or ():
            if len(row["components"]) > 5 or any(not 0 < len(e["label"]) <= 80 for e in row["components"]):
                self.refusals.append("components")
        if method == "PATCH" and id not in self.sent:
            return _json({"message": "Unknown Message", "code": 10008}, status=404)
        if method == "PATCH":
            self.sent[id].update(given)
            seen = next(each for each in self.shown if each.id == id)
            seen.text, seen.buttons = content, _buttons(given)
            seen.versions.append(content)
            return _json({**self.message(content, channel, ME), "id": id})
        nonce = str(given.get("nonce") or "")
        if given.get("enforce_nonce") and nonce in self._nonces:
            return _json(self._nonces[nonce])
        message = self.message(content, channel, ME)
        self.sent[message["id"]] = given
        seen = ShownMessage(message["id"], channel, content, _buttons(given), [content], file_data, given)
        self.shown.append(seen)
        if nonce:
            self._nonces[nonce] = message
        return _json(message)

    async def _file(self, request: web.Request) -> web.Response:
        return web.Response(body=self.files[request.match_info["name"]])


def _buttons(given: dict[str, Any]) -> list[tuple[str, str]]:
    held = [each for row in given.get("components") or () for each in row["components"]]
    return [(each["label"], each["custom_id"]) for each in held]

"""A strict homeserver on loopback: parts of the client-server API, as spec.matrix.org shows them; a
look has the parts of github.com/matrix-nio/matrix-nio, tests/data/sync.json.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from typing import Any, Self
from urllib.parse import unquote

from aiohttp import web

from tests.support.chat_platform import ShownMessage

TOKEN = "syt_aGVybWVz_abc_123"
ME, OWNER = "@hermes:example.org", "@alice:example.org"
DIRECT, ROOM = "!636q39766251:example.com", "!jEsUZKDJdhlrceRyVU:example.org"


class MatrixServer:
    """One homeserver with one account of ours."""

    def __init__(self) -> None:
        self.sent: dict[str, dict[str, Any]] = {}
        """Our events by id."""
        self.media: dict[str, bytes] = {}
        self.refusals: list[str] = []
        self.joined: list[str] = []
        self.typing = 0
        self.limited = 0
        self.retry_after_ms = 2_500
        self.shown: list[ShownMessage] = []
        self.direct = {DIRECT}
        self.cut_next = 0
        self.window = 0
        """Events of a room that one look holds at most, as servers have ten; 0: all of them."""
        self.no_history = False
        self.no_join = False
        self.limit_sync = 0
        self.bad_token = False
        self._transactions: dict[str, str] = {}
        self._log: list[tuple[str, str, dict[str, Any]]] = []
        self._numbers = itertools.count(1)
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=60_000_000)
        app.router.add_route("*", "/_matrix/{rest:.*}", self._any)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def write(self, text: str, room: str = DIRECT, sender: str = OWNER, **content: Any) -> str:
        """A message as the specification shows one; its id."""
        return self.event(room, sender, {"msgtype": "m.text", "body": text, **content})

    def event(self, room: str, sender: str, content: dict[str, Any], kind: str = "m.room.message") -> str:
        id = f"$143273582443PhrSn:{next(self._numbers)}"
        event = {
            "content": content,
            "event_id": id,
            "origin_server_ts": 1432735824653,
            "sender": sender,
            "type": kind,
            "unsigned": {"age": 1234},
        }
        self._tell("join", room, event)
        return id

    def again(self) -> None:
        """The last event once more."""
        self._log.append(next(each for each in reversed(self._log) if each[2]["sender"] != ME))
        self._news.set()

    def enter(self, room: str) -> None:
        """We come into a room."""
        member = {"membership": "join", "displayname": "Hermes"}
        event = {"content": member, "event_id": f"$enter:{next(self._numbers)}", "sender": ME}
        event |= {"origin_server_ts": 1, "type": "m.room.member", "state_key": ME}
        self._tell("join", room, event)

    def invite(self, room: str, sender: str = OWNER, direct: bool = True) -> None:
        content = {"membership": "invite", "displayname": "Hermes", **({"is_direct": True} if direct else {})}
        self._tell(
            "invite",
            room,
            {"sender": sender, "type": "m.room.member", "state_key": ME, "content": content},
        )

    def _tell(self, kind: str, room: str, event: dict[str, Any]) -> None:
        self._log.append((kind, room, event))
        self._news.set()

    async def _any(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}" or self.bad_token:
            return self._fault(401, "M_UNKNOWN_TOKEN", "Unrecognised access token.")
        if "access_token" in request.query:
            self.refusals.append("a token in an address")
        if self.cut_next:
            self.cut_next -= 1
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        path = f"{request.method} {request.rel_url.raw_path.removeprefix('/_matrix/')}"
        if self.limited and " client/v3/rooms" in path:
            self.limited -= 1
            more = {"retry_after_ms": self.retry_after_ms}
            return self._fault(429, "M_LIMIT_EXCEEDED", "Too many requests", **more)
        match path.split("/"):
            case ["GET client", "v3", "account", "whoami"]:
                return web.json_response({"user_id": ME, "device_id": "ABC1234"})
            case ["GET client", "v3", "sync"]:
                return await self._sync(request)
            case ["GET client", "v3", "rooms", room, "messages"]:
                return self._history(request, unquote(room))
            case ["POST client", "v3", "join", room] if self.no_join:
                return self._fault(403, "M_FORBIDDEN", "You are not invited to this room.")
            case ["POST client", "v3", "join", room]:
                self.joined.append(unquote(room))
                return web.json_response({"room_id": unquote(room)})
            case ["PUT client", "v3", "rooms", room, "send", "m.room.message", transaction]:
                return await self._send(request, unquote(room), transaction)
            case ["PUT client", "v3", "rooms", room, "typing", person] if unquote(person) == ME:
                self.typing += (await request.json())["typing"] is True
                return web.json_response({})
            case ["POST media", "v3", "upload"]:
                id = f"AQwafuaFswefuhsfAFAgsw{next(self._numbers)}"
                self.media[id] = await request.read()
                return web.json_response({"content_uri": f"mxc://example.org/{id}"})
            case ["GET client", "v1", "media", "download", "example.org", id]:
                return (
                    web.Response(body=self.media[id]) if id in self.media else self._fault(404, "M_NOT_FOUND")
                )
            case _:
                self.refusals.append(path)
                return self._fault(404, "M_UNRECOGNIZED")

    async def _sync(self, request: web.Request) -> web.Response:
        since = request.query.get("since", "")
        if since and not re.fullmatch(r"s\d+_757269_2", since):
            return self._fault(400, "M_INVALID_PARAM", "since")
        if since and self.limit_sync:
            self.limit_sync -= 1
            return self._fault(429, "M_LIMIT_EXCEEDED", "Too many requests", retry_after_ms=2000)
        at = int(since[1:].partition("_")[0]) if since else 0
        if since and at >= len(self._log):
            self._news.clear()
            try:
                await asyncio.wait_for(
                    self._news.wait(), min(int(request.query.get("timeout", "0")) / 1_000, 5)
                )
            except TimeoutError:
                pass
        rooms: dict[str, dict[str, Any]] = {"join": {}, "invite": {}, "leave": {}}
        for number, (kind, room, event) in enumerate(self._log[at:], at):
            if kind == "invite":
                rooms["invite"][room] = {"invite_state": {"events": [event]}}
                continue
            count = 2 if room in self.direct else 7
            held = rooms["join"].setdefault(
                room,
                {
                    "summary": {
                        "m.heroes": [OWNER],
                        "m.invited_member_count": 0,
                        "m.joined_member_count": count,
                    },
                    "timeline": {"events": [], "limited": False, "prev_batch": "t34-23535_0_0"},
                    "state": {"events": []},
                    "account_data": {
                        "events": [{"type": "m.fully_read", "content": {"event_id": "event_id_2"}}]
                    },
                    "ephemeral": {"events": [{"type": "m.typing", "content": {"user_ids": [OWNER]}}]},
                    "unread_notifications": {"highlight_count": 1, "notification_count": 11},
                },
            )
            timeline = held["timeline"]
            timeline["events"].append(event)
            if self.window and len(timeline["events"]) > self.window:
                timeline["events"].pop(0)
                timeline["limited"] = True
                kept = [i for i, each in enumerate(self._log[: number + 1]) if each[1] == room]
                timeline["prev_batch"] = f"t{kept[-self.window]}-23535_0_0"
        others: dict[str, Any] = {name: {"events": []} for name in ("account_data", "to_device", "presence")}
        others |= {"device_one_time_keys_count": {}, "device_lists": {"changed": [OWNER], "left": []}}
        return web.json_response({"next_batch": f"s{len(self._log)}_757269_2", "rooms": rooms, **others})

    def _history(self, request: web.Request, room: str) -> web.Response:
        """Events before a place, newest first, as spec.matrix.org shows `/messages`."""
        start = re.fullmatch(r"t(\d+)-23535_0_0", request.query.get("from", ""))
        stop = re.fullmatch(r"s(\d+)_757269_2", request.query.get("to", ""))
        if start is None or stop is None or request.query.get("dir") != "b":
            self.refusals.append(str(request.url))
            return self._fault(400, "M_INVALID_PARAM")
        if self.no_history:
            return self._fault(403, "M_FORBIDDEN", "You aren't a member of the room.")
        kinds = json.loads(request.query["filter"])["types"]
        found = [
            (number, event)
            for number, (kind, where, event) in enumerate(self._log[: int(start[1])])
            if number >= int(stop[1]) and where == room and kind == "join" and event["type"] in kinds
        ][::-1][: min(int(request.query["limit"]), 3)]
        end = found[-1][0] if found else int(stop[1])
        told = {"chunk": [event for _, event in found], "start": request.query["from"]}
        return web.json_response({**told, "end": f"t{end}-23535_0_0"})

    async def _send(self, request: web.Request, room: str, transaction: str) -> web.Response:
        content = json.loads(await request.read())
        if not room.startswith("!"):
            return self._fault(403, "M_FORBIDDEN", f"not in {room}")
        if transaction in self._transactions:
            return web.json_response({"event_id": self._transactions[transaction]})
        if len(json.dumps(content)) > 60_000 or not isinstance(content.get("body"), str):
            return self._fault(413, "M_TOO_LARGE")
        tags = set(re.findall(r"</?([a-z0-9]+)", content.get("formatted_body", "")))
        allowed = {
            "p",
            "b",
            "strong",
            "i",
            "em",
            "code",
            "pre",
            "a",
            "ul",
            "ol",
            "li",
            "blockquote",
            "br",
            "del",
            "s",
        }
        if tags - (allowed | {"h1", "h2", "h3", "h4", "h5", "h6", "u", "hr", "table", "tr", "td", "th"}):
            self.refusals.append(f"tags {tags}")
        id = f"$YUwRidLecu:{next(self._numbers)}"
        self._transactions[transaction] = id
        self.sent[id] = {**content, "room": room}
        self._show(id, room, content)
        self._tell(
            "join",
            room,
            {
                "content": content,
                "event_id": id,
                "sender": ME,
                "type": "m.room.message",
                "origin_server_ts": 1,
            },
        )
        return web.json_response({"event_id": id})

    def _show(self, id: str, room: str, content: dict[str, Any]) -> None:
        relation = content.get("m.relates_to") or {}
        if relation.get("rel_type") == "m.replace":
            seen = next(each for each in self.shown if each.id == relation["event_id"])
            seen.text = content["m.new_content"]["body"]
            seen.versions.append(seen.text)
            return
        file = self.media.get(str(content.get("url", "")).rpartition("/")[2], b"")
        text = content["body"]
        self.shown.append(ShownMessage(id, room, text, [], [text], file, content))

    @staticmethod
    def _fault(status: int, code: str, error: str = "", **more: Any) -> web.Response:
        return web.json_response({"errcode": code, "error": error, **more}, status=status)

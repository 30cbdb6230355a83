"""Matrix through its client-server API. The reading position is saved after the events before it are stored.

Encrypted rooms are not read. Users with access are informed of that in the room, once.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import quote

from agent.errors import ConfigError
from agent.integrations.gateways.adapter import (
    ODD,
    Adapter,
    BadCredentialsError,
    GatewayContext,
    GatewayError,
    GatewayKind,
    Incoming,
    IncomingFile,
    Outgoing,
    OutgoingFile,
    Place,
    PlatformLimits,
    RateLimitedError,
    Secret,
    Sender,
    Take,
    UndeliverableError,
    asked_pause,
    fetch_bounded,
    file_kind,
    odd_answer,
    reading,
)
from agent.integrations.gateways.markup import translate_markdown
from agent.integrations.gateways.people import keep_place, kept_place

log = logging.getLogger(__name__)

WAIT = 30_000
"""The time in milliseconds that a request for new events waits at the server."""
PAGES = 10
"""The maximum number of pages of 100 messages read of one room after a time without a connection."""
LIMITS = PlatformLimits(
    text=16_000,
    unit="bytes",
    form="html",
    edits=True,
    edit_pause=1.5,
    typing=20.0,
    send_file=50_000_000,
    keys=True,
)
"""The limits of Matrix: an event has at most 65,536 bytes, and contains the text twice, once as HTML."""
ENCRYPTED = "I cannot read encrypted rooms; write to me in a room without encryption."
_KINDS = {"image": "m.image", "voice": "m.audio", "file": "m.file"}
_TEXTS = frozenset({"m.text", "m.emote"})
_FILES = frozenset({"m.image", "m.audio", "m.file", "m.video"})


class MatrixAdapter(Adapter):
    """The connection of one Matrix account."""

    limits = LIMITS
    title = "Matrix"

    def __init__(self, context: GatewayContext) -> None:
        from nio import AsyncClient, AsyncClientConfig

        super().__init__(context)
        # It says much about events that are not of the form it knows.
        logging.getLogger("nio").setLevel(logging.ERROR)
        if not context.settings.api_url:
            raise ConfigError("Set gateways.matrix.api_url to the address of your homeserver.")
        self._token = context.secret("token_env")
        self._allowed = frozenset(context.settings.allow)
        self._user = str(getattr(context.settings, "user", ""))
        self._place = context.folder / "next_batch"
        config = AsyncClientConfig(max_limit_exceeded=0, max_timeouts=0, encryption_enabled=False)
        self._client = AsyncClient(self._base, self._user, config=config)
        self._client.access_token = self._token
        self._direct: set[str] = set()

    async def run(self, take: Take, ready: Callable[[str], None]) -> None:
        async with _faults():
            me = _check_answer(await self._client.whoami())
        self._user = self._client.user_id = me.user_id
        since = await asyncio.to_thread(kept_place, self._place)
        if since:
            ready(me.user_id)
        while True:
            told = await self._news(since)
            with reading("The homeserver"):
                rooms = told.get("rooms") or {}
                invitations, news = (dict(rooms.get(kind) or {}) for kind in ("invite", "join"))
            for room, invited in invitations.items():
                with _passing_over(room):
                    await self._accept_invitation(room, invited)
            for room, joined in news.items():
                events: Sequence[Mapping[str, Any]] = ()
                with _passing_over(room):
                    self._learn(room, joined)
                    # Without a place to go on from, what was said before we came is nothing to us.
                    events = await self._events(room, joined, since) if since else ()
                for event in events:
                    if (incoming := self._incoming(room, event)) is not None:
                        await take(incoming)
            is_first, since = not since, str(told["next_batch"])
            await asyncio.to_thread(keep_place, self._place, since)
            if is_first:
                # Before, what people write would be nothing to us.
                ready(me.user_id)

    async def _news(self, since: str) -> Mapping[str, Any]:
        """Request the events after `since`; return the sync response. Raises `GatewayError`.

        The library is not used, because it drops events that it cannot validate.
        """
        query = f"timeout={WAIT if since else 0}" + (f"&since={quote(since, safe='')}" if since else "")
        told = await self._get_json(f"sync?{query}", WAIT / 1_000 + 30)
        if "next_batch" not in told:
            raise GatewayError("The homeserver answers without saying where to continue.")
        return told

    async def _get_json(self, path: str, seconds: float = 60.0) -> Mapping[str, Any]:
        """Return the homeserver's JSON response to a GET. Raises `GatewayError`."""
        request = self._http.build_request(
            "GET",
            f"{self._base}/_matrix/client/v3/{path}",
            headers={"Authorization": f"Bearer {self._token}"},
            timeout=seconds,
        )
        data = await fetch_bounded(self._http, request, 50_000_000, "Matrix")
        try:
            told = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise GatewayError("The homeserver answers something else than JSON.") from error
        if not isinstance(told, dict):
            raise GatewayError("The homeserver answers in another form; check gateways.matrix.api_url.")
        return told

    async def _events(self, room: str, joined: Mapping[str, Any], since: str) -> Sequence[Mapping[str, Any]]:
        """Return the events of a room after `since`, oldest first.

        A sync response holds only the latest events, so earlier ones are requested, up to `PAGES` pages.
        """
        timeline = joined.get("timeline", {})
        events: list[Mapping[str, Any]] = list(timeline.get("events", ()))
        place = str(timeline.get("prev_batch") or "")
        if timeline.get("limited") is not True or not place or self._has_just_come(joined):
            return events
        before: list[Mapping[str, Any]] = []
        kinds = quote(json.dumps({"types": ["m.room.message", "m.room.encrypted"]}), safe="")
        for _ in range(PAGES):
            path = f"rooms/{quote(room, safe='')}/messages?dir=b&limit=100&filter={kinds}"
            try:
                told = await self._get_json(f"{path}&from={quote(place, safe='')}&to={quote(since, safe='')}")
            except UndeliverableError as error:
                log.warning("what was said meanwhile in %s cannot be read: %s", room, error)
                break
            before += told.get("chunk", ())
            place = str(told.get("end") or "")
            if not place or place == since or not told.get("chunk"):
                break
        else:
            log.warning("more was said meanwhile in %s than is read", room)
        return [*reversed(before), *events]

    def _has_just_come(self, joined: Mapping[str, Any]) -> bool:
        """Return whether the bot joined the room in this sync; older messages of it are then ignored."""
        for part in ("state", "timeline"):
            for event in joined.get(part, {}).get("events", ()):
                if event.get("type") == "m.room.member" and event.get("state_key") == self._user:
                    before = (event.get("unsigned") or {}).get("prev_content") or {}
                    return before.get("membership") != "join"
        return False

    async def _accept_invitation(self, room: str, invited: Mapping[str, Any]) -> None:
        """Join a room if it is a direct chat, or if an allowed person sent the invitation."""
        for event in invited.get("invite_state", {}).get("events", ()):
            content = event.get("content", {})
            if event.get("type") == "m.room.member" and event.get("state_key") == self._user:
                if content.get("is_direct") is True:
                    self._direct.add(room)
                if content.get("is_direct") is True or event.get("sender") in self._allowed:
                    try:
                        async with _faults():
                            _check_answer(await self._client.join(room))
                    except UndeliverableError as error:
                        # It was taken back meanwhile, and would come again with every look.
                        log.warning("an invitation to %s cannot be taken: %s", room, error)
                    return
        log.info("an invitation to %s was left open: it is from nobody who may", room)

    def _learn(self, room: str, joined: Mapping[str, Any]) -> None:
        """Record whether a room is a direct chat with one other member."""
        summary = joined.get("summary", {})
        members = summary.get("m.joined_member_count", 0) + summary.get("m.invited_member_count", 0)
        if members:
            (self._direct.add if members <= 2 else self._direct.discard)(room)

    def _incoming(self, room: str, event: Mapping[str, Any]) -> Incoming | None:
        """Return an event of a room in the common form; None if it should be ignored."""
        try:
            if event["type"] == "m.room.encrypted":
                return self._encrypted_message(room, event)
            if event["type"] != "m.room.message" or event["sender"] == self._user:
                return None
            content: Mapping[str, Any] = event["content"]
            relation: Mapping[str, Any] = content.get("m.relates_to") or {}
            edited = relation.get("rel_type") == "m.replace"
            said: Mapping[str, Any] = content["m.new_content"] if edited else content
            kind, body = said["msgtype"], str(said["body"])
            files: tuple[IncomingFile, ...] = ()
            if kind in _FILES and not edited:
                info = said.get("info") or {}
                media, name = str(info.get("mimetype") or ""), str(said.get("filename") or body)
                size = info.get("size")
                files = (
                    IncomingFile(
                        str(said["url"]), name, file_kind(media), media, size if isinstance(size, int) else 0
                    ),
                )
                body = body if "filename" in said and body != name else ""
            elif kind not in _TEXTS:
                return None
            thread = relation["event_id"] if relation.get("rel_type") == "m.thread" else ""
            replied = (relation.get("m.in_reply_to") or {}).get("event_id", "")
            mentions = (said.get("m.mentions") or {}).get("user_ids", ())
            text, named = self._without_name(_without_quote(body) if replied else body)
            group = room not in self._direct
            return Incoming(
                id=str(relation["event_id"] if edited else event["event_id"]),
                kind="edited" if edited else "message",
                place=Place(room, str(thread)),
                sender=Sender(str(event["sender"])),
                text=text,
                files=files,
                group=group,
                mentioned=not group or named or self._user in mentions,
                message=str(replied),
            )
        except (KeyError, TypeError, AttributeError):
            return None

    def _encrypted_message(self, room: str, event: Mapping[str, Any]) -> Incoming | None:
        if event["sender"] == self._user:
            return None
        return Incoming(
            id=str(event["event_id"]),
            place=Place(room),
            sender=Sender(str(event["sender"])),
            group=room not in self._direct,
            unreadable=ENCRYPTED,
        )

    def _without_name(self, text: str) -> tuple[str, bool]:
        local = self._user[1:].partition(":")[0]
        first, _, rest = text.partition(" ")
        if first.rstrip(",:").lower() in (self._user.lower(), local.lower(), f"@{local}".lower()):
            return rest.strip(), True
        return text, self._user.lower() in text.lower()

    async def send(self, place: Place, message: Outgoing, key: str) -> str:
        return await self._send_event(place, _content(message, place), key)

    async def edit(self, place: Place, message_id: str, message: Outgoing) -> None:
        import time

        content = _content(message, Place(place.chat))
        changed = {
            **content,
            "body": f"* {content['body']}",
            "m.new_content": content,
            "m.relates_to": {"rel_type": "m.replace", "event_id": message_id},
        }
        await self._send_event(place, changed, f"edit-{message_id[-20:]}-{time.time_ns()}")

    async def send_file(self, place: Place, file: OutgoingFile, key: str) -> str:
        import mimetypes

        data = await asyncio.to_thread(file.path.read_bytes)
        media = mimetypes.guess_type(file.name)[0] or "application/octet-stream"

        async with _faults():
            told, _ = await self._client.upload(
                lambda *_: iter((data,)), content_type=media, filename=file.name, filesize=len(data)
            )
            address = _check_answer(told).content_uri
        content: dict[str, Any] = {
            "msgtype": _KINDS[file.kind],
            "body": file.caption or file.name,
            "filename": file.name,
            "url": address,
            "info": {"mimetype": media, "size": len(data)},
        }
        if file.kind == "voice":
            content["org.matrix.msc3245.voice"] = {}
        return await self._send_event(place, {**content, **_relation(place)}, key)

    async def fetch(self, file: IncomingFile, most: int) -> bytes:
        server, _, media = file.id.removeprefix("mxc://").partition("/")
        if not file.id.startswith("mxc://") or not server or not media or "/" in media:
            raise UndeliverableError("The address of the file is not a Matrix address.")
        url = (
            f"{self._base}/_matrix/client/v1/media/download/{quote(server, safe=':')}/{quote(media, safe='')}"
        )
        return await self._read_url(url, most, self._token)

    async def typing(self, place: Place) -> None:
        async with _faults():
            _check_answer(await self._client.room_typing(place.chat, True, int(LIMITS.typing * 1_000)))

    async def aclose(self) -> None:
        try:
            await self._client.close()
            await super().aclose()
        except Exception:
            log.warning("the connection could not be closed in order", exc_info=True)

    async def _send_event(self, place: Place, content: dict[str, Any], key: str) -> str:
        async with _faults():
            # The server knows a transaction again and gives the event it made of it.
            told = await self._client.room_send(
                place.chat, "m.room.message", content, tx_id=key, ignore_unverified_devices=True
            )
            return str(_check_answer(told).event_id)


def _content(message: Outgoing, place: Place) -> dict[str, Any]:
    found: dict[str, Any] = {
        "msgtype": "m.notice" if message.quiet else "m.text",
        "body": message.text,
        "format": "org.matrix.custom.html",
        "formatted_body": translate_markdown(message.text, "html"),
    }
    return {**found, **_relation(place, message.reply_to)}


def _relation(place: Place, reply: str = "") -> dict[str, Any]:
    if place.thread:
        return {
            "m.relates_to": {
                "rel_type": "m.thread",
                "event_id": place.thread,
                "is_falling_back": not reply,
                "m.in_reply_to": {"event_id": reply or place.thread},
            }
        }
    return {"m.relates_to": {"m.in_reply_to": {"event_id": reply}}} if reply else {}


def _without_quote(text: str) -> str:
    """Return a text without the quoted lines that older clients put before a reply. Pure."""
    lines = text.split("\n")
    while lines and lines[0].startswith("> "):
        lines.pop(0)
    return "\n".join(lines).lstrip("\n") if len(lines) < len(text.split("\n")) else text


def _check_answer(told: Any) -> Any:
    """Return a response of the library, or raise `GatewayError` if the response is an error object."""
    from nio import ErrorResponse

    if not isinstance(told, ErrorResponse):
        return told
    code, said = str(told.status_code or ""), str(told.message or "")
    response: Any = told.transport_response
    if response is not None and response.status == 429 and told.retry_after_ms is None:
        raise RateLimitedError(asked_pause(response.headers))
    if code == "M_LIMIT_EXCEEDED" or (told.retry_after_ms or 0) > 0:
        raise RateLimitedError(min(max((told.retry_after_ms or 5_000) / 1_000, 0.1), 3_600.0))
    if code in ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN"):
        raise BadCredentialsError(f"The homeserver does not take the token ({code}); set it again.")
    if code in ("M_FORBIDDEN", "M_NOT_FOUND", "M_TOO_LARGE", "M_BAD_JSON", "M_INVALID_PARAM"):
        raise UndeliverableError(f"The homeserver refuses: {code} {said}")
    if response is not None and response.status < 300 and not code:
        raise GatewayError(
            "The homeserver answers in a form that is not known; check gateways.matrix.api_url."
        )
    status = f"{response.status} " if response is not None else ""
    raise GatewayError(f"The homeserver answers {status}{f'{code} ' if code else ''}{said}.")


@contextmanager
def _passing_over(room: str) -> Iterator[None]:
    """Log and skip data of a room in an unknown form, because every request would return it again."""
    try:
        yield
    except ODD as error:
        log.warning("what is told of %s cannot be read: %s", room, type(error).__name__)


@asynccontextmanager
async def _faults() -> AsyncIterator[None]:
    """Turn connection errors into `GatewayError`."""
    import aiohttp
    from nio.exceptions import LocalProtocolError, RemoteTransportError

    try:
        yield
    except (aiohttp.ClientError, RemoteTransportError, LocalProtocolError, TimeoutError, OSError) as error:
        raise GatewayError(f"The homeserver cannot be reached ({type(error).__name__}).") from error
    except ODD as error:
        raise odd_answer("The homeserver", error) from error


GATEWAY = GatewayKind(
    name="matrix",
    title="Matrix",
    make=MatrixAdapter,
    secrets=(
        Secret(
            field="token_env",
            variable="MATRIX_ACCESS_TOKEN",
            asked="Access token of the account (Element: Settings, Help & About)",
        ),
    ),
    fields={"api_url": "Address of the homeserver, as https://matrix.example.org"},
    extra="matrix",
    module="nio",
)

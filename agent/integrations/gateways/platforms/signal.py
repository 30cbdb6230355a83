"""Signal through the HTTP daemon of signal-cli: JSON-RPC for requests, server-sent events for incoming
messages.

The daemon keeps its latest events in memory. The id of the last stored event is saved, so that the daemon
resends the later ones. Duplicates are recognized by the id of their message.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from agent.core.config.sections import SignalSettings
from agent.errors import ConfigError
from agent.integrations.gateways.adapter import (
    Adapter,
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
    Sender,
    Take,
    UndeliverableError,
    json_call,
    reading,
    talking,
)
from agent.integrations.gateways.markup import translate_markdown
from agent.integrations.gateways.people import keep_place, kept_place

DAEMON = "http://127.0.0.1:8080"
GROUP = "group:"
SILENCE = 120.0
"""Seconds without a byte, keep-alives included, after which the event stream is requested again."""
LIMITS = PlatformLimits(
    text=2_000,
    unit="utf16",
    form="signal",
    edits=True,
    edit_pause=5.0,
    typing=10.0,
    send_file=90_000_000,
    fetch_file=50_000_000,
)
_LINE = 4_000_000
_RATE_LIMIT, _USER_ERROR, _NO_METHOD = -5, -1, -32601


class _UnknownMethodError(GatewayError):
    """The signal-cli daemon does not know a JSON-RPC method."""


class SignalAdapter(Adapter):
    """The connection of one account of a signal-cli daemon."""

    limits = LIMITS
    title = "signal-cli"

    def __init__(self, context: GatewayContext) -> None:
        assert isinstance(context.settings, SignalSettings)
        super().__init__(context, DAEMON, SILENCE)
        self._account = context.settings.account
        self._own: set[str] = {self._account} - {""}
        """The telephone number and the account id of the bot, as far as they are known."""
        self._number = 0
        self._last_file = context.folder / "last_event"

    async def run(self, take: Take, ready: Callable[[str], None]) -> None:
        await self._find_account()
        headers = {"Accept": "text/event-stream"}
        if last := await asyncio.to_thread(kept_place, self._last_file):
            headers["Last-Event-ID"] = last
        async with talking("signal-cli"):
            request = self._http.build_request("GET", f"{self._base}/api/v1/events", headers=headers)
            response = await self._http.send(request, stream=True)
            try:
                if response.status_code != 200:
                    raise GatewayError(f"signal-cli answers {response.status_code}; start it with --http.")
                ready(self._account or "the account of the daemon")
                async for id, data in _events(response.aiter_bytes()):
                    incoming = self._read(data)
                    if incoming is not None:
                        await take(incoming)
                    if id:
                        await asyncio.to_thread(keep_place, self._last_file, id)
            finally:
                await response.aclose()
        raise GatewayError("signal-cli ended the connection.")

    async def _find_account(self) -> None:
        """Determine the bot's account, and the ids by which others mention it. Raises `ConfigError`."""
        try:
            listed = await self._call("listAccounts")
        except _UnknownMethodError:
            # A daemon of one account has no list, and needs to be told no account.
            return
        with reading(self.title):
            accounts = [each for each in listed or () if isinstance(each, Mapping)]
        if not self._account:
            if len(accounts) != 1:
                raise ConfigError(
                    f"The daemon has {len(accounts)} accounts; name one as gateways.signal.account."
                )
            with reading(self.title):
                # One without a telephone number is known by its account id.
                self._account = str(accounts[0].get("number") or accounts[0]["aci"])
        for each in accounts:
            ids = {str(each[name]) for name in ("number", "aci") if each.get(name)}
            if self._account in ids:
                self._own |= ids
        self._own.add(self._account)

    async def send(self, place: Place, message: Outgoing, key: str) -> str:
        return await self._send(place, {"message": translate_markdown(message.text, "signal")})

    async def edit(self, place: Place, message_id: str, message: Outgoing) -> None:
        told = {"message": translate_markdown(message.text, "signal"), "editTimestamp": int(message_id)}
        await self._send(place, told)

    async def send_file(self, place: Place, file: OutgoingFile, key: str) -> str:
        data = await asyncio.to_thread(file.path.read_bytes)
        # As data, because a daemon in a container does not see our files.
        name = file.name.replace(";", "_").replace(",", "_")
        attached = f"data:application/octet-stream;filename={name};base64,{base64.b64encode(data).decode()}"
        return await self._send(place, {"message": file.caption, "attachments": [attached]})

    async def fetch(self, file: IncomingFile, most: int) -> bytes:
        if file.size > most:
            raise UndeliverableError(f"The file is larger than {most:,} bytes.")
        id, _, whose = file.id.partition("|")
        where = {"groupId": whose[len(GROUP) :]} if whose.startswith(GROUP) else {"recipient": whose}
        found = await self._call("getAttachment", id=id, **where)
        try:
            data = base64.b64decode(found["data"], validate=True)
        except (TypeError, KeyError, binascii.Error):
            raise UndeliverableError("The file is no longer there.") from None
        if len(data) > most:
            raise UndeliverableError(f"The file is larger than {most:,} bytes.")
        return data

    async def typing(self, place: Place) -> None:
        await self._call("sendTyping", **_where(place))

    async def _send(self, place: Place, what: Mapping[str, Any]) -> str:
        answer = await self._call("send", **_where(place), **what)
        if not isinstance(answer, Mapping) or not isinstance(answer.get("timestamp"), int):
            raise GatewayError("signal-cli sent no receipt.")
        with reading(self.title):
            failures = [each for each in answer.get("results") or () if each.get("type") != "SUCCESS"]
            if failures and len(failures) == len(answer["results"]):
                _raise_failure(failures[0])
        return str(answer["timestamp"])

    async def _call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        if self._account and method != "listAccounts":
            parameters["account"] = self._account
        body = {"jsonrpc": "2.0", "method": method, "params": parameters, "id": str(self._number)}
        answer = await json_call(self._http, "POST", f"{self._base}/api/v1/rpc", "signal-cli", body=body)
        if not isinstance(answer, Mapping):
            raise GatewayError("signal-cli answers no JSON-RPC; check gateways.signal.api_url.")
        error = answer.get("error")
        if not isinstance(error, Mapping):
            return answer.get("result")
        with reading(self.title):
            raise _error_of(error)

    def _read(self, data: str) -> Incoming | None:
        """Return an event in the common form; None if it should be ignored."""
        try:
            event = json.loads(data)
            envelope = event["envelope"]
            if (account := event.get("account")) and not self._account:
                self._own.add(str(account))
            elif account and account not in self._own:
                return None
            edit = envelope.get("editMessage")
            message = edit["dataMessage"] if edit else envelope.get("dataMessage")
            if not message:
                return None
            source = str(envelope.get("sourceUuid") or envelope["sourceNumber"])
            target = edit["targetSentTimestamp"] if edit else message["timestamp"]
            info = message.get("groupInfo")
            place = Place(f"{GROUP}{info['groupId']}" if info else source)
            text, mentioned = self._without_name(message)
            quote = message.get("quote") or {}
            authors = {str(quote.get(name)) for name in ("author", "authorNumber", "authorUuid")}
            files = tuple(_file(each, str(place)) for each in message.get("attachments") or ())
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        if not text.strip() and not files:
            return None
        return Incoming(
            id=f"{source}:{target}",
            kind="edited" if edit else "message",
            place=place,
            sender=Sender(source, str(envelope.get("sourceName") or "")),
            text=text,
            files=files,
            group=bool(info),
            mentioned=not info or mentioned or not self._own.isdisjoint(authors) or text.startswith("/"),
            message=str(quote.get("id") or ""),
        )

    def _without_name(self, message: Mapping[str, Any]) -> tuple[str, bool]:
        """Return the text without the bot's name at its start, and whether the bot is mentioned."""
        text = str(message.get("message") or "")
        ours = [
            each
            for each in message.get("mentions") or ()
            if not self._own.isdisjoint((each.get("number"), each.get("uuid")))
        ]
        for each in ours:
            if each.get("start") == 0:
                text = text[int(each.get("length", 1)) :].lstrip(" ,:")
        return text, bool(ours)


async def _events(pieces: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, str]]:
    """Yield id and data of each server-sent event. Raises `GatewayError` if a line is too long."""
    buffer, data, id = b"", list[str](), ""
    async for piece in pieces:
        buffer += piece
        if len(buffer) > _LINE:
            raise GatewayError("signal-cli sends a line without an end.")
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            text = line.rstrip(b"\r").decode("utf-8", "replace")
            if text.startswith("data:"):
                data.append(text[5:].removeprefix(" "))
            elif text.startswith("id:"):
                id = text[3:].strip()[:100]
            elif not text and data:
                yield id, "\n".join(data)
                data = []


def _file(attachment: Mapping[str, Any], place: str) -> IncomingFile:
    media, name = str(attachment.get("contentType") or ""), attachment.get("filename")
    kind = "image" if media in ("image/png", "image/jpeg", "image/webp", "image/gif") else "file"
    if media.startswith("audio/") and not name:
        kind, name = "voice", f"voice.{media[6:].partition(';')[0]}"
    size = attachment.get("size")
    return IncomingFile(
        f"{attachment['id']}|{place}", str(name or "file"), kind, media, size if isinstance(size, int) else 0
    )


def _where(place: Place) -> dict[str, Any]:
    if place.chat.startswith(GROUP):
        return {"groupId": place.chat[len(GROUP) :]}
    return {"recipient": [place.chat]}


def _error_of(error: Mapping[str, Any]) -> GatewayError:
    """Return the error for a JSON-RPC error object. May raise that of a recipient, or one of `ODD`."""
    response = (error.get("data") or {}).get("response") or {}
    results = response.get("results") or ()
    if error.get("code") == _RATE_LIMIT:
        waits = [each.get("retryAfterSeconds") for each in results]
        return RateLimitedError(float(next((w for w in waits if isinstance(w, (int, float))), 60)))
    for each in results:
        _raise_failure(each)
    words = str(error.get("message", ""))[:200]
    if error.get("code") == _NO_METHOD:
        return _UnknownMethodError(f"signal-cli: {words}")
    if error.get("code") == _USER_ERROR:
        return UndeliverableError(f"signal-cli refuses: {words}")
    # Such as an account that the daemon does not have (yet): not a fault of what should be sent.
    return GatewayError(f"signal-cli: {words}")


def _raise_failure(result: Mapping[str, Any]) -> None:
    """Raise the error that the result reports for a recipient, if there is one."""
    match result.get("type"):
        case "SUCCESS":
            return
        case "RATE_LIMIT_FAILURE":
            raise RateLimitedError(float(result.get("retryAfterSeconds") or 60))
        case "UNREGISTERED_FAILURE" | "IDENTITY_FAILURE":
            raise UndeliverableError(f"Signal refuses: {result['type']}")
        case other:
            raise GatewayError(f"Signal did not take it: {other}")


GATEWAY = GatewayKind(
    name="signal",
    title="Signal",
    make=SignalAdapter,
    fields={
        "api_url": f"Address of `signal-cli daemon --http`, such as {DAEMON}",
        "account": "Own number, where the daemon has several",
    },
)

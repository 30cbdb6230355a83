"""Slack through Socket Mode and its Web API. An envelope is acknowledged once its content is stored here."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

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
    file_kind,
    odd_answer,
    require_host,
    status_sentence,
)
from agent.integrations.gateways.markup import translate_markdown

if TYPE_CHECKING:
    from slack_sdk.socket_mode.request import SocketModeRequest

API = "https://slack.com/api"
LIMITS = PlatformLimits(
    text=3_000,
    form="slack",
    edits=True,
    edit_pause=1.5,
    buttons=5,
    send_file=50_000_000,
)
LOOK = 2.0
"""Seconds between two checks of the connection."""
LOST = 30.0
"""The time limit in seconds for the library to reconnect."""
_REFUSED = frozenset({"invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive"})
_LATER = frozenset({"internal_error", "fatal_error", "service_unavailable", "request_timeout"})
_TAG = re.compile(r"<([@#!])?([^<>|]+)(?:\|([^<>]*))?>")


class SlackAdapter(Adapter):
    """The connection of one Slack app in one workspace."""

    limits = LIMITS
    title = "Slack"

    def __init__(self, context: GatewayContext) -> None:
        from slack_sdk.web.async_client import AsyncWebClient

        super().__init__(context, API)
        self._token = context.secret("bot_token_env")
        self._app_token = context.secret("app_token_env")
        self._web = AsyncWebClient(token=self._token, base_url=f"{self._base}/", timeout=30)
        self._user = ""

    async def run(self, take: Take, ready: Callable[[str], None]) -> None:
        from slack_sdk.socket_mode.aiohttp import SocketModeClient
        from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
        from slack_sdk.socket_mode.response import SocketModeResponse
        from slack_sdk.web.async_client import AsyncWebClient

        async with _faults():
            me = await self._web.auth_test()
            self._user = _required(me, "user_id")
        opener = AsyncWebClient(base_url=f"{self._base}/", timeout=30)
        client = SocketModeClient(app_token=self._app_token, web_client=opener, auto_reconnect_enabled=True)

        async def hear(_: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
            incoming = self._read(request)
            if incoming is not None:
                await take(incoming)
            await client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))

        client.socket_mode_request_listeners.append(hear)
        try:
            async with _faults():
                # The library would try a token that is refused again and again.
                opened = await opener.apps_connections_open(app_token=self._app_token)
                client.wss_uri = _required(opened, "url")
                # The library tries an address that it cannot reach again and again.
                async with asyncio.timeout(LOST):
                    await client.connect()
            ready(f"@{me['user']}")
            lost = 0.0
            while lost < LOST:
                await asyncio.sleep(LOOK)
                lost = 0.0 if await client.is_connected() else lost + LOOK
            raise GatewayError("Slack cannot be reached (no connection for a while).")
        finally:
            await client.close()

    async def send(self, place: Place, message: Outgoing, key: str) -> str:
        async with _faults():
            told = await self._web.chat_postMessage(
                channel=place.chat,
                thread_ts=place.thread or None,
                unfurl_links=False,
                unfurl_media=False,
                **_message_fields(message),
            )
            return _required(told, "ts")

    async def edit(self, place: Place, message_id: str, message: Outgoing) -> None:
        async with _faults():
            await self._web.chat_update(channel=place.chat, ts=message_id, **_message_fields(message))

    async def send_file(self, place: Place, file: OutgoingFile, key: str) -> str:
        data = await asyncio.to_thread(file.path.read_bytes)
        async with _faults():
            told = await self._web.files_upload_v2(
                channel=place.chat,
                thread_ts=place.thread or None,
                file=data,
                filename=file.name,
                initial_comment=translate_markdown(file.caption, "slack") or None,
            )
            files: Any = told["files"]
            return _required(files[0], "id")

    async def fetch(self, file: IncomingFile, most: int) -> bytes:
        url = require_host(file.id, ("slack.com", "slack-files.com"), self._base)
        return await self._read_url(url, most, self._token)

    def _read(self, request: SocketModeRequest) -> Incoming | None:
        """Return the content of an envelope in the common form; None if it should be ignored."""
        payload: Mapping[str, Any] = request.payload if isinstance(request.payload, Mapping) else {}
        try:
            if request.type == "interactive":
                return _button_press(payload)
            if request.type == "slash_commands":
                return _command(payload)
            return self._event(payload["event"]) if request.type == "events_api" else None
        except (KeyError, TypeError, IndexError, AttributeError):
            return None

    def _event(self, event: Mapping[str, Any]) -> Incoming | None:
        if event["type"] not in ("message", "app_mention"):
            return None
        edited = event.get("subtype") == "message_changed"
        said: Mapping[str, Any] = event["message"] if edited else event
        if not edited and event.get("subtype") not in (None, "file_share", "thread_broadcast"):
            return None
        # What we wrote ourselves, and other apps.
        if said.get("bot_id") or not said.get("user") or said["user"] == self._user:
            return None
        if edited and said.get("text") == event.get("previous_message", {}).get("text"):
            return None
        group = event.get("channel_type", "channel") != "im"
        thread = said.get("thread_ts", "")
        text, name = str(said.get("text") or ""), f"<@{self._user}>"
        to_us = name in text or said.get("parent_user_id") == self._user
        files = tuple(_file(each) for each in said.get("files", ()) if each.get("url_private"))
        if not text and not files:
            return None
        return Incoming(
            id=str(said["ts"]),
            kind="edited" if edited else "message",
            # In a channel an answer goes into a thread, which is a conversation of its own.
            place=Place(str(event["channel"]), str(thread or (said["ts"] if group else ""))),
            sender=Sender(str(said["user"])),
            text=_plain(text.strip().removeprefix(name).strip()),
            files=files,
            group=group,
            mentioned=not group or to_us,
            message=str(thread) if thread != said["ts"] else "",
        )


def _button_press(payload: Mapping[str, Any]) -> Incoming | None:
    if payload["type"] != "block_actions":
        return None
    action, channel = payload["actions"][0], payload["channel"]
    message = payload.get("message", {})
    group = not str(channel["id"]).startswith("D")
    return Incoming(
        id=f"{action['action_ts']}",
        kind="button",
        place=Place(str(channel["id"]), str(message.get("thread_ts", ""))),
        sender=Sender(str(payload["user"]["id"]), str(payload["user"].get("username", ""))),
        group=group,
        button=str(action["value"]),
        message=str(message.get("ts") or payload["container"]["message_ts"]),
        token=str(payload.get("trigger_id", "")),
    )


def _command(payload: Mapping[str, Any]) -> Incoming:
    """Return a slash command in the common form: `/hermes new` becomes `/new`; the app's own `/new` stays."""
    command, rest = str(payload["command"]), str(payload.get("text") or "").strip()
    channel = str(payload["channel_id"])
    return Incoming(
        id=str(payload["trigger_id"]),
        place=Place(channel),
        sender=Sender(str(payload["user_id"]), str(payload.get("user_name", ""))),
        text=f"/{rest}" if command == "/hermes" else f"{command} {rest}".strip(),
        group=not channel.startswith("D"),
    )


def _file(data: Mapping[str, Any]) -> IncomingFile:
    media = str(data.get("mimetype") or "")
    url = str(data.get("url_private_download") or data["url_private"])
    return IncomingFile(
        url, str(data.get("name") or "file"), file_kind(media), media, int(data.get("size") or 0)
    )


def _plain(text: str) -> str:
    """Return the text that was typed, from Slack's format, with links, names and special characters
    restored.
    """

    def replace_reference(found: re.Match[str]) -> str:
        mark, target, label = found.groups()
        if mark:
            return f"{'@' if mark in '@!' else '#'}{label or target}"
        return target if not label or label == target else f"{label} ({target})"

    return html.unescape(_TAG.sub(replace_reference, text))


def _message_fields(message: Outgoing) -> dict[str, Any]:
    text = translate_markdown(message.text, "slack")
    if not message.buttons:
        return {"text": text, "blocks": []}
    buttons = [
        {
            "type": "button",
            "action_id": f"choice-{number}",
            "value": each.value,
            "text": {"type": "plain_text", "text": each.label[:75] or each.value, "emoji": False},
        }
        for number, each in enumerate(message.buttons)
    ]
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text[:3_000] or " "}}
    return {"text": text, "blocks": [section, {"type": "actions", "elements": buttons}]}


def _required(answer: Any, name: str) -> str:
    """Return the text field `name` of an answer. Raises one of `ODD` if there is none."""
    if not isinstance(found := answer[name], str):
        raise TypeError(name)
    return found


@asynccontextmanager
async def _faults() -> AsyncIterator[None]:
    """Turn errors of the Slack library into the matching `GatewayError`."""
    import aiohttp
    from slack_sdk.errors import SlackApiError, SlackClientError

    try:
        yield
    except SlackApiError as error:
        response: Any = error.response
        status = int(getattr(response, "status_code", 0) or 0)
        data: Any = getattr(response, "data", response)
        found = data.get("error") if isinstance(data, dict) else ""
        reason = found if isinstance(found, str) else ""
        if status == 429 or reason in ("ratelimited", "rate_limited"):
            raise RateLimitedError(asked_pause(dict(response.headers))) from error
        if reason in _REFUSED:
            raise BadCredentialsError(f"Slack does not take a token ({reason}); set it again.") from error
        if status >= 500 or reason in _LATER or not reason:
            raise GatewayError(status_sentence("Slack answers", status, reason)) from error
        raise UndeliverableError(f"Slack refuses: {reason}.") from error
    except (SlackClientError, aiohttp.ClientError, TimeoutError, OSError) as error:
        raise GatewayError(f"Slack cannot be reached ({type(error).__name__}).") from error
    except ODD as error:
        raise odd_answer("Slack", error) from error


GATEWAY = GatewayKind(
    name="slack",
    title="Slack",
    make=SlackAdapter,
    secrets=(
        Secret(
            field="bot_token_env",
            variable="SLACK_BOT_TOKEN",
            asked="Bot token (`xoxb-…`): OAuth & Permissions of the app",
        ),
        Secret(
            field="app_token_env",
            variable="SLACK_APP_TOKEN",
            asked="App-level token (`xapp-…`, scope connections:write): Basic Information of the app",
        ),
    ),
    extra="slack",
    module="slack_sdk",
)

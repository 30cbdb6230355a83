"""Discord through its gateway. Messages sent while the bot was offline are read from the channels later.

The gateway has no acknowledgements. So the newest stored message of each channel is remembered, and after
every connection the later messages of each channel are requested.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
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
from agent.integrations.gateways.people import keep_place, kept_place

if TYPE_CHECKING:
    import discord

log = logging.getLogger(__name__)

LIMITS = PlatformLimits(
    text=2_000,
    form="markdown",
    edits=True,
    edit_pause=1.2,
    buttons=5,
    typing=9.0,
    send_file=10_000_000,
    keys=True,
)
LOST = 60.0
"""The time limit in seconds for the library to reconnect; its own pauses grow up to 1,024 seconds."""
LOOKED_BACK = 200
"""The maximum number of messages read of one channel after a time without a connection."""
CHANNELS = 500
"""The number of channels whose newest message is remembered; the longest silent ones are forgotten."""


class DiscordAdapter(Adapter):
    """The connection of one Discord bot."""

    limits = LIMITS
    title = "Discord"

    def __init__(self, context: GatewayContext) -> None:
        import discord.gateway
        import discord.http
        import yarl

        super().__init__(context)
        self._token = context.secret("token_env")
        # The library knows its addresses as constants of the process.
        if self._base:
            discord.http.Route.BASE = self._base
        if gateway := str(getattr(context.settings, "gateway_url", "")):
            discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(gateway)
        self._seen_file = context.folder / "channels.json"
        self._seen: dict[str, str] = {}
        self._client: discord.Client | None = None
        self._pressed: dict[str, discord.Interaction] = {}

    async def run(self, take: Take, ready: Callable[[str], None]) -> None:
        import discord

        self._seen = await asyncio.to_thread(_read, self._seen_file)
        intents = discord.Intents.none()
        intents.guilds = intents.guild_messages = intents.dm_messages = intents.message_content = True
        client = self._client = discord.Client(
            intents=intents, max_messages=None, allowed_mentions=discord.AllowedMentions.none()
        )
        loop = asyncio.get_running_loop()
        one_by_one, failed = asyncio.Lock(), loop.create_future()
        # What comes after a gap waits until the gap was read: the place of a channel only moves on.
        caught_up = asyncio.Event()

        async def receive(message: discord.Message) -> None:
            incoming = self._incoming(message)
            if incoming is not None:
                await take(incoming)
            channel = str(message.channel.id)
            if int(self._seen.get(channel, "0")) < message.id:
                self._seen.pop(channel, None)
                self._seen[channel] = str(message.id)
                latest = json.dumps(dict(list(self._seen.items())[-CHANNELS:]))
                await asyncio.to_thread(keep_place, self._seen_file, latest)

        def give_up() -> None:
            if not failed.done():
                failed.set_exception(GatewayError("Discord cannot be reached (no connection for a while)."))

        def is_there(connected: bool) -> None:
            """Record whether the bot is connected.

            After too long without a connection, give up so that the core reconnects.
            """
            nonlocal lost
            if lost is not None:
                lost.cancel()
            lost = None if connected else loop.call_later(LOST, give_up)

        lost: asyncio.TimerHandle | None = None
        is_there(False)

        async def run_guarded(work: Callable[[], Awaitable[None]]) -> None:
            """Run one piece of work at a time. An error ends the connection, so that the next one reads the
            message again.
            """
            try:
                async with one_by_one:
                    # What comes after it would move the place of the channel beyond it.
                    if not failed.done():
                        await work()
            except Exception as error:
                if not failed.done():
                    failed.set_exception(error)

        async def receive_missed() -> None:
            for channel, last in list(self._seen.items()):
                found = client.get_partial_messageable(int(channel))
                with suppress(discord.Forbidden, discord.NotFound):
                    after = discord.Object(int(last))
                    async for message in found.history(limit=LOOKED_BACK, after=after, oldest_first=True):
                        await receive(message)

        @client.event
        async def on_connect() -> None:
            caught_up.clear()

        @client.event
        async def on_disconnect() -> None:
            if lost is None:
                is_there(False)

        @client.event
        async def on_ready() -> None:
            is_there(True)
            ready(f"@{client.user}")
            await run_guarded(receive_missed)
            caught_up.set()

        @client.event
        async def on_resumed() -> None:
            is_there(True)
            await run_guarded(receive_missed)
            caught_up.set()

        @client.event
        async def on_message(message: discord.Message) -> None:
            await caught_up.wait()
            await run_guarded(partial(receive, message))

        @client.event
        async def on_raw_message_edit(payload: discord.RawMessageUpdateEvent) -> None:
            incoming = self._incoming(payload.message, edited=True)
            # Links that are unfolded count as edits there; only a person's own has a time.
            if incoming is not None and payload.message.edited_at is not None:
                await run_guarded(partial(take, incoming))

        @client.event
        async def on_interaction(interaction: discord.Interaction) -> None:
            incoming = _press(interaction)
            if incoming is not None:
                self._pressed[incoming.id] = interaction
                while len(self._pressed) > 100:
                    self._pressed.pop(next(iter(self._pressed)))
                await run_guarded(partial(take, incoming))

        running = asyncio.create_task(client.start(self._token, reconnect=True))
        try:
            async with _faults():
                await asyncio.wait([running, failed], return_when=asyncio.FIRST_COMPLETED)
                (failed if failed.done() else running).result()
        finally:
            is_there(True)
            running.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await running
            await client.close()

    async def send(self, place: Place, message: Outgoing, key: str) -> str:
        import discord

        reference = None
        if message.reply_to.isdigit():
            reference = discord.MessageReference(
                message_id=int(message.reply_to), channel_id=_target(place), fail_if_not_exists=False
            )
        async with _faults():
            more: dict[str, Any] = {"reference": reference} if reference else {}
            if message.buttons:
                more["view"] = _view(message)
            found = await self._place(place).send(
                message.text,
                # The platform sends what has the same one only once.
                nonce=hashlib.sha256(key.encode()).hexdigest()[:25],
                silent=message.quiet,
                suppress_embeds=True,
                **more,
            )
            return str(found.id)

    async def edit(self, place: Place, message_id: str, message: Outgoing) -> None:
        async with _faults():
            found = self._place(place).get_partial_message(int(message_id))
            await found.edit(content=message.text, view=_view(message) if message.buttons else None)

    async def send_file(self, place: Place, file: OutgoingFile, key: str) -> str:
        import discord

        async with _faults():
            sent = discord.File(file.path, filename=file.name)
            try:
                found = await self._place(place).send(file.caption[:2_000] or None, file=sent)
            finally:
                sent.close()
            return str(found.id)

    async def fetch(self, file: IncomingFile, most: int) -> bytes:
        url = require_host(file.id, ("discordapp.com", "discordapp.net"), self._base)
        return await self._read_url(url, most)

    async def typing(self, place: Place) -> None:
        async with _faults():
            await self._place(place).typing()

    async def acknowledge(self, incoming: Incoming, told: str) -> None:
        interaction = self._pressed.pop(incoming.id, None)
        if interaction is None:
            # It was pressed before this process began; the platform has told the person already.
            return
        async with _faults():
            if told:
                await interaction.response.send_message(told[:2_000], ephemeral=True)
            else:
                await interaction.response.defer()

    async def aclose(self) -> None:
        try:
            await super().aclose()
            if self._client is not None:
                await self._client.close()
        except Exception:
            log.warning("the bot could not be closed in order", exc_info=True)

    def _place(self, place: Place) -> discord.PartialMessageable:
        if self._client is None:
            raise GatewayError("Discord is not connected.")
        return self._client.get_partial_messageable(_target(place))

    def _incoming(self, message: discord.Message, *, edited: bool = False) -> Incoming | None:
        """Return a message of Discord in the common form; None if it should be ignored."""
        import discord

        me = self._client.user if self._client is not None else None
        kinds = (discord.MessageType.default, discord.MessageType.reply)
        if message.author.bot or message.type not in kinds or me is None:
            return None
        files = tuple(_file(each) for each in message.attachments)
        if not message.content and not files:
            return None
        text, named = message.content, any(each.id == me.id for each in message.mentions)
        for mark in (f"<@{me.id}>", f"<@!{me.id}>"):
            text = text.strip().removeprefix(mark).strip()
        reference = message.reference
        channel = message.channel
        parent = getattr(channel, "parent_id", None) if isinstance(channel, discord.Thread) else None
        # A server that is not known yet is a server all the same.
        server = message.guild is not None or getattr(channel, "guild_id", None) is not None
        group = server or channel.type is discord.ChannelType.group
        return Incoming(
            id=str(message.id),
            kind="edited" if edited else "message",
            place=Place(str(parent or channel.id), str(channel.id) if parent else ""),
            sender=Sender(str(message.author.id), message.author.display_name),
            text=text,
            files=files,
            group=group,
            mentioned=not group or named,
            message=str(reference.message_id) if reference is not None else "",
        )


def _press(interaction: discord.Interaction) -> Incoming | None:
    import discord

    data: Any = interaction.data or {}
    if interaction.type is not discord.InteractionType.component or interaction.message is None:
        return None
    channel: Any = interaction.channel
    parent = getattr(channel, "parent_id", None) if isinstance(channel, discord.Thread) else None
    return Incoming(
        id=str(interaction.id),
        kind="button",
        place=Place(str(parent or interaction.channel_id), str(interaction.channel_id) if parent else ""),
        sender=Sender(str(interaction.user.id), interaction.user.display_name),
        group=interaction.guild_id is not None,
        button=str(data.get("custom_id", "")),
        message=str(interaction.message.id),
        token=str(interaction.id),
    )


def _file(attachment: discord.Attachment) -> IncomingFile:
    media = (attachment.content_type or "").partition(";")[0]
    kind = "voice" if attachment.is_voice_message() else file_kind(media)
    return IncomingFile(attachment.url, attachment.filename, kind, media, attachment.size)


def _target(place: Place) -> int:
    try:
        return int(place.thread or place.chat)
    except ValueError:
        raise UndeliverableError("A channel of Discord is a number.") from None


def _view(message: Outgoing) -> discord.ui.View:
    import discord

    view = discord.ui.View(timeout=None)
    for each in message.buttons[:5]:
        view.add_item(discord.ui.Button(label=each.label[:80] or each.value, custom_id=each.value))
    return view


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(kept_place(path))
        return {str(int(name)): str(int(last)) for name, last in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


@asynccontextmanager
async def _faults() -> AsyncIterator[None]:
    """Turn errors of the Discord library into the matching `GatewayError`."""
    import aiohttp
    import discord

    try:
        yield
    except discord.LoginFailure as error:
        raise BadCredentialsError("Discord does not take the token; set it again.") from error
    except discord.PrivilegedIntentsRequired as error:
        raise BadCredentialsError(
            "Discord does not let the bot read messages: switch on Message Content Intent on its page."
        ) from error
    except discord.RateLimited as error:
        raise RateLimitedError(error.retry_after) from error
    except (discord.DiscordServerError, discord.GatewayNotFound, discord.ConnectionClosed) as error:
        raise GatewayError(f"Discord cannot be reached ({type(error).__name__}).") from error
    except discord.HTTPException as error:
        if error.status == 429:
            raise RateLimitedError(asked_pause(error.response.headers, error.text.encode())) from error
        if not error.code and getattr(error.response, "content_type", "") != "application/json":
            # A proxy answered.
            raise GatewayError(status_sentence("Discord answers", error.status, "")) from error
        if error.status == 401:
            raise BadCredentialsError("Discord does not take the token; set it again.") from error
        raise UndeliverableError(f"Discord refuses with {error.status}, code {error.code}.") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise GatewayError(f"Discord cannot be reached ({type(error).__name__}).") from error
    except ODD as error:
        raise odd_answer("Discord", error) from error


GATEWAY = GatewayKind(
    name="discord",
    title="Discord",
    make=DiscordAdapter,
    secrets=(
        Secret(
            field="token_env", variable="DISCORD_BOT_TOKEN", asked="Token of the bot: Bot page of the app"
        ),
    ),
    extra="discord",
    module="discord",
)

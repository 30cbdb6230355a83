"""Telegram through its Bot API with long polling. An update is confirmed once it is stored here."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

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
    is_object,
    json_call,
    odd_answer,
    status_sentence,
)
from agent.integrations.gateways.markup import translate_markdown

if TYPE_CHECKING:
    import telegram

log = logging.getLogger(__name__)

T = TypeVar("T")

API = "https://api.telegram.org"
KINDS = ["message", "edited_message", "callback_query"]
"""The kinds of updates that are requested."""
POLL = 25
"""The time in seconds that a request for updates waits at the server."""
LIMITS = PlatformLimits(
    text=4_096,
    unit="utf16",
    form="telegram",
    edits=True,
    edit_pause=1.5,
    buttons=8,
    typing=5.0,
    send_file=50_000_000,
    fetch_file=20_000_000,
)


class TelegramAdapter(Adapter):
    """The connection of one Telegram bot."""

    limits = LIMITS
    title = "Telegram"

    def __init__(self, context: GatewayContext) -> None:
        from telegram import Bot
        from telegram.request import HTTPXRequest

        # Addresses of the API hold the token.
        for name in ("httpx", "httpx2"):
            logging.getLogger(name).setLevel(logging.WARNING)
        super().__init__(context, API)
        base, token = self._base, context.secret("token_env")
        self._address = f"{base}/bot{token}"
        hooks = {"event_hooks": {"response": [_look_at_refusal]}}
        self._bot: telegram.Bot = Bot(
            token,
            base_url=f"{base}/bot",
            base_file_url=f"{base}/file/bot",
            request=HTTPXRequest(8, read_timeout=30, write_timeout=60, httpx_kwargs=hooks),
            get_updates_request=HTTPXRequest(1, read_timeout=POLL + 10, httpx_kwargs=hooks),
        )
        self._started = False
        self._offset: int | None = None
        self._moved: dict[str, str] = {}
        """Groups that have become supergroups: the new id by the old one."""

    async def run(self, take: Take, ready: Callable[[str], None]) -> None:
        async with _faults():
            if not self._started:
                await self._bot.initialize()
                self._started = True
        ready(f"@{self._bot.username}")
        while True:
            for number, update in await self._updates():
                incoming = self._read(update) if update is not None else None
                if incoming is not None:
                    await take(incoming)
                # The next look tells the server that all before it have arrived.
                self._offset = number + 1

    async def _updates(self) -> Sequence[tuple[int, telegram.Update | None]]:
        """Return new updates, each with its id, or None for one that the library cannot read.

        Raises `GatewayError`.
        """
        async with _faults():
            try:
                found = await self._bot.get_updates(self._offset, timeout=POLL, allowed_updates=KINDS)
            except ODD:
                return await self._readable()
        return [(each.update_id, each) for each in found]

    async def _readable(self) -> Sequence[tuple[int, telegram.Update | None]]:
        """Return the same as `_updates`, parsing each update separately.

        The library rejects a whole list because of one update of an unknown version.
        """
        from telegram import Update

        asked = {"offset": self._offset or 0, "timeout": 0, "allowed_updates": KINDS}
        told = await json_call(self._http, "POST", f"{self._address}/getUpdates", "Telegram", body=asked)
        found: list[tuple[int, telegram.Update | None]] = []
        for each in told["result"]:
            try:
                found.append((each["update_id"], Update.de_json(each, self._bot)))
            except (TypeError, KeyError, ValueError, AttributeError) as error:
                log.warning("an update of Telegram is passed over: %s", error)
                found.append((each["update_id"], None))
        return found

    async def send(self, place: Place, message: Outgoing, key: str) -> str:
        from telegram import LinkPreviewOptions, ReplyParameters
        from telegram.error import BadRequest

        reply = None
        if message.reply_to.isdigit():
            reply = ReplyParameters(int(message.reply_to), allow_sending_without_reply=True)

        async def send_text(chat: str, text: str, mode: str | None) -> str:
            found = await self._bot.send_message(
                chat,
                text,
                parse_mode=mode,
                message_thread_id=_thread(place),
                reply_markup=_keyboard(message),
                reply_parameters=reply,
                disable_notification=message.quiet,
                link_preview_options=LinkPreviewOptions(is_disabled=True),
            )
            return str(found.message_id)

        async def send_with_fallback(chat: str) -> str:
            try:
                return await send_text(chat, translate_markdown(message.text, "telegram"), "HTML")
            except BadRequest as error:
                if not _is_markup(error):
                    raise
                return await send_text(chat, message.text, None)

        return await self._at(place, send_with_fallback)

    async def edit(self, place: Place, message_id: str, message: Outgoing) -> None:
        from telegram import LinkPreviewOptions
        from telegram.error import BadRequest

        async def edit_text(chat: str, text: str, mode: str | None) -> None:
            await self._bot.edit_message_text(
                text,
                chat,
                int(message_id),
                parse_mode=mode,
                reply_markup=_keyboard(message),
                link_preview_options=LinkPreviewOptions(is_disabled=True),
            )

        async def edit_with_fallback(chat: str) -> None:
            try:
                await edit_text(chat, translate_markdown(message.text, "telegram"), "HTML")
            except BadRequest as error:
                if "not modified" in error.message.lower():
                    return
                if not _is_markup(error):
                    raise
                await edit_text(chat, message.text, None)

        await self._at(place, edit_with_fallback)

    async def send_file(self, place: Place, file: OutgoingFile, key: str) -> str:
        async def send_to(chat: str) -> str:
            common = {"caption": file.caption[:1_024] or None, "message_thread_id": _thread(place)}
            if file.kind == "image":
                found = await self._bot.send_photo(chat, file.path, filename=file.name, **common)
            elif file.kind == "voice":
                found = await self._bot.send_voice(chat, file.path, filename=file.name, **common)
            else:
                found = await self._bot.send_document(chat, file.path, filename=file.name, **common)
            return str(found.message_id)

        return await self._at(place, send_to)

    async def fetch(self, file: IncomingFile, most: int) -> bytes:
        async with _faults():
            found = await self._bot.get_file(file.id)
        if (found.file_size or 0) > most:
            raise UndeliverableError(f"The file is larger than {most:,} bytes.")
        if not found.file_path:
            raise UndeliverableError("The file is no longer there.")
        return await self._read_url(found.file_path, most)

    async def typing(self, place: Place) -> None:
        async def send_typing(chat: str) -> None:
            await self._bot.send_chat_action(chat, "typing", message_thread_id=_thread(place))

        await self._at(place, send_typing)

    async def _at(self, place: Place, work: Callable[[str], Awaitable[T]]) -> T:
        """Return the result of `work`, called with the chat's current id. May raise `GatewayError`."""
        from telegram.error import ChatMigrated

        async with _faults():
            try:
                return await work(self._moved.get(place.chat, place.chat))
            except ChatMigrated as moved:
                self._moved[place.chat] = str(moved.new_chat_id)
                return await work(str(moved.new_chat_id))

    async def acknowledge(self, incoming: Incoming, told: str) -> None:
        async with _faults():
            await self._bot.answer_callback_query(incoming.token, text=told[:200] or None)

    async def aclose(self) -> None:
        try:
            await super().aclose()
            if self._started:
                await self._bot.shutdown()
        except Exception:
            log.warning("the bot could not be closed in order", exc_info=True)

    def _read(self, update: telegram.Update) -> Incoming | None:
        """Return an update in the common form; None if it should be ignored."""
        from telegram import Message

        if (query := update.callback_query) is not None:
            shown = query.message
            if shown is None or not query.data:
                return None
            thread = (
                shown.message_thread_id if isinstance(shown, Message) and shown.is_topic_message else None
            )
            return Incoming(
                id=query.id,
                kind="button",
                place=Place(str(shown.chat.id), str(thread or "")),
                sender=_sender(query.from_user),
                group=shown.chat.type != "private",
                button=query.data,
                message=str(shown.message_id),
                token=query.id,
            )
        message = update.message or update.edited_message
        if message is not None and (message.migrate_to_chat_id or message.migrate_from_chat_id):
            old = message.migrate_from_chat_id or message.chat.id
            return Incoming(
                id=str(message.message_id),
                kind="moved",
                place=Place(str(old)),
                sender=Sender(""),
                moved_to=str(message.migrate_to_chat_id or message.chat.id),
            )
        if message is None or message.from_user is None or message.from_user.is_bot:
            return None
        text, files = message.text or message.caption or "", tuple(_files(message))
        if not text and not files:
            return None
        replied = message.reply_to_message
        to_us = (
            replied is not None
            and replied.from_user is not None
            and replied.from_user.id == self._bot.id
            and not replied.forum_topic_created
        )
        text, named = self._without_name(text)
        group = message.chat.type != "private"
        return Incoming(
            id=str(message.message_id),
            kind="edited" if update.edited_message is not None else "message",
            place=Place(
                str(message.chat.id), str(message.message_thread_id or "") if message.is_topic_message else ""
            ),
            sender=_sender(message.from_user),
            text=text,
            files=files,
            group=group,
            mentioned=not group or to_us or named,
            message=str(replied.message_id) if replied is not None else "",
        )

    def _without_name(self, text: str) -> tuple[str, bool]:
        """Return the text without the bot's name at its start, and whether it contained the name.

        Upper and lower case count as the same.
        """
        name = f"@{self._bot.username}".lower()
        words = text.split(" ")
        first = words[0]
        if first.startswith("/") and first.lower().endswith(name):
            return " ".join([first[: -len(name)], *words[1:]]), True
        if first.rstrip(",:").lower() == name:
            return " ".join(words[1:]).strip(), True
        return text, any(word.strip(".,:;!?()").lower() == name for word in text.split())


def _sender(user: telegram.User) -> Sender:
    return Sender(str(user.id), user.full_name)


def _files(message: telegram.Message) -> list[IncomingFile]:
    found: list[IncomingFile] = []
    if message.photo:
        largest = max(message.photo, key=lambda each: each.width * each.height)
        found.append(
            IncomingFile(largest.file_id, "photo.jpg", "image", "image/jpeg", largest.file_size or 0)
        )
    if (voice := message.voice) is not None:
        media = voice.mime_type or "audio/ogg"
        found.append(IncomingFile(voice.file_id, "voice.ogg", "voice", media, voice.file_size or 0))
    if (note := message.video_note) is not None:
        found.append(IncomingFile(note.file_id, "video.mp4", "file", "video/mp4", note.file_size or 0))
    for each in (message.audio, message.document, message.video, message.animation):
        if each is not None and not any(known.id == each.file_id for known in found):
            media = each.mime_type or ""
            kind = "image" if media in ("image/png", "image/jpeg", "image/webp") else "file"
            found.append(
                IncomingFile(each.file_id, each.file_name or "file", kind, media, each.file_size or 0)
            )
    return found


def _thread(place: Place) -> int | None:
    return int(place.thread) if place.thread.isdigit() else None


def _keyboard(message: Outgoing) -> telegram.InlineKeyboardMarkup | None:
    if not message.buttons:
        return None
    from telegram import InlineKeyboardButton, InlineKeyboardMarkup

    made = [InlineKeyboardButton(each.label, callback_data=each.value) for each in message.buttons]
    wide = any(len(each.label) > 18 for each in message.buttons)
    step = 1 if wide else 2
    return InlineKeyboardMarkup([made[at : at + step] for at in range(0, len(made), step)])


async def _look_at_refusal(response: Any) -> None:
    """Raise errors that the library misses: for a refusal by a proxy, or a pause given only in a header."""
    from telegram import error as faults

    status = response.status_code
    if status < 400:
        return
    body = await response.aread()
    if status == 429 and b'"retry_after"' not in body:
        raise faults.NetworkError("too many") from RateLimitedError(asked_pause(response.headers, body))
    if not is_object(body):
        raise faults.NetworkError("no answer") from GatewayError(
            status_sentence("Telegram answers", status, "")
        )


def _is_markup(error: Exception) -> bool:
    return "parse entities" in str(error).lower()


@asynccontextmanager
async def _faults() -> AsyncIterator[None]:
    """Turn errors of the Telegram library into errors of the adapter interface."""
    from telegram import error as faults

    try:
        yield
    except faults.RetryAfter as error:
        wait = error.retry_after
        raise RateLimitedError(wait.total_seconds() if isinstance(wait, timedelta) else float(wait)) from None
    except faults.InvalidToken:
        raise BadCredentialsError(
            "Telegram does not take the token; run `hermes gateway setup telegram` with that of @BotFather."
        ) from None
    except (faults.Forbidden, faults.ChatMigrated) as error:
        raise UndeliverableError(f"Telegram refuses: {error.message}") from None
    except faults.Conflict:
        raise GatewayError(
            "Another program polls with the token of this bot; end it, or use another bot."
        ) from None
    except faults.BadRequest as error:
        raise UndeliverableError(f"Telegram refuses: {error.message}") from None
    except faults.TelegramError as error:
        if isinstance(error.__cause__, GatewayError):
            raise error.__cause__ from None
        raise GatewayError(f"Telegram cannot be reached ({type(error).__name__}).") from None
    except ODD as error:
        raise odd_answer("Telegram", error) from error


GATEWAY = GatewayKind(
    name="telegram",
    title="Telegram",
    make=TelegramAdapter,
    secrets=(
        Secret(
            field="token_env",
            variable="TELEGRAM_BOT_TOKEN",
            asked="Token of the bot, as @BotFather gives it",
        ),
    ),
    extra="telegram",
    module="telegram",
)

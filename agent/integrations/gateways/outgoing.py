"""Messages that are not answers to a chat: from jobs, the heartbeat and the tool `send_message`.

They are rows of the store, as answers are. Any program can queue them, and the service sends each once, as
soon as it runs. A target is a messenger (its home chat) or `GATEWAY:CHAT[/THREAD]`. CHAT is the id of a known
chat, or the name or id of a paired person.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mimetypes
import os
import secrets as chance
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any

from agent.core.attachments import size_text
from agent.core.home import private_folder
from agent.errors import ConfigError
from agent.events import Event, ReplyCut, TextAdded, ToolStarted
from agent.integrations.gateways import book
from agent.integrations.gateways.adapter import (
    FileKind,
    GatewayError,
    Outgoing,
    Place,
    RateLimitedError,
    limits_of,
)
from agent.integrations.gateways.markup import chunks
from agent.integrations.gateways.people import home_of, people, place_of
from tools.kit.files import write_new
from tools.text.redact import Redactor, redact

if TYPE_CHECKING:
    from agent.core.config.sections import GatewaySettings, MessengerSettings
    from agent.integrations.gateways.ports import ChatPlace
    from tools.senses.services import MessageFile


FOLDER = "outgoing"
LARGEST_PICTURE = 5_000_000
"""The maximum size in bytes of an image that is sent as an image; a larger one is sent as a file."""
_PICTURES = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
_UNCLAIMED = 3_600.0
"""The age in seconds from which a copy that no message names counts as left behind."""
_AT_ONCE = 32_768


def keep_copy(folder: Path, name: str, data: bytes) -> Mapping[str, Any]:
    """Write a copy of a file below the messenger's folder; return the body of its delivery.

    Blocks. Raises `ConfigError` and `OSError`.
    """
    path = private_folder(folder / FOLDER) / (chance.token_hex(16) + Path(name).suffix[:16])
    try:
        write_new(path, data, durable=True)
    except OSError:
        drop_copy(path)
        raise
    return {"path": str(path), "name": name, "kind": _kind(name, data)}


def drop_copy(path: str | Path) -> None:
    """Delete a copy. Blocks. Never raises: the next start of the messenger tries again."""
    with contextlib.suppress(OSError):
        Path(path).unlink(missing_ok=True)


def drop_unclaimed(folder: Path, claimed: Iterable[str]) -> None:
    """Delete copies that no waiting message needs.

    Recent ones stay, as they may be about to be queued. Blocks.
    """
    held, before = set(claimed), time.time() - _UNCLAIMED
    with contextlib.suppress(OSError), os.scandir(folder / FOLDER) as entries:
        for each in entries:
            if each.path not in held and each.stat(follow_symlinks=False).st_mtime < before:
                drop_copy(each.path)


def holds_secret(data: bytes, secrets: Mapping[str, str]) -> bool:
    """Return whether a file contains a secret.

    Text is searched as a message would be, other files only for known values.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _holds_value(data, [value.encode() for value in secrets.values() if value])
    redactor = Redactor(secrets)
    return any(redactor.feed(piece) != piece for piece in _pieces(text))


def _holds_value(data: bytes, values: list[bytes]) -> bool:
    overlap = max(map(len, values), default=0)
    pieces = (data[at : at + _AT_ONCE + overlap] for at in range(0, len(data), _AT_ONCE))
    return any(value in piece for piece in pieces for value in values)


def _pieces(text: str) -> Iterable[str]:
    """Split a text into pieces of whole lines, each short enough to be searched without delaying other
    threads.
    """
    piece, length = [], 0
    for line in text.splitlines(keepends=True):
        piece.append(line)
        length += len(line)
        if length >= _AT_ONCE:
            yield "".join(piece)
            piece, length = [], 0
    yield "".join(piece)


def _kind(name: str, data: bytes) -> FileKind:
    """Return "image" if name and first bytes mean an image that is not too large; otherwise "file"."""
    begin = _PICTURES.get(mimetypes.guess_type(name)[0] or "")
    is_picture = begin is not None and data.startswith(begin) and len(data) <= LARGEST_PICTURE
    return "image" if is_picture else "file"


HERE = "here"
"""The target that means the chat of the session itself."""
REACHED_BY_ID = ("telegram", "whatsapp", "signal", "email", "webhook")
"""Platforms on which the id of a user is also the id of the chat with that user."""


@dataclass(frozen=True, slots=True)
class ChatTarget:
    """The chat that a message is sent to."""

    gateway: str
    place: Place


class OutgoingMessages:
    """The search for target chats and the queue of messages to them. Methods take a connection and block."""

    def __init__(self, settings: MessengerSettings, secrets: Mapping[str, str]) -> None:
        """Set up the queue. `secrets` maps names to values that are masked in outgoing messages."""
        self._settings = settings
        self._secrets = secrets

    @property
    def enabled_names(self) -> tuple[str, ...]:
        """The names of the messengers that are set up."""
        return tuple(name for name in type(self._settings).model_fields if self._of(name).enabled)

    def names(self, target: str) -> bool:
        """Return whether a target begins with the name of a messenger."""
        return target.partition(":")[0].strip() in type(self._settings).model_fields

    def find(self, c: Connection, target: str, *, named_by_person: bool = False) -> ChatTarget:
        """Return the chat that a target names. Raises `ConfigError`.

        With `named_by_person` the target comes from the settings, so the chat need not be known already.
        """
        name, _, chat = (part.strip() for part in target.partition(":"))
        if name not in type(self._settings).model_fields:
            known = ", ".join(type(self._settings).model_fields)
            raise ConfigError(f"There is no messenger {name[:40]!r}; there are {known}.")
        settings = self._of(name)
        if not settings.enabled:
            raise ConfigError(f"{name} is not set up; run `hermes gateway setup {name}`.")
        place = self._place(c, name, chat, named_by_person) if chat else self._home(c, name)
        if place is None:
            where = f"knows no chat {chat[:60]!r}" if chat else "has no chat to send to"
            raise ConfigError(
                f"{name} {where}; write to Hermes there once and pair yourself, or set gateways.{name}.home."
            )
        return ChatTarget(name, place)

    def here(self, c: Connection, session: str) -> ChatTarget:
        """Return the chat that is connected to a session.

        Raises `ConfigError` unless there is exactly one.
        """
        found = [ChatTarget(name, each.place) for name, each in book.places_of(c, session)]
        if not session or len(found) != 1:
            said = "No chat talks" if not found else "Several chats talk"
            raise ConfigError(f"{said} to this session; name a messenger instead of `{HERE}`.")
        return found[0]

    def file_refusal(self, to: ChatTarget, files: Sequence[MessageFile]) -> str:
        """Return a sentence on why files cannot be sent to a chat; empty if they can.

        Blocks, as it reads the files.
        """
        most = limits_of(to.gateway).send_file
        for each in files:
            if len(each.data) > most:
                return (
                    f"{each.path} has {size_text(len(each.data))}, more than the {size_text(most)} that "
                    f"{to.gateway} takes; make it smaller."
                )
            if not each.data:
                return f"{each.path} is empty; there is nothing to send."
            if holds_secret(each.data, self._secrets):
                return f"{each.path} holds a secret, such as a token or a key; it is not sent."
        return ""

    def queue_message(
        self,
        c: Connection,
        to: ChatTarget,
        text: str,
        title: str = "",
        files: Sequence[Mapping[str, Any]] = (),
    ) -> tuple[int, ...]:
        """Queue a text and copies of files; return their row ids. A long text becomes several messages."""
        limits, now = limits_of(to.gateway), time.time()
        heading = " ".join(title.replace("*", "").split())
        whole = redact(f"**{heading}**\n{text}" if heading else text, self._secrets)
        room = max(limits.text * 9 // 10, 20)
        said = [("text", {"text": piece}) for piece in chunks(whole, room, limits.unit)]
        return tuple(
            book.queue_delivery(c, to.gateway, to.place, kind, body, now)
            for kind, body in (*said, *(("file", each) for each in files))
        )

    def _of(self, name: str) -> GatewaySettings:
        found: GatewaySettings = getattr(self._settings, name)
        return found

    def _home(self, c: Connection, name: str) -> Place | None:
        """Return the owner's chat; None if it is unknown.

        Looks in the settings, then at pairings, then at allowed people.
        """
        settings = self._of(name)
        people_named = [*settings.approve, *settings.allow] if name in REACHED_BY_ID else []
        found = home_of(c, name, settings.home)
        return Place(people_named[0]) if found is None and people_named else found

    def _place(self, c: Connection, name: str, chat: str, is_known: bool) -> Place | None:
        """Return the chat with this id, or of a paired user with this name or id; None if unknown."""
        place, settings = place_of(chat), self._of(name)
        paired = [each for each in people(c) if each.gateway == name and each.scope and each.chat]
        known = {each.place.chat for each in book.bound_places(c, name)}
        known |= {each.chat for each in paired} | {*settings.allow, *settings.approve}
        if is_known or place.chat in known or chat == settings.home:
            return place
        meant = {
            each.chat for each in paired if chat.casefold() in (each.id.casefold(), each.name.casefold())
        }
        return Place(meant.pop()) if len(meant) == 1 else None


def states_of(c: Connection, rows: tuple[int, ...]) -> list[tuple[str, str]]:
    """Return state (`waiting`, `sent` or `failed`) and problem of each queued message."""
    marks = ",".join("?" * len(rows))
    return c.execute(f"SELECT state, problem FROM deliveries WHERE id IN ({marks})", rows).fetchall()


log = logging.getLogger(__name__)

FIRST = 1.0
"""Seconds of a turn before progress is first shown."""
LEAST = 40
"""The number of characters of an answer from which it is shown while it is written."""


class LiveMessage:
    """A message that shows the progress of the running turn.

    It is lost if the process ends; answers are not.
    """

    def __init__(self, head: ChatPlace) -> None:
        self._head = head
        self._task: asyncio.Task[None] | None = None
        self._text = ""
        self._tool = ""
        self._shown = ""
        self._row = 0
        self._message = ""

    def begin(self) -> None:
        """Start showing the progress of a new turn."""
        self.stop()
        self._task = asyncio.create_task(self._run(), name="live message")

    def stop(self) -> None:
        """Stop showing progress, because the turn ended or the place no longer listens."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.forget_progress()

    def handle_event(self, event: Event) -> None:
        """Update the progress from an event."""
        match event:
            case TextAdded():
                self._text += event.text
            case ReplyCut():
                self._text = ""
            case ToolStarted():
                self._tool = f"⚙ {event.display.verb} {event.display.subject}"[:200]
            case _:
                pass

    def forget_progress(self) -> None:
        """Forget the progress, because the complete message is delivered instead."""
        self._text = self._tool = self._shown = self._message = ""
        self._row = 0

    async def _run(self) -> None:
        limits = self._head.gateway.adapter.limits
        typed = 0.0
        while True:
            if limits.typing and time.monotonic() - typed > limits.typing * 0.8:
                typed = time.monotonic()
                await self._safely(self._head.gateway.adapter.typing(self._head.place))
            await asyncio.sleep(max(limits.edit_pause, FIRST) if limits.edits else max(limits.typing / 2, 1))
            if limits.edits and time.monotonic() >= self._head.gateway.paused_until:
                async with self._head.gateway.lock(self._head.place):
                    await self._safely(self._show())

    async def _safely(self, work: Any) -> None:
        try:
            await work
        except RateLimitedError as error:
            self._head.gateway.pause(error.wait)
        except GatewayError as error:
            log.info("%s: %s", self._head.gateway.name, error)
        except Exception:
            log.exception("the answer could not be shown while it is written")

    async def _show(self) -> None:
        head, limits = self._head, self._head.gateway.adapter.limits
        text = self._text if len(self._text.strip()) >= LEAST else self._tool
        session = head.session
        if not text.strip() or session is None:
            return
        pieces = chunks(text, limits.text * 8 // 10, limits.unit)
        # Only as much as one message holds: the rest comes when all of it is there.
        shown = f"{pieces[0]} …"
        if shown == self._shown:
            return
        message = Outgoing(text=shown, quiet=True)
        name, place, id = head.gateway.name, head.place, session.id
        if self._message:
            await head.gateway.adapter.edit(place, self._message, message)
        else:
            self._row = await head.write(
                lambda c: book.queue_delivery(
                    c, name, place, "text", {"text": shown}, time.time(), session=id, state="draft"
                )
            )
            row = self._row
            sent = await head.gateway.adapter.send(place, message, f"hermes-{row}-draft")
            self._message = sent
            await head.write(lambda c: book.mark_sent(c, row, sent))
        self._shown = shown


HERE_WORDS = ("terminal", "page", "here")
"""Target words that mean no chat: terminal and page show every session anyway."""


@dataclass(frozen=True, slots=True)
class SessionMove:
    """The result of moving a session: the chats that lost it, and the chat that has it now."""

    left: tuple[tuple[str, Place], ...]
    to: ChatTarget | None


def move(c: Connection, session: str, title: str, end: int, to: ChatTarget | None) -> SessionMove:
    """Connect the chat `to` to a session, disconnect its other chats, and queue a message to each chat.

    Returns the old and the new chats. `end` is the last node that the new chat need not be sent. If `to` is
    None, the other chats are only disconnected. Raises `ConfigError` if `to` is a group.
    """
    now, left = time.time(), list[tuple[str, Place]]()
    if to is not None:
        refuse_group(c, to)
        # First, so that the session is connected all the time.
        book.bind(c, to.gateway, to.place, session, end, False, now)
    words = f"Continuing at {to.gateway}." if to is not None else back_words(session)
    for gateway, each in book.places_of(c, session):
        if to is not None and (gateway, each.place) == (to.gateway, to.place):
            continue
        book.unbind(c, gateway, each.place)
        book.queue_delivery(c, gateway, each.place, "text", {"text": words}, now)
        left.append((gateway, each.place))
    if to is not None:
        body = {"text": f"Continuing here: {title or session}"}
        book.queue_delivery(c, to.gateway, to.place, "text", body, now)
    return SessionMove(tuple(left), to)


def refuse_group(c: Connection, to: ChatTarget) -> None:
    """Raise `ConfigError` if a chat is a group, where other people read."""
    there = book.find_bound_place(c, to.gateway, to.place)
    if there is not None and there.is_group:
        raise ConfigError("A session moves into a chat of your own, not where others read along.")


def back_words(session: str) -> str:
    """Return the message for a chat whose session continues in the terminal."""
    back = f"`hermes --attach {session}`"
    return f"The session continues in the terminal ({back}) and on the page; /resume brings it back."

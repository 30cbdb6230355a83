"""Messages into chats that answer nothing there: those of jobs, of the heartbeat, of `send_message`.

They are rows of the store, as answers are: whatever program puts them down, the service sends them once, now
or when it runs again. A target is a messenger (its home chat), or `GATEWAY:CHAT[/THREAD]`, where CHAT is the
id of a chat that is known, or the name or id of somebody who was paired.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any

from agent.core.attachments import size_text
from agent.errors import ConfigError
from agent.integrations.gateways import message_rows
from agent.integrations.gateways.adapter import Place
from agent.integrations.gateways.chunks import chunks
from agent.integrations.gateways.homes import home_of, place_of
from agent.integrations.gateways.kinds import limits_of
from agent.integrations.gateways.outgoing_files import holds_secret
from agent.integrations.gateways.people import people
from tools.text.redact import redact

if TYPE_CHECKING:
    from agent.core.config.sections import GatewaySettings, MessengerSettings
    from tools.senses.services import MessageFile


HERE = "here"
"""The target that is the chat of the session itself."""
REACHED_BY_ID = ("telegram", "whatsapp", "signal", "email", "webhook")
"""Where the id of a person is that of the chat with them."""


@dataclass(frozen=True, slots=True)
class ChatTarget:
    """Where a message goes."""

    gateway: str
    place: Place


class OutgoingMessages:
    """Finds targets and puts messages down for them. Its methods work on a connection and are blocking."""

    def __init__(self, settings: MessengerSettings, secrets: Mapping[str, str]) -> None:
        """`secrets` by name: their values are masked in what goes out."""
        self._settings = settings
        self._secrets = secrets

    @property
    def enabled(self) -> tuple[str, ...]:
        """The messengers that are set up."""
        return tuple(name for name in type(self._settings).model_fields if self._of(name).enabled)

    def names(self, target: str) -> bool:
        """Whether a target begins with the name of a messenger."""
        return target.partition(":")[0].strip() in type(self._settings).model_fields

    def find(self, c: Connection, target: str, *, named_by_person: bool = False) -> ChatTarget:
        """The chat that is meant. Raises `ConfigError`.

        `named_by_person`: settings name the chat, so it need not be known from anywhere else.
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
        """The chat that talks to a session. Raises `ConfigError` unless there is just one."""
        found = [ChatTarget(name, each.place) for name, each in message_rows.places_of(c, session)]
        if not session or len(found) != 1:
            said = "No chat talks" if not found else "Several chats talk"
            raise ConfigError(f"{said} to this session; name a messenger instead of `{HERE}`.")
        return found[0]

    def refused(self, to: ChatTarget, files: Sequence[MessageFile]) -> str:
        """Why files cannot go to a chat, in a sentence; empty if they can. Looks through them: blocking."""
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

    def put(
        self,
        c: Connection,
        to: ChatTarget,
        text: str,
        title: str = "",
        files: Sequence[Mapping[str, Any]] = (),
    ) -> tuple[int, ...]:
        """Let a text be sent, in as many messages as the platform needs, and copies of files; their rows."""
        limits, now = limits_of(to.gateway), time.time()
        heading = " ".join(title.replace("*", "").split())
        whole = redact(f"**{heading}**\n{text}" if heading else text, self._secrets)
        room = max(limits.text * 9 // 10, 20)
        said = [("text", {"text": piece}) for piece in chunks(whole, room, limits.unit)]
        return tuple(
            message_rows.deliver(c, to.gateway, to.place, kind, body, now)
            for kind, body in (*said, *(("file", each) for each in files))
        )

    def _of(self, name: str) -> GatewaySettings:
        found: GatewaySettings = getattr(self._settings, name)
        return found

    def _home(self, c: Connection, name: str) -> Place | None:
        """The chat of whoever owns this: as settings or pairing tell, else the first who may approve."""
        settings = self._of(name)
        people_named = [*settings.approve, *settings.allow] if name in REACHED_BY_ID else []
        found = home_of(c, name, settings.home)
        return Place(people_named[0]) if found is None and people_named else found

    def _place(self, c: Connection, name: str, chat: str, is_known: bool) -> Place | None:
        """A chat by its id, or that of somebody who was paired."""
        place, settings = place_of(chat), self._of(name)
        paired = [each for each in people(c) if each.gateway == name and each.scope and each.chat]
        known = {each.place.chat for each in message_rows.places(c, name)}
        known |= {each.chat for each in paired} | {*settings.allow, *settings.approve}
        if is_known or place.chat in known or chat == settings.home:
            return place
        meant = {
            each.chat for each in paired if chat.casefold() in (each.id.casefold(), each.name.casefold())
        }
        return Place(meant.pop()) if len(meant) == 1 else None


def states_of(c: Connection, rows: tuple[int, ...]) -> list[tuple[str, str]]:
    """State (`waiting`, `sent`, `failed`) and problem of messages that were put down."""
    marks = ",".join("?" * len(rows))
    return c.execute(f"SELECT state, problem FROM deliveries WHERE id IN ({marks})", rows).fetchall()

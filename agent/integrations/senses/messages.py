"""Messages to configured targets and to chats of messengers, and control of smart home devices."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agent.core.attachments import size_text
from agent.errors import HermesError
from agent.integrations.gateways.outgoing import (
    HERE,
    ChatTarget,
    OutgoingMessages,
    drop_copy,
    keep_copy,
    states_of,
)
from agent.integrations.senses.online import Online, ServiceAddress
from tools.kit.lazy_pattern import lazy_pattern
from tools.results import ToolError
from tools.senses.services import CallDevice, MessageFile, SendMessage, UseService
from tools.services.actions import Permit

if TYPE_CHECKING:
    from agent.core.config.sections import MessageTargetSettings
    from agent.core.store.connection import Database


TOOL = "send_message"
LONGEST = 4_000
"""The maximum number of characters of one message."""
RECEIPT = 3.0
"""Seconds to wait until a message to a chat is sent; then it counts as queued for the service."""
_LOOK = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTarget:
    """A target with its URL and token."""

    name: str
    url: str
    token: str
    online: Online

    def service(self, base: str) -> ServiceAddress:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return ServiceAddress(name=self.name, base=base, headers=headers)


class Webhook:
    """A target that receives a JSON object with the text under the field names that most services read."""

    def __init__(self, target: MessageTarget) -> None:
        self._target = target

    async def send(self, text: str, title: str) -> Mapping[str, Any]:
        whole = f"{title}\n{text}" if title else text
        body = {"text": whole, "content": whole, "title": title, "message": text}
        service = self._target.service(self._target.url)
        await self._target.online.raw(service, "", body)
        return {}


class Ntfy:
    """A topic of an ntfy server, addressed in its JSON format."""

    def __init__(self, target: MessageTarget) -> None:
        self._target = target

    async def send(self, text: str, title: str) -> Mapping[str, Any]:
        parts = urlsplit(self._target.url)
        topic = parts.path.strip("/")
        if not topic or "/" in topic:
            raise ToolError(
                f"The address of {self._target.name} names no topic; write https://ntfy.sh/TOPIC."
            )
        body = {"topic": topic, "message": text, **({"title": title} if title else {})}
        service = self._target.service(f"{parts.scheme}://{parts.netloc}")
        answer = await self._target.online.json(service, "/", body)
        return {"id": str(answer["id"])} if isinstance(answer, Mapping) and answer.get("id") else {}


ADAPTERS: dict[str, Callable[[MessageTarget], Webhook | Ntfy]] = {"webhook": Webhook, "ntfy": Ntfy}
"""The classes by kind of target; chats are reached through the store."""


@dataclass(frozen=True, slots=True)
class Chats:
    """The messengers, and the store that holds their outgoing messages."""

    outgoing: OutgoingMessages
    database: Database
    folder: Path
    """The folder with a subfolder for each messenger."""
    session: str = ""
    """The id of the session that sends; empty if none does."""


Put = Callable[[Callable[[Any], tuple[int, ...]]], Awaitable[tuple[int, ...]]]
"""A function that runs a change of the store, which queues messages, and returns their row ids."""


class Messenger:
    """The sender of messages to configured targets and to chats."""

    def __init__(
        self,
        targets: Mapping[str, MessageTargetSettings],
        environ: Mapping[str, str],
        online: Online,
        chats: Chats,
    ) -> None:
        self._targets = targets
        self._environ = environ
        self._online = online
        self._chats = chats

    def chat_of(self, name: str) -> str:
        """Return the chat that a target names, as `GATEWAY[:CHAT]` or `here`.

        The text is empty if the target is not a chat.
        """
        settings = self._targets.get(name.strip())
        if settings is not None:
            return settings.chat if settings.kind == "chat" else ""
        return name.strip() if name.strip() == HERE or self._chats.outgoing.names(name) else ""

    async def find(self, name: str) -> ChatTarget:
        """Return the chat of a target that `chat_of` recognizes. Raises `ToolError`."""
        chat, named = self.chat_of(name), name.strip() in self._targets
        outgoing, session = self._chats.outgoing, self._chats.session
        try:
            if chat == HERE:
                return await self._chats.database.read(lambda c: outgoing.here(c, session))
            return await self._chats.database.read(lambda c: outgoing.find(c, chat, named_by_person=named))
        except HermesError as error:
            raise ToolError(str(error)) from error

    async def require(self, name: str) -> None:
        """Raise `ToolError` if a message to this target could not be sent with the current settings."""
        if self.chat_of(name):
            await self.find(name)
        else:
            self._address(name)

    def _address(self, name: str) -> tuple[MessageTargetSettings, str]:
        """Return settings and URL of a configured target that is not a chat. Raises `ToolError`."""
        settings = self._targets.get(name.strip())
        if settings is None:
            known = [*sorted(self._targets), *self._chats.outgoing.enabled_names]
            raise ToolError(f"There is no target {name[:60]!r}; there are: {', '.join(known) or 'none'}.")
        url = self._environ.get(settings.url_env, "") if settings.url_env else settings.url
        if not url:
            missing = (
                f"the variable {settings.url_env}" if settings.url_env else f"messages.targets.{name}.url"
            )
            raise ToolError(f"The address of {name} is missing; set {missing}.")
        return settings, url

    async def queue_message(
        self,
        name: str,
        text: str,
        title: str,
        permit: Permit,
        put: Put | None = None,
        files: Sequence[MessageFile] = (),
    ) -> tuple[int, ...]:
        """Queue a message for a chat, if permitted, and return its row ids. Raises `ToolError`.

        `put` replaces the usual write to the store. The result is empty if it finds the message already
        queued.
        """
        where = await self.find(name)
        outgoing = self._chats.outgoing
        if refused := await asyncio.to_thread(outgoing.file_refusal, where, files):
            raise ToolError(refused)
        # Rules are about chats: a word that stands for one evades none of them.
        target = f"{where.gateway}:{where.place}" if self.chat_of(name) == HERE else name.strip()
        named = tuple(f"{each.path} ({size_text(len(each.data))})" for each in files)
        said = f"{title}: {text}" if title else text
        await permit(SendMessage(tool=TOOL, target=target, text=said, files=named))
        copies = await asyncio.to_thread(self._copy_files, where, files)
        try:
            return await (put or self._chats.database.write)(
                lambda c: outgoing.queue_message(c, where, text, title, copies)
            )
        except HermesError as error:
            for each in copies:
                await asyncio.to_thread(drop_copy, each["path"])
            raise ToolError(str(error)) from error

    def _copy_files(self, where: ChatTarget, files: Sequence[MessageFile]) -> list[Mapping[str, Any]]:
        """Return copies of files, so that later changes do not matter. Blocks. Raises `ToolError`."""
        copies: list[Mapping[str, Any]] = []
        try:
            for each in files:
                copies.append(keep_copy(self._chats.folder / where.gateway, each.name, each.data))
        except (HermesError, OSError) as error:
            for each in copies:
                drop_copy(each["path"])
            reason = getattr(error, "strerror", None) or str(error)
            raise ToolError(f"The files cannot be kept until they are sent: {reason}.") from error
        return copies

    async def send(
        self, name: str, text: str, title: str, permit: Permit, files: Sequence[MessageFile] = ()
    ) -> Mapping[str, Any]:
        """Send a message, if permitted; return the result for the tool. Raises `ToolError`."""
        settings = self._targets.get(name.strip())
        if not (text.strip() or files) or len(text) > LONGEST:
            raise ToolError(f"A message has 1 to {LONGEST:,} characters.")
        if self.chat_of(name):
            return await self._receipt(name, await self.queue_message(name, text, title, permit, files=files))
        if settings is not None and files:
            raise ToolError(f"{name.strip()} takes no files; only chats of messengers do.")
        settings, url = self._address(name)
        token = self._environ.get(settings.token_env, "") if settings.token_env else ""
        whole = f"{title}: {text}" if title else text
        await permit(SendMessage(tool=TOOL, target=name, text=whole))
        target = MessageTarget(name=name, url=url, token=token, online=self._online)
        said = await ADAPTERS[settings.kind](target).send(text, title)
        return {"sent": True, "target": name, **said}

    async def _receipt(self, name: str, rows: tuple[int, ...]) -> Mapping[str, Any]:
        """Wait briefly for queued messages to be sent, and return the result for the tool.

        Raises `ToolError`.
        """
        end = asyncio.get_running_loop().time() + RECEIPT
        while True:
            states = await self._chats.database.read(lambda c: states_of(c, rows))
            problem = next((why for _, why in states if why), "")
            if any(state == "failed" for state, _ in states):
                raise ToolError(f"{name} did not take the message: {problem}")
            if all(state == "sent" for state, _ in states):
                return {"sent": True, "target": name}
            if asyncio.get_running_loop().time() > end:
                note = "It is kept, and sent when the service can (`hermes serve` or `hermes gateway run`)."
                return {"sent": False, "kept": True, "target": name, "note": problem or note}
            await asyncio.sleep(_LOOK)


HOME_TOOL = "homeassistant"
MOST = 200
"""The maximum number of entities that are listed."""
_ENTITY = lazy_pattern(r"[a-z0-9_]+\.[a-z0-9_]+")
_DOMAIN = lazy_pattern(r"[a-z0-9_]+")


class HomeDevices:
    """The devices of one home, controlled through Home Assistant."""

    def __init__(self, url: str, token: str, online: Online) -> None:
        self._service = ServiceAddress(
            name="Home Assistant", base=url, headers={"Authorization": f"Bearer {token}"}
        )
        self._online = online

    async def act(self, arguments: Mapping[str, Any], permit: Permit) -> Mapping[str, Any]:
        """Return the result of `list`, `state`, `services` or `call`, if permitted. Raises `ToolError`."""
        action = str(arguments.get("action"))
        domain = _check_name(str(arguments.get("domain") or ""), _DOMAIN, "a domain")
        entity = _check_name(str(arguments.get("entity") or ""), _ENTITY, "an entity")
        if action == "call":
            return await self._call(arguments, entity, permit)
        await permit(UseService(tool=HOME_TOOL, kind="home", service=self._service.host))
        if action == "services":
            return self._services(await self._get("/api/services"), domain)
        if action == "state":
            if not entity:
                raise ToolError("The state of which entity? Name one, such as light.kitchen.")
            return _state(await self._get(f"/api/states/{entity}"))
        states = await self._get("/api/states")
        found = (
            [_brief(each) for each in states if isinstance(each, Mapping)] if isinstance(states, list) else []
        )
        found = [each for each in found if not domain or each["entity"].startswith(f"{domain}.")]
        result: dict[str, Any] = {"count": len(found), "entities": found[:MOST]}
        if len(found) > MOST:
            result["note"] = "Name a domain to see fewer."
        return result

    async def _get(self, path: str) -> Any:
        return await self._online.json(self._service, path, method="GET")

    def _services(self, found: Any, domain: str) -> dict[str, Any]:
        services: dict[str, list[str]] = {}
        for each in found if isinstance(found, list) else []:
            name, known = str(each.get("domain", "")), each.get("services")
            if isinstance(known, Mapping) and (not domain or name == domain):
                services[name] = sorted(map(str, known))
        return {"count": sum(map(len, services.values())), "services": services}

    async def _call(self, arguments: Mapping[str, Any], entity: str, permit: Permit) -> Mapping[str, Any]:
        service = _check_name(str(arguments.get("service") or ""), _ENTITY, "a service")
        if not service:
            raise ToolError("Which service should be called? Name one, such as light.turn_on.")
        given = arguments.get("data") or {}
        if not isinstance(given, Mapping):
            raise ToolError("The data of a call is an object.")
        sent = {**given, **({"entity_id": entity} if entity else {})}
        shown = json.dumps({key: value for key, value in sent.items() if key != "entity_id" or not entity})
        await permit(
            CallDevice(tool=HOME_TOOL, service=service, entity=entity, data="" if shown == "{}" else shown)
        )
        changed = await self._online.json(
            self._service, f"/api/services/{service.replace('.', '/', 1)}", sent
        )
        found = (
            [_brief(each) for each in changed if isinstance(each, Mapping)]
            if isinstance(changed, list)
            else []
        )
        return {"called": service, "count": len(found), "changed": found[:MOST]}


def _check_name(text: str, form: re.Pattern[str], what: str) -> str:
    text = text.strip()
    if text and not form.fullmatch(text):
        raise ToolError(
            f"{text[:60]!r} is not {what}; names are small letters, digits and _, separated by one dot."
        )
    return text


def _brief(state: Mapping[str, Any]) -> dict[str, str]:
    about = state.get("attributes")
    name = str(about.get("friendly_name", "")) if isinstance(about, Mapping) else ""
    return {"entity": str(state.get("entity_id", "")), "state": str(state.get("state", "")), "name": name}


def _state(state: Any) -> dict[str, Any]:
    if not isinstance(state, Mapping):
        raise ToolError("Home Assistant answers something that is not a state.")
    return {
        "entity": state.get("entity_id"),
        "state": state.get("state"),
        "attributes": state.get("attributes"),
        "changed": state.get("last_changed"),
    }

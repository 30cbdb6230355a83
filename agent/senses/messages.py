"""Messages to targets of the settings. Each kind of target is an adapter; further kinds can join."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from agent.senses.online import Online, ServiceAddress
from tools.results import ToolError
from tools.senses.services import Permit, SendMessage

if TYPE_CHECKING:
    from agent.config.senses import MessageTargetSettings

TOOL = "send_message"
LONGEST = 4_000
"""Characters of one message."""


class MessageAdapter(Protocol):
    """One way to send a message."""

    async def send(self, text: str, title: str) -> Mapping[str, Any]:
        """Send it; what is to be said of it. Raises `ToolError`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTarget:
    """A target with its address and token, ready to be used."""

    name: str
    url: str
    token: str
    online: Online

    def service(self, base: str) -> ServiceAddress:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return ServiceAddress(name=self.name, base=base, headers=headers)


class Webhook:
    """A JSON object with the text under the names that most services read."""

    def __init__(self, target: MessageTarget) -> None:
        self._target = target

    async def send(self, text: str, title: str) -> Mapping[str, Any]:
        whole = f"{title}\n{text}" if title else text
        body = {"text": whole, "content": whole, "title": title, "message": text}
        service = self._target.service(self._target.url)
        await self._target.online.raw(service, "", body)
        return {}


class Ntfy:
    """A topic of an ntfy server, by its JSON form."""

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


ADAPTERS: dict[str, Callable[[MessageTarget], MessageAdapter]] = {"webhook": Webhook, "ntfy": Ntfy}
"""By kind of target; what brings messengers adds theirs."""


class Messenger:
    """Sends to the targets of the settings."""

    def __init__(
        self, targets: Mapping[str, MessageTargetSettings], environ: Mapping[str, str], online: Online
    ) -> None:
        self._targets = targets
        self._environ = environ
        self._online = online

    async def send(self, name: str, text: str, title: str, permit: Permit) -> Mapping[str, Any]:
        """Send a message. Raises `ToolError`."""
        settings = self._targets.get(name.strip())
        if settings is None:
            raise ToolError(
                f"There is no target {name[:60]!r}; there are: {', '.join(sorted(self._targets))}."
            )
        if not text.strip() or len(text) > LONGEST:
            raise ToolError(f"A message has 1 to {LONGEST:,} characters.")
        url = self._environ.get(settings.url_env, "") if settings.url_env else settings.url
        if not url:
            missing = (
                f"the variable {settings.url_env}" if settings.url_env else f"messages.targets.{name}.url"
            )
            raise ToolError(f"The address of {name} is missing; set {missing}.")
        token = self._environ.get(settings.token_env, "") if settings.token_env else ""
        whole = f"{title}: {text}" if title else text
        await permit(SendMessage(tool=TOOL, target=name, text=whole))
        target = MessageTarget(name=name, url=url, token=token, online=self._online)
        said = await ADAPTERS[settings.kind](target).send(text, title)
        return {"sent": True, "target": name, **said}

"""The senses of one agent: what the tools of `tools.senses` ask for, by what the settings name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.integrations.senses.brought import BroughtService, drawn, heard, spoken
from agent.integrations.senses.drawing import Artist
from agent.integrations.senses.hearing import ServicePayer, Transcriber, checked
from agent.integrations.senses.home_devices import HomeDevices
from agent.integrations.senses.looking import Eyes, look
from agent.integrations.senses.messages import Chats, Messenger
from agent.integrations.senses.online import Online
from agent.integrations.senses.readiness import Readiness
from agent.integrations.senses.speaking import Speaker
from tools.results import ToolError
from tools.senses.services import Made, MessageFile, Permit, PictureOrder

if TYPE_CHECKING:
    from agent.core.config.schema import Settings


class AgentSenses:
    """Implements `Senses`. Cheap to make: nothing is read or reached before it is used."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        ready: Mapping[str, Readiness],
        online: Online,
        account: ServicePayer,
        eyes: Eyes,
        chats: Chats,
        brought: Mapping[str, BroughtService] | None = None,
    ) -> None:
        """`brought`: by its tool, the service of a plugin."""
        self._settings = settings
        self._environ = environ
        self._ready = ready
        self._online = online
        self._account = account
        self._eyes = eyes
        self._chats = chats
        self._brought = brought or {}

    async def fetch(self, url: str, tool: str, permit: Permit) -> bytes:
        return await self._online.picture(url, tool, permit)

    async def look(self, data: bytes, name: str, question: str, permit: Permit) -> Mapping[str, Any]:
        return await look(self._eyes, data, name, question, permit)

    async def draw(self, drawing: PictureOrder, permit: Permit, progress: Callable[[str], None]) -> Made:
        by = self._by("image_generate")
        if (service := self._asked("image_generate", by)) is not None:
            progress(f"{service.name} draws")
            return await drawn(service, drawing, permit)
        artist = Artist(self._settings.image, self._environ, self._online, self._account)
        return await artist.draw(by, drawing, permit, progress)

    async def speak(self, text: str, voice: str, permit: Permit) -> Made:
        by = self._by("text_to_speech")
        if (service := self._asked("text_to_speech", by)) is not None:
            return await spoken(service, text, voice or self._settings.speech.voice, permit)
        speaker = Speaker(self._settings.speech, self._environ, self._online, self._account)
        return await speaker.speak(by, text, voice, permit)

    async def hear(self, data: bytes, name: str, language: str, permit: Permit) -> Mapping[str, Any]:
        by = self._by("transcribe")
        if (service := self._asked("transcribe", by)) is not None:
            return await heard(service, data, *checked(data, name, language), permit)
        listener = Transcriber(self._settings.transcribe, self._environ, self._online, self._account)
        return await listener.hear(by, data, name, language, permit)

    async def home(self, arguments: Mapping[str, Any], permit: Permit) -> Mapping[str, Any]:
        url = self._by("homeassistant")
        token = self._environ.get(self._settings.homeassistant.token_env, "")
        return await HomeDevices(url, token, self._online).act(arguments, permit)

    async def send(
        self, target: str, text: str, title: str, permit: Permit, files: Sequence[MessageFile] = ()
    ) -> Mapping[str, Any]:
        self._by("send_message")
        messenger = Messenger(self._settings.messages.targets, self._environ, self._online, self._chats)
        return await messenger.send(target, text, title, permit, files)

    def _asked(self, tool: str, by: str) -> BroughtService | None:
        """The service of a plugin, where the tool works by one."""
        service = self._brought.get(tool)
        return service if service is not None and service.name == by else None

    def _by(self, tool: str) -> str:
        ready = self._ready[tool]
        if not ready.works:
            raise ToolError(f"{tool} cannot work here: {ready.missing}; {ready.mend}.")
        return ready.by

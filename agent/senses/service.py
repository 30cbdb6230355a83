"""The senses of one agent: what the tools of `tools.senses` ask for, by what the settings name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agent.senses.drawing import Artist
from agent.senses.hearing import Transcriber
from agent.senses.home_devices import HomeDevices
from agent.senses.looking import Eyes, look
from agent.senses.messages import Chats, Messenger
from agent.senses.online import Online
from agent.senses.readiness import Readiness
from agent.senses.speaking import Speaker
from agent.senses.spending import ServiceAccount
from tools.results import ToolError
from tools.senses.services import Made, Permit, PictureOrder

if TYPE_CHECKING:
    from agent.config.schema import Settings


class AgentSenses:
    """Implements `Senses`. Cheap to make: nothing is read or reached before it is used."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        ready: Mapping[str, Readiness],
        online: Online,
        account: ServiceAccount,
        eyes: Eyes,
        chats: Chats,
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._ready = ready
        self._online = online
        self._account = account
        self._eyes = eyes
        self._chats = chats

    async def fetch(self, url: str, tool: str, permit: Permit) -> bytes:
        return await self._online.picture(url, tool, permit)

    async def look(self, data: bytes, name: str, question: str, permit: Permit) -> Mapping[str, Any]:
        return await look(self._eyes, data, name, question, permit)

    async def draw(self, drawing: PictureOrder, permit: Permit, progress: Callable[[str], None]) -> Made:
        artist = Artist(self._settings.image, self._environ, self._online, self._account)
        return await artist.draw(self._by("image_generate"), drawing, permit, progress)

    async def speak(self, text: str, voice: str, permit: Permit) -> Made:
        speaker = Speaker(self._settings.speech, self._environ, self._online, self._account)
        return await speaker.speak(self._by("text_to_speech"), text, voice, permit)

    async def hear(self, data: bytes, name: str, language: str, permit: Permit) -> Mapping[str, Any]:
        listener = Transcriber(self._settings.transcribe, self._environ, self._online, self._account)
        return await listener.hear(self._by("transcribe"), data, name, language, permit)

    async def home(self, arguments: Mapping[str, Any], permit: Permit) -> Mapping[str, Any]:
        url = self._by("homeassistant")
        token = self._environ.get(self._settings.homeassistant.token_env, "")
        return await HomeDevices(url, token, self._online).act(arguments, permit)

    async def send(self, target: str, text: str, title: str, permit: Permit) -> Mapping[str, Any]:
        self._by("send_message")
        messenger = Messenger(self._settings.messages.targets, self._environ, self._online, self._chats)
        return await messenger.send(target, text, title, permit)

    def _by(self, tool: str) -> str:
        ready = self._ready[tool]
        if not ready.works:
            raise ToolError(f"{tool} cannot work here: {ready.missing}; {ready.mend}.")
        return ready.by

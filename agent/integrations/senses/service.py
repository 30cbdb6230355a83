"""Images, speech, messages and devices for one agent: implements the interface in `tools.senses`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.core.config.known_secrets import known_secrets
from agent.core.net.door import WebClient
from agent.errors import HermesError
from agent.integrations.senses.hearing import (
    Payment,
    Recording,
    Transcriber,
    check_recording,
    recorder,
    whisper_is_installed,
)
from agent.integrations.senses.kinds import ServiceOfPlugin, draw_picture, speak_text, transcribe_sound
from agent.integrations.senses.messages import Chats, HomeDevices, Messenger
from agent.integrations.senses.online import Online
from agent.integrations.senses.pictures import ImageGenerator, VisionAccess, analyze, is_installed
from agent.integrations.senses.speaking import Speaker, espeak, hibari_is_installed
from tools.extras import add_hint
from tools.results import ToolError
from tools.senses.services import GeneratedFile, MessageFile, PictureRequest, Senses
from tools.services.actions import Permit

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings
    from agent.core.config.schema import Settings


NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether one tool can be used, and with which backend."""

    tool: str
    by: str = ""
    """The backend that it uses; empty if it cannot be used."""
    missing: str = ""
    mend: str = ""
    is_chosen: bool = False
    """Whether the settings ask for the backend that is missing."""

    @property
    def works(self) -> bool:
        return bool(self.by)


def readiness(
    settings: Settings, environ: Mapping[str, str], *, sees: bool, brought: Mapping[str, str] = NOTHING
) -> tuple[Readiness, ...]:
    """Return the readiness of every tool.

    `sees` tells whether the model accepts images; `brought` names the services of plugins by tool.
    """
    return (
        _vision(settings, sees),
        _image(settings, environ, brought.get("image_generate", "")),
        _speech(settings, environ, brought.get("text_to_speech", "")),
        _transcribe(settings, environ, brought.get("transcribe", "")),
        _home(settings, environ),
        _messages(settings, environ),
    )


def _vision(settings: Settings, sees: bool) -> Readiness:
    vision = settings.vision
    if sees:
        return Readiness(tool="vision_analyze", by="the model itself")
    if vision.model:
        return Readiness(tool="vision_analyze", by=vision.model)
    if vision.ocr and is_installed():
        return Readiness(tool="vision_analyze", by="text reader")
    return Readiness(
        tool="vision_analyze",
        missing="the model does not see, and nothing reads pictures for it",
        mend=f"{add_hint('ocr')}, or hermes config set vision.model PROVIDER/MODEL",
    )


def _image(settings: Settings, environ: Mapping[str, str], brought: str) -> Readiness:
    image = settings.image
    ready = {
        "openai": bool(image.base_url),
        "fal": bool(environ.get(image.fal_key_env)) and "/" in image.model,
        "local": image.backend == "local",
    }
    by = _choose_backend(image.backend, brought, ready)
    return Readiness(
        tool="image_generate",
        by=by,
        missing="" if by else _not(image.backend, "no service that draws is set up"),
        mend=""
        if by
        else "hermes config set image.base_url https://api.openai.com/v1 (or image.backend local)",
        is_chosen=image.backend not in ("auto", "off"),
    )


def _speech(settings: Settings, environ: Mapping[str, str], brought: str) -> Readiness:
    speech = settings.speech
    ready = {
        "openai": bool(speech.base_url),
        "elevenlabs": bool(environ.get(speech.elevenlabs_key_env)),
        "hibari": hibari_is_installed(),
        "espeak": bool(espeak(environ.get("PATH", ""))),
    }
    by = _choose_backend(speech.backend, brought, ready)
    return Readiness(
        tool="text_to_speech",
        by=by,
        missing="" if by else _not(speech.backend, "nothing that speaks is set up or installed"),
        mend="" if by else f"{add_hint('speech')}, or sudo apt install espeak-ng",
        is_chosen=speech.backend not in ("auto", "off"),
    )


def _transcribe(settings: Settings, environ: Mapping[str, str], brought: str) -> Readiness:
    transcribe = settings.transcribe
    by = _choose_backend(
        transcribe.backend, brought, {"openai": bool(transcribe.base_url), "local": whisper_is_installed()}
    )
    return Readiness(
        tool="transcribe",
        by=by,
        missing="" if by else _not(transcribe.backend, "nothing that listens is set up or installed"),
        mend=""
        if by
        else "hermes config set transcribe.base_url https://api.openai.com/v1, or pip install faster-whisper",
        is_chosen=transcribe.backend not in ("auto", "off"),
    )


def _home(settings: Settings, environ: Mapping[str, str]) -> Readiness:
    home = settings.homeassistant
    token = bool(environ.get(home.token_env))
    if home.url and token:
        return Readiness(tool="homeassistant", by=home.url)
    missing = f"the variable {home.token_env} is not set" if home.url else "no address is set"
    mend = f"export {home.token_env}=…" if home.url else "hermes config set homeassistant.url http://…:8123"
    return Readiness(tool="homeassistant", missing=missing, mend=mend, is_chosen=bool(home.url))


def _messages(settings: Settings, environ: Mapping[str, str]) -> Readiness:
    targets = settings.messages.targets
    named = {
        name: bool(each.chat or each.url or (each.url_env and environ.get(each.url_env)))
        for name, each in targets.items()
    }
    gateways = settings.gateways
    chats = [name for name in type(gateways).model_fields if getattr(gateways, name).enabled]
    if usable := [*(name for name, is_there in named.items() if is_there), *chats]:
        return Readiness(tool="send_message", by=", ".join(usable))
    missing = f"the address of {', '.join(named)} is not set" if named else "no target is set"
    mend = "hermes gateway setup telegram, or messages.targets in config.yaml; see docs/senses.md"
    return Readiness(tool="send_message", missing=missing, mend=mend, is_chosen=bool(named))


def _choose_backend(backend: str, brought: str, ready: Mapping[str, bool]) -> str:
    """Return the backend of a tool; empty if unavailable. With `auto`, a plugin's service comes first."""
    if backend == "auto":
        return brought or next((name for name, is_ready in ready.items() if is_ready), "")
    return backend if ready.get(backend) else ""


def _not(backend: str, usual: str) -> str:
    if backend == "off":
        return "it is switched off"
    return usual if backend == "auto" else f"{backend} is chosen, and is not set up or installed"


class AgentSenses(Senses):
    """The `Senses` of one agent. Creating it is cheap: nothing is read or contacted before its first use."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        ready: Mapping[str, Readiness],
        online: Online,
        pay: Payment,
        eyes: VisionAccess,
        chats: Chats,
        brought: Mapping[str, ServiceOfPlugin] | None = None,
    ) -> None:
        """Set up the services. `brought` maps tools to services of plugins."""
        self._settings = settings
        self._environ = environ
        self._ready = ready
        self._online = online
        self._pay = pay
        self._eyes = eyes
        self._chats = chats
        self._brought = brought or {}

    async def fetch(self, url: str, tool: str, permit: Permit) -> bytes:
        return await self._online.picture(url, tool, permit)

    async def analyze(self, data: bytes, name: str, question: str, permit: Permit) -> Mapping[str, Any]:
        return await analyze(self._eyes, data, name, question, permit)

    async def generate(
        self, drawing: PictureRequest, permit: Permit, progress: Callable[[str], None]
    ) -> GeneratedFile:
        by = self._by("image_generate")
        if (service := self._brought_service("image_generate", by)) is not None:
            progress(f"{service.name} draws")
            return await draw_picture(service, drawing, permit)
        artist = ImageGenerator(self._settings.image, self._environ, self._online, self._pay)
        return await artist.generate(by, drawing, permit, progress)

    async def speak(self, text: str, voice: str, permit: Permit) -> GeneratedFile:
        by = self._by("text_to_speech")
        if (service := self._brought_service("text_to_speech", by)) is not None:
            return await speak_text(service, text, voice or self._settings.speech.voice, permit)
        speaker = Speaker(self._settings.speech, self._environ, self._online, self._pay)
        return await speaker.speak(by, text, voice, permit)

    async def transcribe(self, data: bytes, name: str, language: str, permit: Permit) -> Mapping[str, Any]:
        by = self._by("transcribe")
        if (service := self._brought_service("transcribe", by)) is not None:
            return await transcribe_sound(service, data, *check_recording(data, name, language), permit)
        listener = Transcriber(self._settings.transcribe, self._environ, self._online, self._pay)
        return await listener.transcribe(by, data, name, language, permit)

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

    def _brought_service(self, tool: str, by: str) -> ServiceOfPlugin | None:
        """Return the plugin's service for a tool; None if the tool uses another backend."""
        service = self._brought.get(tool)
        return service if service is not None and service.name == by else None

    def _by(self, tool: str) -> str:
        ready = self._ready[tool]
        if not ready.works:
            raise ToolError(f"{tool} cannot work here: {ready.missing}; {ready.mend}.")
        return ready.by


class DictationError(HermesError):
    """The error that speech cannot be transcribed. The text gives the reason and the fix."""


class Dictation:
    """One dictation: a recording and its transcription.

    No sound leaves this machine before the recording has ended.
    """

    def __init__(
        self,
        loaded: LoadedSettings,
        environ: Mapping[str, str],
        brought: ServiceOfPlugin | None = None,
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Set up the dictation. `brought` is a plugin's transcription service; `close` ends what was started
        for it.

        Raises `HermesError` if no recorder or no transcription backend is available.
        """
        self._settings, self._variables = loaded.settings.transcribe, loaded.environ
        names = {} if brought is None else {"transcribe": brought.name}
        found = readiness(loaded.settings, loaded.environ, sees=True, brought=names)
        ready = next(each for each in found if each.tool == "transcribe")
        self._brought = brought if brought is not None and brought.name == ready.by else None
        self._close = close
        if not ready.works:
            raise DictationError(f"What is said cannot be written down: {ready.missing}; {ready.mend}.")
        self._by, self._environ = ready.by, environ
        path = environ.get("PATH", "")
        self.recording = Recording(recorder(self._settings.recorder, path), path)

    async def transcribe(self, sound: bytes) -> str:
        """Return the text of a recording. Raises `DictationError`."""
        try:
            if self._brought is not None:
                said = await transcribe_sound(self._brought, sound, ".wav", "", _allow)
            else:
                online = Online(WebClient(secrets=known_secrets(self._variables), environ=self._environ))
                listener = Transcriber(self._settings, self._variables, online, _record_no_cost)
                said = await listener.transcribe(self._by, sound, "said.wav", "", _allow)
        except ToolError as error:
            raise DictationError(str(error)) from error
        return str(said["text"]).strip()

    async def aclose(self) -> None:
        """Discard the recording, and end the plugin service that was started for it."""
        await self.recording.discard()
        if self._close is not None:
            await self._close()


@asynccontextmanager
async def _record_no_cost(_name: str, _price: float | None) -> AsyncIterator[None]:
    """Do nothing: the cost of an action of the user is counted only by the service itself."""
    yield


async def _allow(_action: object) -> None:
    """Allow the action: the user approved it by pressing the key."""

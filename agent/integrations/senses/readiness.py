"""The state of each of the senses: whether it can work, by what, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.integrations.senses.hearing import whisper_is_installed
from agent.integrations.senses.ocr import is_installed
from agent.integrations.senses.speaking import espeak, hibari_is_installed
from tools.extras import add_hint

if TYPE_CHECKING:
    from agent.core.config.schema import Settings

NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """How one tool stands."""

    tool: str
    by: str = ""
    """What it works by; empty where it cannot."""
    missing: str = ""
    mend: str = ""
    is_chosen: bool = False
    """Whether the settings ask for what is missing."""

    @property
    def works(self) -> bool:
        return bool(self.by)


def readiness(
    settings: Settings, environ: Mapping[str, str], *, sees: bool, brought: Mapping[str, str] = NOTHING
) -> tuple[Readiness, ...]:
    """All of them. `sees`: whether the model reads pictures; `brought`: services of plugins, by tool."""
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
    by = _chosen(image.backend, brought, ready)
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
    by = _chosen(speech.backend, brought, ready)
    return Readiness(
        tool="text_to_speech",
        by=by,
        missing="" if by else _not(speech.backend, "nothing that speaks is set up or installed"),
        mend="" if by else f"{add_hint('speech')}, or sudo apt install espeak-ng",
        is_chosen=speech.backend not in ("auto", "off"),
    )


def _transcribe(settings: Settings, environ: Mapping[str, str], brought: str) -> Readiness:
    transcribe = settings.transcribe
    by = _chosen(
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


def _chosen(backend: str, brought: str, ready: Mapping[str, bool]) -> str:
    """What a tool works by: with `auto` the service of a plugin comes first."""
    if backend == "auto":
        return brought or next((name for name, is_ready in ready.items() if is_ready), "")
    return backend if ready.get(backend) else ""


def _not(backend: str, usual: str) -> str:
    if backend == "off":
        return "it is switched off"
    return usual if backend == "auto" else f"{backend} is chosen, and is not set up or installed"

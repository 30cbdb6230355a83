"""Settings of what sees, draws, speaks, hears, and reaches devices and people."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agent.core.config.section import SettingsSection

Variable = Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")]
_KEY = "Name of the variable that holds the key, never the key itself."


class VisionSettings(SettingsSection):
    model: str = Field(
        "", description="Model that looks at pictures for one that does not see; empty = none."
    )
    ocr: bool = Field(
        True, description="Whether text in pictures is read on this machine where no model sees."
    )


class ImageSettings(SettingsSection):
    backend: Literal["auto", "openai", "fal", "local", "off"] = Field(
        "auto", description="Who draws; `auto`: what is set up here, `local`: shapes drawn on this machine."
    )
    base_url: str = Field("", description="Address of an OpenAI-compatible API that draws, ending in /v1.")
    model: str = Field("gpt-image-1", description="Model that draws; for fal its path, as `fal-ai/flux/dev`.")
    api_key_env: Variable = Field("OPENAI_API_KEY", description=_KEY)
    fal_url: str = Field("https://fal.run", description="Address of fal.")
    fal_key_env: Variable = Field("FAL_KEY", description=_KEY)
    price: float | None = Field(None, ge=0, description="US dollars for one picture; unset = unknown.")
    timeout: float = Field(180, gt=0, le=1_800, description="Seconds a picture may take.")


class SpeechSettings(SettingsSection):
    backend: Literal["auto", "openai", "elevenlabs", "hibari", "espeak", "off"] = Field(
        "auto", description="Who reads aloud; `auto`: what is set up here, else what is on this machine."
    )
    base_url: str = Field("", description="Address of an OpenAI-compatible API that speaks, ending in /v1.")
    model: str = Field("gpt-4o-mini-tts", description="Model that speaks.")
    voice: str = Field("", description="Voice; empty = the first one of whoever speaks.")
    api_key_env: Variable = Field("OPENAI_API_KEY", description=_KEY)
    elevenlabs_url: str = Field("https://api.elevenlabs.io", description="Address of ElevenLabs.")
    elevenlabs_key_env: Variable = Field("ELEVENLABS_API_KEY", description=_KEY)
    price: float | None = Field(
        None, ge=0, description="US dollars for a thousand characters; unset = unknown."
    )
    player: str = Field("", description="Command that plays a sound file; empty = one that is found.")


class TranscribeSettings(SettingsSection):
    backend: Literal["auto", "openai", "local", "off"] = Field(
        "auto", description="Who writes down what is said; `auto`: what is set up here, else this machine."
    )
    base_url: str = Field("", description="Address of an OpenAI-compatible API that listens, ending in /v1.")
    model: str = Field("whisper-1", description="Model that listens; on this machine a path or a known size.")
    api_key_env: Variable = Field("OPENAI_API_KEY", description=_KEY)
    price: float | None = Field(None, ge=0, description="US dollars for one recording; unset = unknown.")
    recorder: str = Field("", description="Command that records into a WAV file; empty = one that is found.")


class HomeAssistantSettings(SettingsSection):
    url: str = Field("", description="Address of Home Assistant, as `http://homeassistant.local:8123`.")
    token_env: Variable = Field("HASS_TOKEN", description="Name of the variable with its long-lived token.")


class MessageTargetSettings(SettingsSection):
    kind: Literal["webhook", "ntfy", "chat"] = Field(description="How it is reached.")
    chat: str = Field("", description="For `chat`: a messenger, or GATEWAY:CHAT[/THREAD].")
    url: str = Field("", description="Address of a webhook, or of an ntfy topic; empty = that of `url_env`.")
    url_env: Variable = Field("", description="Variable with the address, where that is itself a secret.")
    token_env: Variable = Field("", description="Variable with a token that is sent along; empty = none.")


class MessageSettings(SettingsSection):
    targets: dict[str, MessageTargetSettings] = Field(
        default={}, description="Whom messages can be sent to, by name; see docs/senses.md."
    )

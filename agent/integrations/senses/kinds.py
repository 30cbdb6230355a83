"""Formats of images and sounds, and services of plugins that make or read them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tools.results import ToolError
from tools.senses.services import GeneratedFile, PictureRequest, UseService
from tools.services.actions import Permit
from tools.text.safe_text import clean


def picture_ending(data: bytes) -> str:
    """Return the file extension for an image; empty if the data is not a supported image."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return ".png"
    if data.startswith(b"\xff\xd8\xff"):
        return ".jpg"
    return ".webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""


def sound_ending(data: bytes) -> str:
    """Return the file extension for a sound; empty if the data is not a sound."""
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return ".wav"
    if data.startswith(b"OggS"):
        return ".ogg"
    if data.startswith(b"fLaC"):
        return ".flac"
    is_mp3 = data.startswith(b"ID3") or (len(data) > 1 and data[0] == 0xFF and data[1] & 0xE0 == 0xE0)
    return ".mp3" if is_mp3 else ""


def command(program: Path) -> tuple[str, ...]:
    """Return the command that runs a Python program with the libraries of this one."""
    run = f"runpy.run_path({str(program)!r}, run_name='__main__')"
    return (sys.executable, "-c", f"import runpy, sys; sys.path[:] = {sys.path!r}; {run}")


_LONGEST_NOTE = 500
"""The maximum number of characters of a service's note on what it made."""


@dataclass(frozen=True, slots=True)
class PluginAnswer:
    """The answer of a plugin's service: its data, and the content of the file it made."""

    said: Any
    data: bytes = b""


class ServiceOfPlugin(Protocol):
    """One service of a plugin."""

    @property
    def name(self) -> str:
        """The name in results: `plugin.service`."""
        ...

    @property
    def hosts(self) -> str:
        """The hosts that the plugin declares. Data given to the service may be sent there."""
        ...

    async def ask(self, given: Mapping[str, Any], files: Sequence[tuple[str, bytes]] = ()) -> PluginAnswer:
        """Return the service's answer. Raises `ToolError`.

        `files`, each with extension and content, are written where the service can read them.
        """
        ...


async def draw_picture(service: ServiceOfPlugin, order: PictureRequest, permit: Permit) -> GeneratedFile:
    """Return an image that a plugin's service generates, if permitted. Raises `ToolError`."""
    await permit(UseService(tool="image_generate", kind="draw", service=service.name, hosts=service.hosts))
    given = {"prompt": order.prompt, "shape": order.shape, "seed": order.seed}
    files = [(picture_ending(data) or ".png", data) for data in order.like]
    answer = await service.ask(given, files)
    if not (ending := picture_ending(answer.data)):
        raise ToolError(f"{service.name} gave something that is not a png, jpeg or webp picture.")
    return GeneratedFile(
        data=answer.data, ending=ending, by=service.name, note=_note(answer), seed=_seed(answer)
    )


async def speak_text(service: ServiceOfPlugin, text: str, voice: str, permit: Permit) -> GeneratedFile:
    """Make a service read a text aloud, if permitted; return the sound. Raises `ToolError`."""
    await permit(UseService(tool="text_to_speech", kind="speak", service=service.name, hosts=service.hosts))
    answer = await service.ask({"text": text, "voice": voice})
    if not (ending := sound_ending(answer.data)):
        raise ToolError(f"{service.name} gave something that is not a wav, mp3, ogg or flac sound.")
    return GeneratedFile(data=answer.data, ending=ending, by=service.name, note=_note(answer))


async def transcribe_sound(
    service: ServiceOfPlugin, data: bytes, ending: str, language: str, permit: Permit
) -> Mapping[str, Any]:
    """Make a service transcribe a recording, if permitted; return its text. Raises `ToolError`."""
    await permit(UseService(tool="transcribe", kind="hear", service=service.name, hosts=service.hosts))
    answer = await service.ask({"language": language}, [(ending, data)])
    said = answer.said
    text = said.get("text") if isinstance(said, Mapping) else said
    if not isinstance(text, str):
        raise ToolError(f"{service.name} gave no text.")
    return {"text": clean(text).strip(), "by": service.name}


def _note(answer: PluginAnswer) -> str:
    note = answer.said.get("note") if isinstance(answer.said, Mapping) else None
    return clean(note)[:_LONGEST_NOTE] if isinstance(note, str) else ""


def _seed(answer: PluginAnswer) -> int | None:
    seed = answer.said.get("seed") if isinstance(answer.said, Mapping) else None
    return seed if isinstance(seed, int) and not isinstance(seed, bool) else None

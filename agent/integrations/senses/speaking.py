"""Text read aloud: by services, by hibari or by espeak-ng on this machine."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import wave
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from agent.core.net.door import DoorLimits
from agent.integrations.senses.children import command
from agent.integrations.senses.hearing import ServicePayer
from agent.integrations.senses.kinds import sound_ending
from agent.integrations.senses.online import Online, ServiceAddress
from tools.kit.children import run_child, start_child
from tools.results import ToolError
from tools.senses.services import Made, Permit, UseService
from tools.senses.spoken import sentences

if TYPE_CHECKING:
    from agent.core.config.sections import SpeechSettings

TOOL = "text_to_speech"
RATE = 24_000
"""Samples a second of what hibari says."""
SECONDS = 120.0
_CHILD = Path(__file__).with_name("speech_child.py")
_LIMITS = DoorLimits(size=40_000_000, unpacked=40_000_000, seconds=SECONDS)
_ELEVENLABS_VOICE, _ELEVENLABS_MODEL = "21m00Tcm4TlvDq8ikWAM", "eleven_multilingual_v2"


@cache
def hibari_is_installed() -> bool:
    """Whether the offline voice can be used. Imports nothing, looks once in a process."""
    return find_spec("hibari") is not None and find_spec("onnxruntime") is not None


def espeak(path: str) -> str:
    """The program that speaks on most machines; empty if there is none."""
    return shutil.which("espeak-ng", path=path) or shutil.which("espeak", path=path) or ""


class Speaker:
    """Speaks by what the settings name."""

    def __init__(
        self, settings: SpeechSettings, environ: Mapping[str, str], online: Online, account: ServicePayer
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._online = online
        self._account = account

    async def speak(self, backend: str, text: str, voice: str, permit: Permit) -> Made:
        """A text read aloud by `openai`, `elevenlabs`, `hibari` or `espeak`. Raises `ToolError`."""
        voice = voice or self._settings.voice
        if backend in ("hibari", "espeak"):
            await permit(UseService(tool=TOOL, kind="speak", service="this machine"))
            if backend == "hibari":
                sound, note = await by_hibari(text), ""
                if voice and voice != "heart":
                    note = f"The voice {voice} is not on this machine; heart speaks."
                return Made(data=sound, ending=".wav", by="hibari", note=note, cost=0.0)
            program = espeak(self._environ.get("PATH", ""))
            return Made(data=await by_espeak(program, text, voice), ending=".wav", by="espeak-ng", cost=0.0)
        service, path, body = self._order(backend, text, voice)
        await permit(UseService(tool=TOOL, kind="speak", service=service.host))
        settings = self._settings
        price = None if settings.price is None else settings.price * len(text) / 1_000
        name = f"{backend}/{settings.model if backend == 'openai' else _ELEVENLABS_MODEL}"
        async with self._account.paying(name, price):
            answer = await self._online.raw(service, path, body, limits=_LIMITS)
            if (ending := sound_ending(answer.body)) == "":
                raise ToolError(f"{service.name} sent something that is no sound.")
        return Made(data=answer.body, ending=ending, by=name, cost=price)

    def _order(self, backend: str, text: str, voice: str) -> tuple[ServiceAddress, str, object]:
        settings = self._settings
        if backend == "elevenlabs":
            key = self._environ.get(settings.elevenlabs_key_env, "")
            service = ServiceAddress(
                name="ElevenLabs",
                base=settings.elevenlabs_url,
                headers={"xi-api-key": key, "Accept": "audio/mpeg"},
            )
            path = (
                f"/v1/text-to-speech/{quote(voice or _ELEVENLABS_VOICE, safe='')}?output_format=mp3_44100_128"
            )
            return service, path, {"text": text, "model_id": _ELEVENLABS_MODEL}
        key = self._environ.get(settings.api_key_env, "") if settings.api_key_env else ""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        service = ServiceAddress(name="The speech service", base=settings.base_url, headers=headers)
        body = {"model": settings.model, "input": text, "voice": voice or "alloy", "response_format": "mp3"}
        return service, "/audio/speech", body


class HibariProcess:
    """The offline voice in a process of its own, which says one sentence after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> HibariProcess:
        process = await start_child(
            command(_CHILD),
            stdin=asyncio.subprocess.PIPE,
            env={"OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"},
            private=True,
        )
        return cls(process)

    async def say(self, sentence: str) -> bytes:
        """The samples of a sentence. Raises `ToolError`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"text": sentence}).encode() + b"\n")
            size = int.from_bytes(await self._process.stdout.readexactly(4), "little")
            return await self._process.stdout.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise ToolError("The offline voice ended; `hermes doctor` says whether it is whole.") from error

    async def close(self) -> None:
        """End the process."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


async def by_hibari(text: str) -> bytes:
    """A text as a WAV file. Raises `ToolError`."""
    process = await HibariProcess.start()
    try:
        async with asyncio.timeout(SECONDS):
            pieces = [await process.say(sentence) for sentence in sentences(text)]
    except TimeoutError:
        raise ToolError(f"The offline voice did not finish within {SECONDS:g} s; give it less.") from None
    finally:
        await process.close()
    return wav(b"".join(pieces))


def wav(samples: bytes, rate: int = RATE) -> bytes:
    """16-bit samples of one channel as a WAV file."""
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples)
    return written.getvalue()


async def by_espeak(program: str, text: str, voice: str) -> bytes:
    """A text as a WAV file. Raises `ToolError`."""
    if not program:
        raise ToolError("espeak-ng is not installed; `hermes doctor` names the ways to speak.")
    chosen = ["-v", voice] if voice and not voice.startswith("-") else []
    try:
        sound = await run_child(
            [program, "--stdin", "--stdout", *chosen],
            text.encode(),
            seconds=SECONDS,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        )
    except TimeoutError:
        raise ToolError(f"espeak-ng did not finish within {SECONDS:g} s; give it less.") from None
    if not sound.startswith(b"RIFF"):
        raise ToolError("espeak-ng made no sound; its voice may not be installed.")
    return sound

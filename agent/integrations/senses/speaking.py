"""Speech output: by services, or on this machine by hibari or espeak-ng."""

from __future__ import annotations

import asyncio
import io
import json
import shlex
import shutil
import wave
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from agent.core.net.door import WebLimits
from agent.integrations.senses.hearing import Payment
from agent.integrations.senses.kinds import command, sound_ending
from agent.integrations.senses.online import Online, ServiceAddress
from tools.extras import add_hint
from tools.kit.children import run_child, start_child
from tools.kit.private_folders import PrivateFolder
from tools.results import ToolError
from tools.senses.services import GeneratedFile, UseService
from tools.senses.spoken import sentences
from tools.services.actions import Permit

if TYPE_CHECKING:
    from agent.core.config.sections import SpeechSettings


TOOL = "text_to_speech"
RATE = 24_000
"""The sample rate of hibari's output, in samples per second."""
SECONDS = 120.0
_CHILD = Path(__file__).with_name("speech_child.py")
_LIMITS = WebLimits(size=40_000_000, unpacked=40_000_000, seconds=SECONDS)
_ELEVENLABS_VOICE, _ELEVENLABS_MODEL = "21m00Tcm4TlvDq8ikWAM", "eleven_multilingual_v2"


@cache
def hibari_is_installed() -> bool:
    """Return whether the offline voice is installed. Imports nothing; the result is cached."""
    return find_spec("hibari") is not None and find_spec("onnxruntime") is not None


def espeak(path: str) -> str:
    """Return the path of espeak-ng or espeak; empty if neither is installed."""
    return shutil.which("espeak-ng", path=path) or shutil.which("espeak", path=path) or ""


class Speaker:
    """Speech output by the configured backend."""

    def __init__(
        self, settings: SpeechSettings, environ: Mapping[str, str], online: Online, pay: Payment
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._online = online
        self._pay = pay

    async def speak(self, backend: str, text: str, voice: str, permit: Permit) -> GeneratedFile:
        """Return a text spoken by `openai`, `elevenlabs`, `hibari` or `espeak`. Raises `ToolError`."""
        voice = voice or self._settings.voice
        if backend in ("hibari", "espeak"):
            await permit(UseService(tool=TOOL, kind="speak", service="this machine"))
            if backend == "hibari":
                sound, note = await by_hibari(text), ""
                if voice and voice != "heart":
                    note = f"The voice {voice} is not on this machine; heart speaks."
                return GeneratedFile(data=sound, ending=".wav", by="hibari", note=note, cost=0.0)
            program = espeak(self._environ.get("PATH", ""))
            return GeneratedFile(
                data=await by_espeak(program, text, voice), ending=".wav", by="espeak-ng", cost=0.0
            )
        service, path, body = self._order(backend, text, voice)
        await permit(UseService(tool=TOOL, kind="speak", service=service.host))
        settings = self._settings
        price = None if settings.price is None else settings.price * len(text) / 1_000
        name = f"{backend}/{settings.model if backend == 'openai' else _ELEVENLABS_MODEL}"
        async with self._pay(name, price):
            answer = await self._online.raw(service, path, body, limits=_LIMITS)
            if (ending := sound_ending(answer.body)) == "":
                raise ToolError(f"{service.name} sent something that is not a sound.")
        return GeneratedFile(data=answer.body, ending=ending, by=name, cost=price)

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
    """The offline voice in a separate process, which makes the sound of one sentence at a time."""

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
        """Return the sound samples of a sentence. Raises `ToolError`."""
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
    """Return a text read aloud by hibari, as a WAV file. Raises `ToolError`."""
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
    """Return 16-bit samples of one channel as a WAV file."""
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples)
    return written.getvalue()


async def by_espeak(program: str, text: str, voice: str) -> bytes:
    """Return a text read aloud by espeak, as a WAV file. Raises `ToolError`."""
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


PLAYERS: tuple[tuple[str, ...], ...] = (
    ("pw-play",),
    ("paplay",),
    ("aplay", "-q"),
    ("afplay",),
    ("ffplay", "-nodisp", "-autoexit", "-loglevel", "quiet"),
    ("mpv", "--no-video", "--really-quiet"),
    ("play", "-q"),
)
"""Programs that play a sound file, whose path is appended."""
_AHEAD = 2
"""The number of sentences whose sound is made in advance."""


def player(own: str, path: str) -> tuple[str, ...]:
    """Return the command that plays a sound file: the configured one, or without it one that is installed.

    The command is empty if there is none.
    """
    if own.strip():
        words = shlex.split(own)
        found = shutil.which(words[0], path=path)
        return (found, *words[1:]) if found else ()
    for known in PLAYERS:
        if (found := shutil.which(known[0], path=path)) is not None:
            return (found, *known[1:])
    return ()


def missing(settings_player: str, environ: Mapping[str, str]) -> str:
    """Return why nothing can be read aloud here, with the fix; empty if it can."""
    path = environ.get("PATH", "")
    if not hibari_is_installed() and not espeak(path):
        return f"Nothing on this machine speaks; `{add_hint('speech')}`, or install espeak-ng."
    if not player(settings_player, path):
        return "Nothing on this machine plays sound; install alsa-utils, or name a program in speech.player."
    return ""


class ReadingAloud:
    """The reading of sentences aloud. `failed` receives a sentence if that is no longer possible."""

    def __init__(self, plays: Sequence[str], path: str, failed: Callable[[str], None]) -> None:
        self._plays = tuple(plays)
        self._path = path
        self._failed = failed
        self._texts: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
        self._sounds: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(_AHEAD)
        self._round = 0
        """A number that is increased to drop the waiting sentences."""
        self._voice: HibariProcess | None = None
        self._player: asyncio.subprocess.Process | None = None
        self._tasks = [asyncio.create_task(self._guard(work)) for work in (self._make, self._play)]

    def read(self, sentences: Iterable[str]) -> None:
        """Queue sentences to be read after the waiting ones."""
        for sentence in sentences:
            self._texts.put_nowait((self._round, sentence))

    def hush(self) -> None:
        """Stop speaking at once, and drop the waiting sentences."""
        self._round += 1
        if self._player is not None and self._player.returncode is None:
            with suppress(ProcessLookupError):
                self._player.kill()

    async def close(self) -> None:
        """Stop speaking, and end all processes."""
        self.hush()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._voice is not None:
            await self._voice.close()

    async def _guard(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (ToolError, OSError) as error:
            self._failed(f"Reading aloud ended: {error}")

    async def _make(self) -> None:
        is_hibari = hibari_is_installed()
        while True:
            number, text = await self._texts.get()
            if number != self._round:
                continue
            if is_hibari:
                self._voice = self._voice or await HibariProcess.start()
                sound = wav(await self._voice.say(text))
            else:
                sound = await by_espeak(espeak(self._path), text, "")
            await self._sounds.put((number, sound))

    async def _play(self) -> None:
        while True:
            number, sound = await self._sounds.get()
            if number != self._round:
                continue
            with PrivateFolder("voice") as folder:
                path = folder / "said.wav"
                await asyncio.to_thread(path.write_bytes, sound)
                self._player = await start_child(
                    [*self._plays, str(path)], stdout=asyncio.subprocess.DEVNULL, private=True
                )
                await self._player.wait()

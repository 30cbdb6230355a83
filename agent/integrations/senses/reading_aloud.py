"""Sentences read aloud on this machine, one after the other, the next one made while one is heard."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agent.integrations.senses.speaking import HibariProcess, by_espeak, espeak, hibari_is_installed, wav
from tools.extras import add_hint
from tools.kit.children import start_child
from tools.results import ToolError

PLAYERS: tuple[tuple[str, ...], ...] = (
    ("pw-play",),
    ("paplay",),
    ("aplay", "-q"),
    ("afplay",),
    ("ffplay", "-nodisp", "-autoexit", "-loglevel", "quiet"),
    ("mpv", "--no-video", "--really-quiet"),
    ("play", "-q"),
)
"""Programs that play a file of sound, whose path is added."""
_AHEAD = 2
"""Sentences that are made before they are heard."""


def player(own: str, path: str) -> tuple[str, ...]:
    """The command that plays a file: that of the settings, else one that is found; empty if there is none."""
    if own.strip():
        words = shlex.split(own)
        found = shutil.which(words[0], path=path)
        return (found, *words[1:]) if found else ()
    for known in PLAYERS:
        if (found := shutil.which(known[0], path=path)) is not None:
            return (found, *known[1:])
    return ()


def missing(settings_player: str, environ: Mapping[str, str]) -> str:
    """Why nothing can be read aloud here, with the mend; empty if it can be."""
    path = environ.get("PATH", "")
    if not hibari_is_installed() and not espeak(path):
        return f"Nothing on this machine speaks; `{add_hint('speech')}`, or install espeak-ng."
    if not player(settings_player, path):
        return "Nothing on this machine plays sound; install alsa-utils, or name a program in speech.player."
    return ""


class ReadingAloud:
    """Reads what it is given. `failed` hears a sentence when it cannot go on."""

    def __init__(self, plays: Sequence[str], path: str, failed: Callable[[str], None]) -> None:
        self._plays = tuple(plays)
        self._path = path
        self._failed = failed
        self._texts: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
        self._sounds: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(_AHEAD)
        self._round = 0
        """Goes up when what waits is no longer wanted."""
        self._voice: HibariProcess | None = None
        self._player: asyncio.subprocess.Process | None = None
        self._tasks = [asyncio.create_task(self._guarded(work)) for work in (self._make, self._play)]

    def read(self, sentences: Iterable[str]) -> None:
        """Read these after what waits."""
        for sentence in sentences:
            self._texts.put_nowait((self._round, sentence))

    def hush(self) -> None:
        """Be silent at once, and forget what waits."""
        self._round += 1
        if self._player is not None and self._player.returncode is None:
            with suppress(ProcessLookupError):
                self._player.kill()

    async def close(self) -> None:
        """Be silent, and let go of all programs."""
        self.hush()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._voice is not None:
            await self._voice.close()

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
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
            path = await asyncio.to_thread(_kept, sound)
            try:
                self._player = await start_child(
                    [*self._plays, path], stdout=asyncio.subprocess.DEVNULL, private=True
                )
                await self._player.wait()
            finally:
                await asyncio.to_thread(Path(path).unlink, missing_ok=True)


def _kept(sound: bytes) -> str:
    descriptor, path = tempfile.mkstemp(prefix="hermes-voice-", suffix=".wav")
    with os.fdopen(descriptor, "wb") as file:
        file.write(sound)
    return path

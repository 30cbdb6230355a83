"""Dictation: what a person says to the prompt, written down by what the settings name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from agent.config.known_secrets import known_secrets
from agent.config.loader import load
from agent.errors import HermesError
from agent.home import Home
from agent.net.door import Door
from agent.senses.hearing import Transcriber
from agent.senses.online import Online
from agent.senses.readiness import readiness
from agent.senses.recording import Recording, recorder
from tools.results import ToolError


class DictationError(HermesError):
    """Nothing that is said can be written down. The text says why, and what to do."""


class Dictation:
    """One thing that is said: recorded from `begin` to `end`. Makes no sound leave before it has ended."""

    def __init__(self, home: Home, environ: Mapping[str, str], workspace: Path) -> None:
        """Reads the settings. Raises `HermesError` where nothing records, or nothing listens."""
        loaded = load(home, dict(environ), workspace)
        self._settings, self._variables = loaded.settings.transcribe, loaded.environ
        found = {each.tool: each for each in readiness(loaded.settings, loaded.environ, sees=True)}
        ready = found["transcribe"]
        if not ready.works:
            raise DictationError(f"What is said cannot be written down: {ready.missing}; {ready.mend}.")
        self._by, self._environ = ready.by, environ
        path = environ.get("PATH", "")
        self.recording = Recording(recorder(self._settings.recorder, path), path)

    async def written(self, sound: bytes) -> str:
        """What is said in a recording. Raises `DictationError`."""
        online = Online(Door(secrets=known_secrets(self._variables), environ=self._environ))
        listener = Transcriber(self._settings, self._variables, online, _Unpaid())
        try:
            said = await listener.hear(self._by, sound, "said.wav", "", _agreed)
        except ToolError as error:
            raise DictationError(str(error)) from error
        return str(said["text"]).strip()


class _Unpaid:
    """What a person does themselves is counted by the service alone."""

    @asynccontextmanager
    async def paying(self, name: str, price: float | None) -> AsyncIterator[None]:
        yield


async def _agreed(_action: object) -> None:
    """Who presses the key has said so."""

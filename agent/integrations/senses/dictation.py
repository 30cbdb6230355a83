"""Dictation: what a person says to the prompt, written down by what the settings name, or by a plugin."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agent.core.config.known_secrets import known_secrets
from agent.core.net.door import Door
from agent.errors import HermesError
from agent.integrations.senses.brought import BroughtService, heard
from agent.integrations.senses.hearing import Transcriber
from agent.integrations.senses.online import Online
from agent.integrations.senses.readiness import readiness
from agent.integrations.senses.recording import Recording, recorder
from tools.results import ToolError

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings


class DictationError(HermesError):
    """Nothing that is said can be written down. The text says why, and what to do."""


class Dictation:
    """One thing that is said: recorded from `begin` to `end`. Makes no sound leave before it has ended."""

    def __init__(
        self,
        loaded: LoadedSettings,
        environ: Mapping[str, str],
        brought: BroughtService | None = None,
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`brought` is the service of a plugin that listens, `close` ends what was started for it.

        Raises `HermesError` where nothing records, or nothing listens.
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

    async def written(self, sound: bytes) -> str:
        """What is said in a recording. Raises `DictationError`."""
        try:
            if self._brought is not None:
                said = await heard(self._brought, sound, ".wav", "", _agreed)
            else:
                online = Online(Door(secrets=known_secrets(self._variables), environ=self._environ))
                listener = Transcriber(self._settings, self._variables, online, _Unpaid())
                said = await listener.hear(self._by, sound, "said.wav", "", _agreed)
        except ToolError as error:
            raise DictationError(str(error)) from error
        return str(said["text"]).strip()

    async def aclose(self) -> None:
        """Throw away what is recorded, and end what was started."""
        await self.recording.discard()
        if self._close is not None:
            await self._close()


class _Unpaid:
    """What a person does themselves is counted by the service alone."""

    @asynccontextmanager
    async def paying(self, name: str, price: float | None) -> AsyncIterator[None]:
        yield


async def _agreed(_action: object) -> None:
    """Who presses the key has said so."""

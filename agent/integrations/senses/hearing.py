"""Recordings written down: by an OpenAI-compatible service, or by a whisper package of this machine."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent.core.net.door import DoorLimits
from agent.integrations.senses.children import command
from agent.integrations.senses.online import FormPart, Online, ServiceAddress
from tools.kit.children import kill_child, start_child
from tools.results import ToolError
from tools.senses.services import Permit, UseService
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.core.config.sections import TranscribeSettings

TOOL = "transcribe"
SECONDS = 300.0
_CHILD = Path(__file__).with_name("whisper_child.py")
_KINDS = {
    ".mp3": "audio/mpeg", ".m4a": "audio/mp4", ".mp4": "audio/mp4", ".wav": "audio/wav",
    ".ogg": "audio/ogg", ".oga": "audio/ogg", ".flac": "audio/flac", ".webm": "audio/webm",
    ".mpga": "audio/mpeg", ".mpeg": "audio/mpeg",
}  # fmt: skip


class ServicePayer(Protocol):
    """Pays for a request around it; see `ServiceAccount`."""

    def paying(self, name: str, price: float | None) -> AbstractAsyncContextManager[None]: ...


@cache
def whisper_is_installed() -> bool:
    """Whether a package that listens on this machine is there. Imports nothing, looks once in a process."""
    return find_spec("faster_whisper") is not None or find_spec("whisper") is not None


class Transcriber:
    """Listens by what the settings name."""

    def __init__(
        self,
        settings: TranscribeSettings,
        environ: Mapping[str, str],
        online: Online,
        account: ServicePayer,
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._online = online
        self._account = account

    async def hear(
        self, backend: str, data: bytes, name: str, language: str, permit: Permit
    ) -> Mapping[str, Any]:
        """What is said in a recording, by `openai` or `local`. Raises `ToolError`."""
        ending, language = checked(data, name, language)
        if backend == "local":
            await permit(UseService(tool=TOOL, kind="hear", service="this machine"))
            said = await _on_this_machine(data, ending, self._settings.model, language)
            return {"text": clean(said["text"]), "language": said["language"], "by": "whisper"}
        settings = self._settings
        key = self._environ.get(settings.api_key_env, "") if settings.api_key_env else ""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        service = ServiceAddress(name="The listening service", base=settings.base_url, headers=headers)
        await permit(UseService(tool=TOOL, kind="hear", service=service.host))
        parts = [
            FormPart(name="model", data=settings.model.encode()),
            FormPart(name="response_format", data=b"json"),
            *([FormPart(name="language", data=language.encode())] if language else []),
            FormPart(name="file", data=data, file=f"recording{ending}", media_type=_KINDS[ending]),
        ]
        async with self._account.paying(f"openai/{settings.model}", settings.price):
            limits = DoorLimits(seconds=SECONDS)
            answer = await self._online.json_form(service, "/audio/transcriptions", parts, limits)
        text = answer.get("text") if isinstance(answer, Mapping) else None
        if not isinstance(text, str):
            raise ToolError("The listening service sent no text.")
        result: dict[str, Any] = {"text": clean(text).strip(), "by": settings.model}
        if settings.price is not None:
            result["cost_usd"] = settings.price
        return result


def checked(data: bytes, name: str, language: str) -> tuple[str, str]:
    """The ending of a recording's name, and its language. Raises `ToolError` for what makes no sense."""
    ending = Path(name).suffix.lower()
    if ending not in _KINDS:
        raise ToolError(f"{name} is no recording that is known; {', '.join(_KINDS)} are.")
    if not data:
        raise ToolError(f"{name} is empty.")
    language = language.strip().lower()
    if language and not (language.isascii() and language.isalpha() and len(language) <= 3):
        raise ToolError("The language is two letters, such as en.")
    return ending, language


async def _on_this_machine(data: bytes, ending: str, model: str, language: str) -> dict[str, str]:
    path = await asyncio.to_thread(_kept, data, ending)
    process = await start_child(
        [*command(_CHILD), path, "base" if model == "whisper-1" else model, language],
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", ""), "HOME": str(Path.home()), "HF_HUB_OFFLINE": "1"},
        private=True,
    )
    try:
        async with asyncio.timeout(SECONDS):
            output, errors = await process.communicate()
    except TimeoutError:
        raise ToolError(f"The recording was not written down within {SECONDS:g} s.") from None
    finally:
        await kill_child(process)
        await asyncio.to_thread(os.unlink, path)
    try:
        said = json.loads(output)
    except ValueError:
        lines = [line for line in clean(errors.decode("utf-8", "replace")).split("\n") if line.strip()]
        why = f": {lines[-1][:200]}" if lines else ""
        raise ToolError(f"The whisper of this machine could not listen{why}.") from None
    return {"text": str(said["text"]), "language": str(said["language"])}


def _kept(data: bytes, ending: str) -> str:
    descriptor, path = tempfile.mkstemp(prefix="hermes-sound-", suffix=ending)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return path

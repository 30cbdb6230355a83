"""Recordings: made on this machine, and transcribed by a service or a local whisper package."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.net.door import WebLimits
from agent.errors import HermesError
from agent.integrations.senses.kinds import command
from agent.integrations.senses.online import FormPart, Online, ServiceAddress
from tools.kit.children import kill_child, start_child
from tools.kit.private_folders import PrivateFolder
from tools.results import ToolError
from tools.senses.services import UseService
from tools.services.actions import Permit
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


Payment = Callable[[str, float | None], AbstractAsyncContextManager[None]]
"""A function that accounts for the cost of a request to a named service; see `ServiceAccount.paying`."""


@cache
def whisper_is_installed() -> bool:
    """Return whether a local whisper package is installed. Imports nothing; the result is cached."""
    return find_spec("faster_whisper") is not None or find_spec("whisper") is not None


class Transcriber:
    """The transcription of recordings by the configured backend."""

    def __init__(
        self,
        settings: TranscribeSettings,
        environ: Mapping[str, str],
        online: Online,
        pay: Payment,
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._online = online
        self._pay = pay

    async def transcribe(
        self, backend: str, data: bytes, name: str, language: str, permit: Permit
    ) -> Mapping[str, Any]:
        """Transcribe a recording with `openai` or `local`; return text and language. Raises `ToolError`."""
        ending, language = check_recording(data, name, language)
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
        async with self._pay(f"openai/{settings.model}", settings.price):
            limits = WebLimits(seconds=SECONDS)
            answer = await self._online.json_form(service, "/audio/transcriptions", parts, limits)
        text = answer.get("text") if isinstance(answer, Mapping) else None
        if not isinstance(text, str):
            raise ToolError("The listening service sent no text.")
        result: dict[str, Any] = {"text": clean(text).strip(), "by": settings.model}
        if settings.price is not None:
            result["cost_usd"] = settings.price
        return result


def check_recording(data: bytes, name: str, language: str) -> tuple[str, str]:
    """Return file extension and language of a recording. Raises `ToolError` if the input is invalid."""
    ending = Path(name).suffix.lower()
    if ending not in _KINDS:
        raise ToolError(f"{name} is not a recording that is known; {', '.join(_KINDS)} are.")
    if not data:
        raise ToolError(f"{name} is empty.")
    language = language.strip().lower()
    if language and not (language.isascii() and language.isalpha() and len(language) <= 3):
        raise ToolError("The language is two letters, such as en.")
    return ending, language


async def _on_this_machine(data: bytes, ending: str, model: str, language: str) -> dict[str, str]:
    with PrivateFolder("sound") as folder:
        path = folder / f"said{ending}"
        await asyncio.to_thread(path.write_bytes, data)
        process = await start_child(
            [*command(_CHILD), str(path), "base" if model == "whisper-1" else model, language],
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
    try:
        said = json.loads(output)
    except ValueError:
        lines = [line for line in clean(errors.decode("utf-8", "replace")).split("\n") if line.strip()]
        why = f": {lines[-1][:200]}" if lines else ""
        raise ToolError(f"The whisper of this machine could not listen{why}.") from None
    return {"text": str(said["text"]), "language": str(said["language"])}


RECORDERS: tuple[tuple[str, ...], ...] = (
    ("parecord", "--file-format=wav", "--rate=16000", "--channels=1"),
    ("pw-record", "--rate=16000", "--channels=1"),
    ("arecord", "-q", "-f", "S16_LE", "-r", "16000", "-c", "1", "-t", "wav"),
    ("rec", "-q", "-r", "16000", "-c", "1", "-b", "16"),
    ("sox", "-q", "-d", "-r", "16000", "-c", "1", "-b", "16"),
)
"""Programs that record into a sound file, whose path is appended, until they are stopped."""
LONGEST = 300.0
"""The maximum length of a recording, in seconds."""
SHORTEST = 8_000
"""The minimum size of a recording in bytes (a quarter of a second); a shorter one contains no word."""
_ENDING = 5.0
_HEAD = 44
_GUARDED = """exec 3<&0
"$@" </dev/null 3<&- & recorder=$!
{ read -r _; kill $recorder; } <&3 2>/dev/null & guard=$!
exec 3<&-
wait $recorder; status=$?
kill $guard 2>/dev/null
exit $status"""
"""A shell script that runs the program until its input is closed, so that it ends with Hermes."""


class RecordingError(HermesError):
    """The error that nothing was recorded. The text gives the reason and the fix."""


def recorder(own: str, path: str) -> tuple[str, ...]:
    """Return the command that records: the configured one, or without it one that is installed.

    Raises `RecordingError`.
    """
    if own.strip():
        words = shlex.split(own)
        found = shutil.which(words[0], path=path)
        if found is None:
            raise RecordingError(f"{clean(words[0])} is not installed; transcribe.recorder names it.")
        return (found, *words[1:])
    for known in RECORDERS:
        if (found := shutil.which(known[0], path=path)) is not None:
            return (found, *known[1:])
    raise RecordingError(
        "Nothing here records sound; install alsa-utils, or name a program in transcribe.recorder."
    )


class Recording:
    """One recording, from `start` to `finish`. No file remains on the disk."""

    def __init__(self, command: Sequence[str], path: str) -> None:
        """Set up the recording. `path` is the value of `PATH` for the recording program."""
        self._command, self._path = tuple(command), path
        self._folder: PrivateFolder | None = None
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start recording. Raises `RecordingError` if the program cannot be started."""
        self._folder = await asyncio.to_thread(PrivateFolder, "said")
        try:
            self._process = await start_child(
                ["/bin/sh", "-c", _GUARDED, "sh", *self._command, str(self._file)],
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env=_environ(self._path),
                private=True,
            )
        except OSError as error:
            await self.discard()
            raise RecordingError(f"The recorder cannot be started: {error.strerror}.") from error

    async def wait(self) -> None:
        """Wait until the program ends by itself (as it does without a microphone) or `LONGEST` seconds have
        passed.
        """
        assert self._process is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST):
                await self._process.wait()

    async def finish(self) -> bytes:
        """Stop recording and return the sound as WAV; the file is deleted. Raises `RecordingError`."""
        process = self._process
        assert process is not None and process.stderr is not None
        is_over = process.returncode is not None
        try:
            await self._end()
            told = clean((await process.stderr.read(4_000)).decode("utf-8", "replace")).strip()
            data = await asyncio.to_thread(_read, self._file)
        finally:
            await self.discard()
        if is_over and process.returncode:
            why = told.splitlines()[-1][:200] if told else f"it ended with {process.returncode}"
            raise RecordingError(f"The microphone cannot be used: {why.rstrip('.')}.")
        if len(data) < _HEAD + SHORTEST:
            raise RecordingError("Nothing was recorded; say more, or look whether the microphone is on.")
        return fix_wav_size(data)

    async def discard(self) -> None:
        """Stop the recording program and delete the recorded file, if there is one."""
        await self._end()
        folder, self._folder = self._folder, None
        if folder is not None:
            await asyncio.to_thread(folder.remove)

    @property
    def _file(self) -> Path:
        assert self._folder is not None
        return self._folder.path / "said.wav"

    async def _end(self) -> None:
        process = self._process
        if process is None or process.returncode is not None or process.stdin is None:
            return
        process.stdin.close()
        try:
            async with asyncio.timeout(_ENDING):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def fix_wav_size(data: bytes) -> bytes:
    """Return WAV data with correct sizes in its header, where a stopped program may have left zeros. Pure."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        return data
    at = data.find(b"data", 12, 4_096)
    if at < 0:
        return data
    size, rest = len(data) - 8, len(data) - at - 8
    told = rest.to_bytes(4, "little")
    return b"".join((data[:4], size.to_bytes(4, "little"), data[8 : at + 4], told, data[at + 8 :]))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _environ(path: str) -> dict[str, str]:
    """Return the environment with which a recorder finds the sound system of this login session."""
    import os

    kept = ("HOME", "XDG_RUNTIME_DIR", "PULSE_SERVER", "PIPEWIRE_REMOTE", "ALSA_CARD", "AUDIODEV", "LANG")
    return {"PATH": path, **{name: os.environ[name] for name in kept if name in os.environ}}

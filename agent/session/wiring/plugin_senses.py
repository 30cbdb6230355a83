"""Services of plugins that create images, speak or transcribe, with files exchanged in a shared folder."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.core.home import private_folder
from agent.integrations.plugins.files import PluginFailedError
from agent.integrations.plugins.process import MAKING
from agent.integrations.plugins.session_plugins import PluginRunner, SessionPlugins
from agent.integrations.senses.kinds import PluginAnswer
from tools.kit.files import write_new
from tools.results import ToolError
from tools.text.words import brief

LARGEST = 40_000_000
"""The maximum size in bytes of a file that a service returns."""
TOOLS = {"image": "image_generate", "speech": "text_to_speech", "transcribe": "transcribe"}
"""The tool that uses each kind of service."""


@dataclass(frozen=True, slots=True)
class PluginService:
    """One service of one plugin. Large data is exchanged in files in a folder of the plugin."""

    runner: PluginRunner
    kind: str
    provider: str

    @property
    def name(self) -> str:
        return f"{self.runner.name}.{self.provider}"

    @property
    def hosts(self) -> str:
        return ", ".join(self.runner.hosts)

    async def ask(self, given: Mapping[str, Any], files: Sequence[tuple[str, bytes]] = ()) -> PluginAnswer:
        folder = await asyncio.to_thread(_Folder.create, self.runner.shelved.data)
        try:
            paths = await asyncio.to_thread(folder.lay, files)
            asked = {**given, "files": paths, "folder": str(folder.path)}
            said = await self.runner.ask("provider", f"{self.kind} {self.provider}", asked, MAKING)
            return PluginAnswer(said, await asyncio.to_thread(self._bytes, folder, said))
        except PluginFailedError as error:
            raise ToolError(str(error)) from error
        finally:
            await asyncio.to_thread(folder.clear)

    def _bytes(self, folder: _Folder, said: Any) -> bytes:
        if not isinstance(said, Mapping):
            return b""
        if isinstance(name := said.get("file"), str):
            try:
                return folder.read(name)
            except (OSError, ValueError) as error:
                reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
                raise ToolError(
                    f"{self.name} named {brief(name)}, which cannot be read: {reason}."
                ) from error
        if isinstance(packed := said.get("data"), str):
            try:
                return base64.b64decode(packed, validate=True)
            except (binascii.Error, ValueError):
                raise ToolError(f"{self.name} gave data that is not base64.") from None
        return b""


class _Folder:
    """A folder for one exchange of files with a plugin. It is accessed by descriptor, so that the plugin
    cannot replace it with a link.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def create(cls, data: Path) -> _Folder:
        """Create a folder in the data of a plugin. Raises `ToolError`."""
        try:
            private_folder(data)
            path = Path(tempfile.mkdtemp(prefix="exchange-", dir=data))
            return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
        except OSError as error:
            raise ToolError(f"{data} cannot be written: {error.strerror or error}.") from error

    def lay(self, files: Sequence[tuple[str, bytes]]) -> list[str]:
        """Write files, given as suffix and contents, under numbers from 1; return their paths."""
        paths: list[str] = []
        for number, (ending, data) in enumerate(files, 1):
            name = f"{number}{ending}"
            write_new(name, data, folder=self._descriptor)
            paths.append(str(self.path / name))
        return paths

    def read(self, given: str) -> bytes:
        """Return the content of a file that the plugin wrote to this folder.

        Raises `OSError`, or `ValueError` if it is elsewhere, too large or not a plain file.
        """
        path = Path(given)
        if path.parent not in (Path(), self.path):
            raise ValueError("it does not lie in the folder that was given")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(path.name, flags, dir_fd=self._descriptor), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("it is not a plain file")
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ValueError(f"it is larger than {LARGEST // 1_000_000} MB")
        return data

    def clear(self) -> None:
        """Close the descriptor and delete the folder."""
        os.close(self._descriptor)
        shutil.rmtree(self.path, ignore_errors=True)


def plugin_services(plugins: SessionPlugins) -> dict[str, PluginService]:
    """Return the plugin services in use, by tool. If several plugins have one for a tool, the first one is
    used.
    """
    found: dict[str, PluginService] = {}
    for runner, each in plugins.providers():
        if (tool := TOOLS.get(each.kind)) is not None:
            found.setdefault(tool, PluginService(runner, each.kind, each.name))
    return found

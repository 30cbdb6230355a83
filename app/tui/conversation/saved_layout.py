"""The layout of the screen, kept between starts in a small JSON file in the home.

It is a convenience: an unreadable file counts as empty, and a failed write is logged.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import HermesError
from tools.kit.files import read_bytes

log = logging.getLogger(__name__)

LARGEST = 65_536
"""The largest file in bytes that is read; a larger one was not written by Hermes."""
DELAY = 0.5
"""Seconds to wait for further changes before they are written to the file."""
_VERSION = 1


class SavedLayout:
    """The saved states of screen parts by name, such as `panes`.

    The file is read once, before the first frame, and written in a thread shortly after the last change. Each
    write replaces the whole file, so the last of two programs to save a change wins.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._parts = _read(file)
        self._due = False
        self._hurry = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    def part(self, name: str) -> Mapping[str, Any]:
        """Return the saved state of a part; empty if there is none or it is invalid."""
        part = self._parts.get(name)
        return part if isinstance(part, dict) else {}

    def note(self, name: str, state: Mapping[str, Any]) -> None:
        """Save the state of a part after a short delay. Needs a running event loop."""
        if state == self._parts.get(name):
            return
        self._parts = {**self._parts, name: dict(state)}
        self._due = True
        if self._writing is None or self._writing.done():
            self._hurry.clear()
            self._writing = asyncio.create_task(self._write_soon())

    async def flush(self) -> None:
        """Write pending changes at once."""
        self._hurry.set()
        if self._writing is not None:
            await self._writing

    async def _write_soon(self) -> None:
        try:
            async with asyncio.timeout(DELAY):
                await self._hurry.wait()
        except TimeoutError:
            pass
        while self._due:
            self._due = False
            await asyncio.to_thread(_write, self._file, self._parts)


def _read(file: Path) -> dict[str, Any]:
    try:
        data, _ = read_bytes(_real_path(file), LARGEST)
        content = json.loads(data)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        log.info("the remembered arrangement is not used: %s", error)
        return {}
    if not isinstance(content, dict) or content.get("version") != _VERSION:
        return {}
    return {name: part for name, part in content.items() if name != "version"}


def _write(file: Path, parts: Mapping[str, Any]) -> None:
    from tools.kit.files import write_atomically

    data = json.dumps({"version": _VERSION, **parts}, indent=1).encode()
    try:
        private_folder(file.parent)
        # A link or a folder at this path was not made by Hermes and is left unchanged.
        write_atomically(_real_path(file), data, PRIVATE_FILE, follow_links=False)
    except (OSError, ValueError, HermesError) as error:
        log.warning("the arrangement of the screen was not remembered: %s", error)


def _real_path(file: Path) -> Path:
    """Resolve links in the folders of a path, but not a link at the file itself."""
    return file.parent.resolve() / file.name

"""The backend of every place away from this machine, over whatever way there is to reach it."""

from __future__ import annotations

import asyncio
import secrets
from typing import Literal

from tools.results import ToolError
from tools.terminal.backend import Launch
from tools.terminal.backends.connector import Connector
from tools.terminal.backends.remote_child import RemoteChild
from tools.terminal.backends.remote_helper import RemoteHelper, RemoteSite
from tools.terminal.backends.scripts import call_script
from tools.terminal.threads import on_thread


class RemoteBackend:
    """Implements `Backend`. Nothing is reached before `open`."""

    def __init__(self, reach: Connector) -> None:
        self._reach = reach
        self._owner = secrets.token_hex(6)
        self._lock = asyncio.Lock()
        self._anchor: RemoteHelper | None = None
        self._given_up: RemoteHelper | None = None
        """The last one that was begun and did not come up, or not yet."""
        self._site: RemoteSite | None = None
        self._generation = 0
        self._children: set[RemoteChild] = set()

    @property
    def shell(self) -> Literal["bash", "sh"]:
        return "sh" if self._site is not None and not self._site.shell.endswith("/bash") else "bash"

    @property
    def place(self) -> str:
        """What the place is called in messages."""
        return self._reach.place

    async def open(self) -> int:
        async with self._lock:
            if self._anchor is None or not self._anchor.is_there:
                if self._given_up is not None:
                    # One that comes up late must not be taken for the one that is wanted now.
                    await self._given_up.over()
                anchor = RemoteHelper(self._reach, self._owner)
                self._given_up = anchor
                self._site = await anchor.open()
                self._anchor, self._given_up = anchor, None
                self._generation += 1
        return self._generation

    def start(self, launch: Launch) -> RemoteChild:
        if self._anchor is None or self._site is None or not self._anchor.is_there:
            raise ToolError(f"The connection to {self.place} was lost; run the command again.")
        mark = f"{self._owner}.{launch.mark}."
        command = launch.command_file.read_text(encoding="utf-8")
        script = call_script(launch, command, folder=self._site.folder, shell=self._site.shell, mark=mark)
        child = RemoteChild(self._reach, self._anchor, script, launch, mark, self._children.discard)
        self._children.add(child)
        return child

    async def aclose(self) -> None:
        await asyncio.gather(*(child.kill() for child in list(self._children)))
        self._children.clear()
        if self._anchor is not None:
            await self._anchor.aclose()
            self._anchor = None
        await on_thread(self._reach.release)

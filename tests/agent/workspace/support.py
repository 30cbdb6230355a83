"""A watcher in a test: what it told, and waiting for it."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent.workspace.changes import ProjectChanges
from agent.workspace.watcher import Watcher

SETTLE = 0.08
PATIENCE = 60.0
"""Seconds until a test that waits for something fails."""


class Watched:
    """A project folder with a watcher on it."""

    def __init__(self, root: Path, home: Path | None = None) -> None:
        self.root = root
        self.told: list[ProjectChanges] = []
        self.watcher = Watcher(root, self.told.append, settle=SETTLE, home=home)
        self._marks = 0

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    async def next(self) -> ProjectChanges:
        """The first changes not taken yet."""
        async with asyncio.timeout(PATIENCE):
            while not self.told:
                await asyncio.sleep(0.01)
        return self.told.pop(0)

    async def only_the_mark(self) -> None:
        """Change a file and find that it is all that is told: nothing before it was a change."""
        self._marks += 1
        self.write("mark.txt", f"mark {self._marks}\n")
        changes = await self.next()
        assert [*changes.added, *changes.modified] == ["mark.txt"]
        assert (changes.removed, changes.renamed) == ((), ())


@asynccontextmanager
async def watching(root: Path, home: Path | None = None) -> AsyncIterator[Watched]:
    """A watcher that has read the project and is stopped in the end."""
    watched = Watched(root, home)
    await watched.watcher.start()
    async with asyncio.timeout(PATIENCE):
        await watched.watcher.ready()
    try:
        yield watched
    finally:
        await watched.watcher.stop()


def git(folder: Path, *arguments: str) -> str:
    """Run git with no configuration of this machine."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "Ana"),
        **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "ana@example.com"),
    }
    command = ["git", "-c", "init.defaultBranch=main", *arguments]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return result.stdout


def commit_all(folder: Path, message: str) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)

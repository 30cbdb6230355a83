"""The git branch that is checked out, looked up whenever it may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from agent.events import Event, FilesChanged, Noticed, SessionOpened, ToolFinished
from agent.workspace.git import Checkout, checkout

Tell = Callable[[Checkout | None], object]


class GitBranchWatch:
    """Hears the events of a session and tells what is checked out in its workspace.

    Git itself is not run: a few small files are read, in a thread, and one look
    at a time however many events come.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._root: Path | None = None
        self._looking: asyncio.Task[None] | None = None
        self._again = False

    def __call__(self, event: Event) -> None:
        match event:
            case SessionOpened():
                self._root = Path(event.workspace)
                self.look()
            case ToolFinished() | FilesChanged() | Noticed(kind="process"):
                self.look()

    def look(self) -> None:
        """Look soon. Needs a running event loop."""
        self._again = True
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while self._again and (root := self._root) is not None:
            self._again = False
            found = await asyncio.to_thread(checkout, root)
            if root == self._root:
                self._tell(found)

"""The canvases of one agent while it works; every change is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from agent.events import Event
from agent.knowledge.canvas.documents import CanvasDocuments
from agent.knowledge.canvas.events import CanvasChanged
from tools.results import ToolError
from tools.services.canvases import Canvas, CanvasKind, CanvasVersion, changed

MOST = 20
"""Canvases at a time."""
KEPT = 100
"""Versions of one canvas that can be looked at."""


class LiveCanvases:
    """What is shown now; documents lie in the home, versions follow from the conversation."""

    def __init__(
        self,
        documents: CanvasDocuments,
        session: str,
        canvases: Sequence[Canvas],
        emit: Callable[[Event], None],
    ) -> None:
        self._documents = documents
        self._session = session
        self._canvases = tuple(canvases)
        self._emit = emit

    def canvases(self) -> tuple[Canvas, ...]:
        return self._canvases

    def replace(self, canvases: Sequence[Canvas]) -> None:
        """The conversation goes on from another place: show what was shown there."""
        before, self._canvases = self._canvases, tuple(canvases)
        for each in changed(before, self._canvases):
            self._tell(each)

    async def show(self, name: str, title: str, kind: CanvasKind, content: bytes, words: str) -> Canvas:
        if len(self._canvases) >= MOST and all(each.name != name for each in self._canvases):
            raise ToolError(f"{MOST} canvases are shown already; close one, or update one by its name.")
        try:
            digest = await asyncio.to_thread(self._documents.keep, self._session, kind, content)
        except OSError as error:
            raise ToolError(f"The canvas cannot be kept: {error.strerror or error}.") from error
        known = next((each.versions for each in self._canvases if each.name == name), ())
        number = known[-1].version + 1 if known else 1
        version = CanvasVersion(number, title, kind, digest, len(content), words)
        return self._put(Canvas(name, (*known, version)[-KEPT:]))

    async def read(self, version: CanvasVersion) -> bytes:
        found = await asyncio.to_thread(self._documents.read, self._session, version.sha256)
        if found is None:
            raise ToolError("What this canvas shows is no longer there; show it anew.")
        return found[1]

    def take_back(self, name: str) -> Canvas:
        return self._put(Canvas(name, self._named(name).versions[:-1]))

    def close(self, name: str) -> None:
        self._put(Canvas(self._named(name).name, ()))

    def _named(self, name: str) -> Canvas:
        found = next((each for each in self._canvases if each.name == name), None)
        if found is None:
            raise ToolError(f"There is no canvas {name}.")
        return found

    def _put(self, canvas: Canvas) -> Canvas:
        others = tuple(each for each in self._canvases if each.name != canvas.name)
        self._canvases = (*others, canvas) if canvas.versions else others
        self._tell(canvas)
        return canvas

    def _tell(self, canvas: Canvas) -> None:
        self._emit(CanvasChanged(name=canvas.name, versions=canvas.versions))

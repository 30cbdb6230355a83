"""Canvases, what agents show beside the conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.knowledge.canvas.documents import FENCES as FENCES
    from agent.knowledge.canvas.documents import CanvasDocuments as CanvasDocuments
    from agent.knowledge.canvas.documents import shown as shown
    from agent.knowledge.canvas.events import CanvasChanged as CanvasChanged
    from tools.services.canvases import canvases_of as canvases_of

__getattr__ = exports(
    __name__,
    {
        "agent.knowledge.canvas.documents": "FENCES CanvasDocuments shown",
        "agent.knowledge.canvas.events": "CanvasChanged",
        "tools.services.canvases": "canvases_of",
    },
)

"""The event of a canvas that changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agent.events import Event
from tools.services.canvases import CanvasVersion


@dataclass(frozen=True, kw_only=True)
class CanvasChanged(Event):
    """A canvas has another version, went back to an earlier one, or is no longer shown (no versions)."""

    type: ClassVar[str] = "canvas"
    name: str
    versions: tuple[CanvasVersion, ...]

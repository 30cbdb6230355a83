"""The skin that screens draw in."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from themes.skin import Skin
from widgets.palette import Palette


@runtime_checkable
class SkinPort(Protocol):
    """The skin in use."""

    @property
    def skin(self) -> Skin: ...


def palette_of(app: object) -> Palette:
    """The palette of the application's skin; that of the default one where it has none."""
    return Palette(app.skin if isinstance(app, SkinPort) else Skin())

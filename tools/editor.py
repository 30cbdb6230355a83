"""The editor that a session works in: its unsaved text, its terminals. A surface implements it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

Screen = Callable[[str], None]
"""Takes the next piece of what a command prints, cleaned and masked; called on any thread."""


class EditorSide(Protocol):
    """What an editor offers. Every method answers within seconds and never raises."""

    @property
    def reads(self) -> bool:
        """Whether it tells the text of files."""
        ...

    @property
    def writes(self) -> bool:
        """Whether it takes text for files, and saves it."""
        ...

    async def text(self, path: Path) -> str | None:
        """The text of a file as the editor has it, saved or not; None where it does not tell."""
        ...

    async def save(self, path: Path, text: str) -> bool:
        """Put a text into a file. False where the editor did not."""
        ...

    def screen(self, call: str) -> Screen | None:
        """A terminal of the editor for what a call prints; None where there is none."""
        ...


class NoEditor:
    """Where a session does not work in an editor."""

    reads = False
    writes = False

    async def text(self, path: Path) -> str | None:
        """Nothing is known beside the disk."""
        return None

    async def save(self, path: Path, text: str) -> bool:
        """Nobody takes it."""
        return False

    def screen(self, call: str) -> Screen | None:
        """Nobody looks on."""
        return None


NO_EDITOR: EditorSide = NoEditor()

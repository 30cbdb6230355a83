"""The editor that a session works in: its unsaved text, its terminals. A surface implements it."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

Screen = Callable[[str], None]
"""Takes the next piece of what a command prints, cleaned and masked; called on any thread."""


async def nothing_former(path: Path) -> Sequence[bytes]:
    """Where nobody knows what a file held before."""
    return ()


@dataclass(slots=True)
class KnownTexts:
    """What one session knows of files that its editor may have open, by path; SHA-256 of texts."""

    stood: dict[Path, set[str]] = field(default_factory=dict)
    """What was on the disk once."""
    typed: dict[Path, str] = field(default_factory=dict)
    """What the editor had last, where that was not on the disk."""
    base: dict[Path, str] = field(default_factory=dict)
    """The text of the disk that the editor's rests on, as far as that was seen; the newest last."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while these are looked at and changed."""
    former: Callable[[Path], Awaitable[Sequence[bytes]]] = nothing_former
    """What undo knows of what a file held before."""


class EditorSide(Protocol):
    """What an editor offers. Every method answers within seconds and never raises."""

    @property
    def known_texts(self) -> KnownTexts:
        """What is known of its texts."""
        ...

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
    known_texts = KnownTexts()

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

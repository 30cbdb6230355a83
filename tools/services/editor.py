"""The editor of a session: unsaved text and terminals. A user interface implements it."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.services.service import Service

Screen = Callable[[str], None]
"""A function called on any thread with each new piece of a command's output, cleaned and masked."""


async def no_earlier_contents(path: Path) -> Sequence[bytes]:
    """Return no earlier contents of a file, for sessions that do not know any."""
    return ()


@dataclass(slots=True)
class KnownTexts:
    """A session's knowledge of the files that the editor may have open, by path.

    Except for `base`, texts are kept as SHA-256.
    """

    stood: dict[Path, set[str]] = field(default_factory=dict)
    """Texts that were on the disk."""
    typed: dict[Path, str] = field(default_factory=dict)
    """The editor's last text, if it was not on the disk."""
    base: dict[Path, str] = field(default_factory=dict)
    """The disk texts on which the editor's is based, as far as known; the newest last."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """The lock for reading and changing these."""
    former: Callable[[Path], Awaitable[Sequence[bytes]]] = no_earlier_contents
    """A function returning a file's earlier contents, from undo."""


class EditorSide(Service):
    """The functions that an editor offers. This class offers none, for a session without an editor.

    Every method answers within seconds and never raises.
    """

    known_texts = KnownTexts()
    """The session's knowledge of the editor's texts."""

    @property
    def reads(self) -> bool:
        """True if the editor returns the text of files."""
        return False

    @property
    def writes(self) -> bool:
        """True if the editor accepts text for files, and saves it."""
        return False

    async def text(self, path: Path) -> str | None:
        """Return the editor's text of a file, saved or not; None if unavailable."""
        return None

    async def save(self, path: Path, text: str) -> bool:
        """Write a text to a file through the editor; return False if the editor did not."""
        return False

    def screen(self, call: str) -> Screen | None:
        """Return a function that shows a call's output in the editor; None without an editor's terminal."""
        return None

"""Whoever looks at what a script would do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Judge(Protocol):
    """Looks at what would happen. A method raises to stop the walk."""

    def command(self, name: str, arguments: Sequence[str], cwds: Sequence[str]) -> None:
        """A program would be started; all texts are marked."""

    def written(self, path: str, cwds: Sequence[str]) -> None:
        """A file would be opened for writing."""

    def bomb(self, name: str) -> None:
        """A function would start itself without end."""

    def doubt(self, sentence: str) -> None:
        """Something cannot be known."""

"""Whoever looks at what a script would do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Judge(Protocol):
    """Looks at what would happen. A method raises to stop the walk. All texts are marked."""

    def command(
        self,
        name: str,
        arguments: Sequence[str],
        cwds: Sequence[str],
        *,
        word: str = "",
        stdin: Sequence[str] | None = None,
    ) -> None:
        """A program would be started.

        `word` is how it is called, with its folder; empty when the command only
        stands for something of the same effect. `stdin` are the texts it may be
        given, as far as they are known.
        """

    def written(self, path: str, cwds: Sequence[str], texts: Sequence[str] | None = None) -> None:
        """A file would be opened for writing.

        `texts` are what it may hold afterwards; None when that is not known, or only added to.
        """

    def unsettled(self, path: str, cwds: Sequence[str]) -> None:
        """What stood in a file before may still stand there: it was written to where perhaps nothing ran."""

    def read(self, path: str, cwds: Sequence[str]) -> None:
        """The shell itself would read a file."""

    def assigned(self, name: str, values: Sequence[str | tuple[str, ...]]) -> None:
        """A variable would be set to one of the values."""

    def consulted(self, name: str) -> None:
        """A variable would be used that the script did not set."""

    def foreign(self, name: str) -> None:
        """An interpreter of another language would run a program given as text."""

    def bomb(self, name: str) -> None:
        """A function would start itself without end."""

    def doubt(self, sentence: str) -> None:
        """Something cannot be known."""

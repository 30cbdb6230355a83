"""Places of a session to come back to, as tools ask for them; the engine has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SavedPoint:
    """A place in the session that has a name."""

    name: str
    step: int
    """The position of the files there."""


@dataclass(frozen=True, slots=True)
class FileStep:
    """What one call, restore or person did to files."""

    number: int
    label: str
    created: float
    """Seconds since the epoch."""
    files: int
    """How many paths it changed."""


@dataclass(frozen=True, slots=True)
class PointList:
    """Where files can be taken back to."""

    position: int
    """The number of the last step."""
    first: int
    """The earliest position that can be reached."""
    saved: tuple[SavedPoint, ...]
    steps: tuple[FileStep, ...]
    """The newest steps, oldest first."""


@dataclass(frozen=True, slots=True)
class SinceThen:
    """What tells the files now from a position."""

    step: int
    diff: str
    """A unified diff from then to now; binary files are named only."""
    files: int
    added: int
    """Lines."""
    removed: int
    left_out: tuple[tuple[str, str], ...]
    """Paths the diff cannot show, and why."""


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The result of a restore."""

    position: int
    """The position it led to."""
    step: int | None
    """The step it is itself; None when nothing changed."""
    restored: tuple[str, ...]
    left: tuple[tuple[str, str], ...]
    """Paths that stay as they are, and why."""


PermitBack = Callable[[int, tuple[Path, ...], tuple[Path, ...]], Awaitable[None]]
"""Asks whether paths may be taken back to a position: what changes, and what goes away."""


class Checkpoints(Protocol):
    """Places of the session to come back to. A reference is a name, or the number of a step.

    All methods raise `ToolError`.
    """

    async def save(self, name: str) -> SavedPoint:
        """Give the present place a name."""
        ...

    async def list(self) -> PointList: ...

    async def diff(self, reference: str, path: str = "") -> SinceThen:
        """What changed since; with `path` only there, the hunks of a file numbered."""
        ...

    async def restore(
        self, reference: str, permit: PermitBack, path: str = "", hunks: Sequence[int] = ()
    ) -> TakenBack:
        """Take files back, after `permit` returned. What others changed since stays as it is.

        `path` is a file, or a folder with all below it; with `hunks` only these of the file.
        """
        ...

    async def branch(self, name: str) -> str:
        """Leave a branch of the conversation with that name here; a sentence about it."""
        ...

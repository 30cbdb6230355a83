"""The service through which tools name positions of a session and restore them; the engine implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.services.service import Service


@dataclass(frozen=True, slots=True)
class SavedPoint:
    """A named position in the session."""

    name: str
    step: int
    """The position of the files."""


@dataclass(frozen=True, slots=True)
class FileStep:
    """The file changes of one call, of one restore, or of the user."""

    number: int
    label: str
    created: float
    """Seconds since the epoch."""
    files: int
    """The number of changed paths."""


@dataclass(frozen=True, slots=True)
class PointList:
    """The positions to which files can be restored."""

    position: int
    """The number of the last step."""
    first: int
    """The earliest position that can be reached."""
    saved: tuple[SavedPoint, ...]
    steps: tuple[FileStep, ...]
    """The newest steps, oldest first."""


@dataclass(frozen=True, slots=True)
class ChangesSince:
    """The differences of the files between a position and now."""

    step: int
    diff: str
    """A unified diff from then to now; binary files are named only."""
    files: int
    added: int
    """The number of added lines."""
    removed: int
    left_out: tuple[tuple[str, str], ...]
    """The paths that are missing in the diff, and why."""


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The result of a restore."""

    position: int
    """The position after the restore."""
    step: int | None
    """The step of the restore; None if nothing changed."""
    restored: tuple[str, ...]
    left: tuple[tuple[str, str], ...]
    """The paths that were left unchanged, and why."""


PermitBack = Callable[[int, tuple[Path, ...], tuple[Path, ...]], Awaitable[None]]
"""Requests permission to restore paths to a position: the position, changed paths, and removed paths."""


class Checkpoints(Service, ABC):
    """The positions of the session that can be restored. A reference is a name, or the number of a step.

    All methods raise `ToolError`.
    """

    absent = "What happens to files is not kept in this session, so there are no checkpoints."

    @abstractmethod
    async def save(self, name: str) -> SavedPoint:
        """Give the current position a name, and return it."""

    @abstractmethod
    async def list(self) -> PointList: ...

    @abstractmethod
    async def diff(self, reference: str, path: str = "") -> ChangesSince:
        """Return the changes since a reference.

        With `path` only its changes are returned; those of a file are numbered hunks.
        """

    @abstractmethod
    async def restore(
        self, reference: str, permit: PermitBack, path: str = "", hunks: Sequence[int] = ()
    ) -> RestoreResult:
        """Restore files after `permit` returned. Later changes by other programs are kept.

        `path` is a file, or a folder with its content. With `hunks`, only these hunks of the file are
        restored.
        """

    @abstractmethod
    async def branch(self, name: str) -> str:
        """Create a branch of the conversation at the current position; return a sentence about it."""

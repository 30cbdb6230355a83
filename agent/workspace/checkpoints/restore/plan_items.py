"""Parts of a plan of a restore: one item for each path that is not as it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind

PlanState = Literal["change", "conflict", "lost"]
"""`lost`: cannot be made as it was; it is left as it is now."""

Way = Literal["mine", "checkpoint", "merge"]
"""What becomes of a path: what stands there now, what the checkpoint has, or both put together."""


@dataclass(frozen=True, slots=True)
class PartialRestore:
    """Only some hunks of a file are taken; they count between exactly these two contents."""

    now: str
    """SHA-256 of what stood there when they were chosen, in hex."""
    then: str
    """SHA-256 of what the file would become as a whole."""
    hunks: frozenset[int]
    """Numbers from 1."""
    merging: bool = False
    """Whether the whole is both sides put together."""


Choice = Way | PartialRestore
"""What was chosen for a path. A conflict without a choice stays as it is; anything else goes back."""

CHANGED_SINCE = "changed since by somebody else"
CHANGED_BETWEEN = "changed by somebody else between two steps"


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One path that is not as it was."""

    path: str
    now: PathEntry | None
    """How it stands; its contents are in the store by now, so that the restore can be undone."""
    target: PathEntry | None
    """How it stood at the position."""
    state: PlanState
    reason: str = ""
    """Why it is no plain change; empty for one."""
    taking_back: tuple[PathChange, ...] = ()
    """Our changes since the position, newest first; those of others lie between them."""
    unnamed: bool = False
    """Whether only commands that do not name the path changed it: a person may have, while they ran."""
    unit: str = ""
    """The folder of the unit with which a file of its work tree goes back or stays; empty for most."""
    about: str = ""
    """What in its unit it stands for, such as a ref; empty where that is the path itself."""

    @property
    def is_repository(self) -> bool:
        """Whether it stands for all that goes back together of a repository; see `RestorePlan.shown`."""
        return self.target is not None and self.target.kind is PathKind.OTHER and bool(self.target.target)

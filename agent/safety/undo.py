"""The part of an effect that undo brings back, as far as the gate counts on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UndoCoverage:
    """What checkpoints keep of a workspace."""

    git: bool = True
    """Whether refs, HEAD, index, settings and hooks of `.git` are kept, and objects from being pruned."""
    largest: int = 100_000_000
    """Bytes of the largest file that is kept; -1: nothing is kept."""


NO_UNDO = UndoCoverage(git=False, largest=-1)
"""Steps are not kept."""

"""The certainty with which a pattern covers something."""

from __future__ import annotations

from enum import IntEnum


class Certainty(IntEnum):
    """An effect that a rule may cover is asked about, whether the rule asks or denies."""

    NO = 0
    MAYBE = 1
    YES = 2

"""The degrees of certainty with which a pattern matches an action."""

from __future__ import annotations

from enum import IntEnum


class Certainty(IntEnum):
    """The degrees of certainty. An effect that a rule only may cover is asked about, even if the rule
    denies.
    """

    NO = 0
    MAYBE = 1
    YES = 2

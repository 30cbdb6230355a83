"""The tools that see, draw, speak, hear and reach others: which can work, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.senses.dictation import Dictation as Dictation
    from agent.senses.readiness import Readiness as Readiness
    from agent.senses.readiness import readiness as readiness
    from agent.senses.reading_aloud import ReadingAloud as ReadingAloud
    from agent.senses.reading_aloud import missing as missing
    from agent.senses.reading_aloud import player as player

__getattr__ = exports(
    __name__,
    {
        "agent.senses.dictation": "Dictation",
        "agent.senses.readiness": "Readiness readiness",
        "agent.senses.reading_aloud": "ReadingAloud missing player",
    },
)

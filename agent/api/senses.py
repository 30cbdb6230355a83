"""The tools that see, draw, speak, hear and reach others: which can work, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.integrations.senses.readiness import Readiness as Readiness
    from agent.integrations.senses.readiness import readiness as readiness
    from agent.integrations.senses.reading_aloud import ReadingAloud as ReadingAloud
    from agent.integrations.senses.reading_aloud import missing as missing
    from agent.integrations.senses.reading_aloud import player as player
    from agent.integrations.senses.recording import Recording as Recording
    from agent.session.wiring.outside_services import begin_dictation as begin_dictation
    from agent.session.wiring.outside_services import service_names as service_names

__getattr__ = exports(
    __name__,
    {
        "agent.session.wiring.outside_services": "begin_dictation service_names",
        "agent.integrations.senses.readiness": "Readiness readiness",
        "agent.integrations.senses.reading_aloud": "ReadingAloud missing player",
        "agent.integrations.senses.recording": "Recording",
    },
)

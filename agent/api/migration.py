"""Moving in from another agent: what was found, and taking it over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.migration.found import PARTS as PARTS
    from agent.migration.found import Findings as Findings
    from agent.migration.found import Part as Part
    from agent.migration.opening import open_takeover as open_takeover
    from agent.migration.places import AGENTS as AGENTS
    from agent.migration.places import look as look
    from agent.migration.taking_over import Taken as Taken
    from agent.migration.taking_over import Takeover as Takeover

__getattr__ = exports(
    __name__,
    {
        "agent.migration.found": "PARTS Findings Part",
        "agent.migration.opening": "open_takeover",
        "agent.migration.places": "AGENTS look",
        "agent.migration.taking_over": "Taken Takeover",
    },
)

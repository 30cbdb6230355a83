"""Moving in from another agent: what was found, and taking it over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.integrations.migration.found import PARTS as PARTS
    from agent.integrations.migration.found import Findings as Findings
    from agent.integrations.migration.found import Part as Part
    from agent.integrations.migration.opening import open_takeover as open_takeover
    from agent.integrations.migration.places import AGENTS as AGENTS
    from agent.integrations.migration.places import look as look
    from agent.integrations.migration.taking_over import Taken as Taken
    from agent.integrations.migration.taking_over import Takeover as Takeover

__getattr__ = exports(
    __name__,
    {
        "agent.integrations.migration.found": "PARTS Findings Part",
        "agent.integrations.migration.opening": "open_takeover",
        "agent.integrations.migration.places": "AGENTS look",
        "agent.integrations.migration.taking_over": "Taken Takeover",
    },
)

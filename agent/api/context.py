"""Files that tell an agent who it is and what a project wants, and what is kept back of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.knowledge.context.allowed_passages import allowed_places as allowed_places
    from agent.knowledge.context.allowed_passages import keep_back as keep_back
    from agent.knowledge.context.allowed_passages import let_in as let_in
    from agent.knowledge.context.passages_here import passages_here as passages_here
    from agent.knowledge.context.quarantine import SHORT as SHORT
    from agent.knowledge.context.quarantine import KeptPassage as KeptPassage

__getattr__ = exports(
    __name__,
    {
        "agent.knowledge.context.allowed_passages": "allowed_places keep_back let_in",
        "agent.knowledge.context.passages_here": "passages_here",
        "agent.knowledge.context.quarantine": "SHORT KeptPassage",
    },
)

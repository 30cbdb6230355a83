"""Messages to agents that cannot read them yet: written down first, handed over once.

Words stand in the agent's session as a note that no model sees. The message in which
the agent reads them is stored with the same text, so what is still to be handed over
follows from the conversation alone, whatever was killed in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.core.store.nodes import Node, storable

TOLD = "subagent_told"


def told(text: str) -> dict[str, Any]:
    """The note in which words stand. Pure."""
    return {"kind": TOLD, "to_model": False, "text": text}


def unheard(path: Sequence[Node]) -> list[str]:
    """What an agent was told and has not read, in order. Pure."""
    waiting: list[str] = []
    for node in path:
        if node.data.get("kind") == TOLD:
            waiting.append(storable(str(node.data.get("text", ""))))
        elif node.kind == "user" and node.content in waiting:
            waiting.remove(node.content)
    return waiting

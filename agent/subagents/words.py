"""What agents are told while they cannot read it yet: written down first, handed over once.

Words stand in the agent's session as a note that no model sees. The message in which
the agent reads them is stored with the same text, so what is still to be handed over
follows from the conversation alone, whatever was killed in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent.store.nodes import Node, storable

if TYPE_CHECKING:
    from agent.store.store import Store
    from agent.subagents.run import Run

TOLD = "subagent_told"


async def keep(store: Store, run: Run, text: str) -> None:
    """Write down what an agent is told, before anybody is promised that it will read it.

    Hold the door of the agent. Raises `StoreError`: then it was not told.
    """
    data: dict[str, Any] = {"kind": TOLD, "to_model": False, "text": text}
    if run.child is not None:
        await run.child.session.add("notice", "", data)
    else:
        await store.append(run.record.id, "notice", "", data)


def unheard(path: Sequence[Node]) -> list[str]:
    """What an agent was told and has not read, in order. Pure."""
    waiting: list[str] = []
    for node in path:
        if node.data.get("kind") == TOLD:
            waiting.append(storable(str(node.data.get("text", ""))))
        elif node.kind == "user" and node.content in waiting:
            waiting.remove(node.content)
    return waiting

"""Messages of a session that are no longer sent whole, for the tool that fetches them."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.store.nodes import Node
from agent.knowledge.context.message_history import elided_up_to, masked_nodes, newest_fold
from agent.session.conversation.live_session import LiveSession
from tools.found import FoundMessage
from tools.results import ToolError

_KINDS = ("user", "assistant", "tool", "notice")


class FoldedMessages:
    """What `tools.context.Folded` asks for, of the branch that is in use."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session

    async def message(self, id: int) -> FoundMessage:
        for node in await self._session.whole_path():
            if node.id == id and node.kind in _KINDS:
                return _found(node)
        raise ToolError(
            f"No message of this conversation has the id {id}; recall_folded without one lists them."
        )

    async def listed(self, query: str, limit: int) -> tuple[int, Sequence[FoundMessage]]:
        path = await self._session.whole_path()
        start, masked = elided_up_to(path), masked_nodes(path)
        folded = newest_fold(path)
        shortened = folded[1].shortened if folded is not None else {}
        words = query.lower().split()
        found = [
            node
            for node in path
            if node.kind in _KINDS
            and (node.id < start or node.id in masked or node.id in shortened)
            and (node.content or node.data.get("calls"))
            and all(word in _text(node).lower() for word in words)
        ]
        return len(found), [_found(node) for node in found[-limit:]]


def _found(node: Node) -> FoundMessage:
    return FoundMessage(node.id, node.kind, node.created, _text(node))


def _text(node: Node) -> str:
    """A message with the calls it makes."""
    calls = [f"[called {call['name']} with {call['arguments']}]" for call in node.data.get("calls", ())]
    return "\n".join([*([node.content] if node.content else []), *calls])

"""Small paths of nodes for tests: `Path_().user("hi").assistant("", calls=["a"]).tool("a", "…").nodes`."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.store.nodes import Node


class PathOf:
    """Builds a path of nodes with ids 1, 2, 3 …"""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def add(self, kind: str, content: str = "", **data: object) -> PathOf:
        number = len(self.nodes) + 1
        parent = number - 1 or None
        self.nodes.append(Node(number, "s", parent, kind, float(number), content, data))
        return self

    def user(self, text: str) -> PathOf:
        return self.add("user", text, origin="prompt")

    def assistant(self, text: str, calls: Sequence[str] = (), arguments: str = "{}") -> PathOf:
        asked = [{"id": call, "name": "read_file", "arguments": arguments} for call in calls]
        return self.add("assistant", text, calls=asked, reasoning="", state="complete")

    def tool(self, call: str, text: str) -> PathOf:
        return self.add("tool", text, call=call, tool="read_file", outcome="done")

"""The tree of a session: nodes, branches, marks, and going about in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.context.fold import folded_into as folded_into
    from agent.history.navigation import BUSY as BUSY
    from agent.history.navigation import NavigationResult as NavigationResult
    from agent.store.marks import NodeMark as NodeMark
    from agent.store.nodes import MAIN as MAIN
    from agent.store.nodes import BranchHead as BranchHead
    from agent.store.nodes import Node as Node
    from agent.store.nodes import Session as Session
    from agent.store.operations import Operation as Operation
    from agent.store.operations import SessionPlace as SessionPlace
    from agent.store.outline import OutlineRow as OutlineRow

__getattr__ = exports(
    __name__,
    {
        "agent.context.fold": "folded_into",
        "agent.store.marks": "NodeMark",
        "agent.store.nodes": "BranchHead MAIN Node Session",
        "agent.store.operations": "Operation SessionPlace",
        "agent.store.outline": "OutlineRow",
        "agent.history.navigation": "BUSY NavigationResult",
    },
)

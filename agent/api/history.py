"""The tree of a session: nodes, branches, marks, and going about in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.core.store.marks import NodeMark as NodeMark
    from agent.core.store.nodes import MAIN as MAIN
    from agent.core.store.nodes import BranchHead as BranchHead
    from agent.core.store.nodes import Node as Node
    from agent.core.store.nodes import Session as Session
    from agent.core.store.operations import Operation as Operation
    from agent.core.store.operations import SessionPlace as SessionPlace
    from agent.core.store.outline import OutlineRow as OutlineRow
    from agent.knowledge.context.fold import folded_into as folded_into
    from agent.session.history.navigation import BUSY as BUSY
    from agent.session.history.navigation import NavigationResult as NavigationResult

__getattr__ = exports(
    __name__,
    {
        "agent.knowledge.context.fold": "folded_into",
        "agent.core.store.marks": "NodeMark",
        "agent.core.store.nodes": "BranchHead MAIN Node Session",
        "agent.core.store.operations": "Operation SessionPlace",
        "agent.core.store.outline": "OutlineRow",
        "agent.session.history.navigation": "BUSY NavigationResult",
    },
)

"""Two branches side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.session.history.branch_comparison import BranchComparison as BranchComparison
    from agent.session.history.branch_comparison import BranchSide as BranchSide

__getattr__ = exports(
    __name__,
    {
        "agent.session.history.branch_comparison": "BranchComparison BranchSide",
    },
)

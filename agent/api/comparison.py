"""Two branches side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.history.branch_comparison import BranchComparison as BranchComparison
    from agent.history.branch_comparison import BranchSide as BranchSide

__getattr__ = exports(
    __name__,
    {
        "agent.history.branch_comparison": "BranchComparison BranchSide",
    },
)

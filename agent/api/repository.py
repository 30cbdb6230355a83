"""The git checkout around the workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.workspace.repository import Checkout as Checkout
    from agent.workspace.repository import checkout as checkout

__getattr__ = exports(
    __name__,
    {
        "agent.workspace.repository": "Checkout checkout",
    },
)

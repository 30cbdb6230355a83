"""Tools that a session showed and that no server offers now: in the registry for as long as it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from agent.integrations.mcp.tools import PLACE
from agent.model.protocol import ToolSpec
from tools.context import ToolContext
from tools.registry import Registry
from tools.results import ToolError


@contextmanager
def stand_ins(gone: Sequence[ToolSpec], registry: Registry) -> Iterator[None]:
    """Have the tools offered within the block; afterwards a call of one is told that it is gone."""
    is_shown = True
    for spec in gone:
        registry.register(
            spec.name,
            toolset="mcp",
            schema={"description": spec.description, "parameters": dict(spec.parameters)},
            handler=_gone(spec.name),
            check_fn=lambda: is_shown,
            is_async=True,
            emoji="⧉",
            traits=("for_scripts", "brought"),
            place=PLACE,
        )
    try:
        yield
    finally:
        is_shown = False


def _gone(name: str) -> Any:
    async def call(_arguments: dict[str, Any], _context: ToolContext) -> dict[str, Any]:
        raise ToolError(f"The tool {name} is gone: its server does not offer it now.")

    return call

"""Kinds of agents in files, as screens and `hermes agents` read and edit them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.subagents.availability import doubts as doubts
    from agent.subagents.definitions import UNTRUSTED as UNTRUSTED
    from agent.subagents.definitions import Broken as Broken
    from agent.subagents.definitions import Catalog as Catalog
    from agent.subagents.definitions import Definition as Definition
    from agent.subagents.definitions import Definitions as Definitions
    from agent.subagents.definitions import Source as Source
    from agent.subagents.definitions import is_name as is_name
    from agent.subagents.definitions import parse as parse
    from agent.subagents.definitions import read_definition as read_definition

__getattr__ = exports(
    __name__,
    {
        "agent.subagents.availability": "doubts",
        "agent.subagents.definitions": (
            "Broken Catalog Definition Definitions Source UNTRUSTED is_name parse read_definition"
        ),
    },
)

"""Kinds of agents in files, as screens and `hermes agents` read and edit them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.session.subagents.availability import doubts as doubts
    from agent.session.subagents.definitions import UNTRUSTED as UNTRUSTED
    from agent.session.subagents.definitions import Broken as Broken
    from agent.session.subagents.definitions import Catalog as Catalog
    from agent.session.subagents.definitions import Definition as Definition
    from agent.session.subagents.definitions import Definitions as Definitions
    from agent.session.subagents.definitions import Source as Source
    from agent.session.subagents.definitions import is_name as is_name
    from agent.session.subagents.definitions import parse as parse
    from agent.session.subagents.definitions import read_definition as read_definition

__getattr__ = exports(
    __name__,
    {
        "agent.session.subagents.availability": "doubts",
        "agent.session.subagents.definitions": (
            "Broken Catalog Definition Definitions Source UNTRUSTED is_name parse read_definition"
        ),
    },
)

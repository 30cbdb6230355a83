"""Conversations and changes as files for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.export.filters import ExportFilter as ExportFilter
    from agent.export.html_page import page_of as page_of
    from agent.export.patch import patch_between as patch_between
    from agent.export.shortening import shortened as shortened
    from agent.export.shortening import tokens_of as tokens_of
    from agent.export.trajectories import atif_trajectory as atif_trajectory
    from agent.export.trajectories import called_tools as called_tools
    from agent.export.trajectories import openai_messages as openai_messages
    from agent.export.trajectories import tool_statistics as tool_statistics
    from agent.store.export import line as line
    from agent.store.export import masked as masked
    from agent.store.export import node_record as node_record
    from agent.store.export import portable_line as portable_line
    from agent.store.export import trajectory as trajectory

__getattr__ = exports(
    __name__,
    {
        "agent.export.filters": "ExportFilter",
        "agent.export.html_page": "page_of",
        "agent.export.patch": "patch_between",
        "agent.export.shortening": "shortened tokens_of",
        "agent.export.trajectories": "atif_trajectory called_tools openai_messages tool_statistics",
        "agent.store.export": "line masked node_record portable_line trajectory",
    },
)

"""Conversations and changes as files for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.core.store.export import line as line
    from agent.core.store.export import masked as masked
    from agent.core.store.export import node_record as node_record
    from agent.core.store.export import portable_line as portable_line
    from agent.core.store.export import trajectory as trajectory
    from agent.session.export.filters import ExportFilter as ExportFilter
    from agent.session.export.html_page import page_of as page_of
    from agent.session.export.patch import patch_between as patch_between
    from agent.session.export.shortening import shortened as shortened
    from agent.session.export.shortening import tokens_of as tokens_of
    from agent.session.export.trajectories import atif_trajectory as atif_trajectory
    from agent.session.export.trajectories import called_tools as called_tools
    from agent.session.export.trajectories import openai_messages as openai_messages
    from agent.session.export.trajectories import tool_statistics as tool_statistics

__getattr__ = exports(
    __name__,
    {
        "agent.session.export.filters": "ExportFilter",
        "agent.session.export.html_page": "page_of",
        "agent.session.export.patch": "patch_between",
        "agent.session.export.shortening": "shortened tokens_of",
        "agent.session.export.trajectories": "atif_trajectory called_tools openai_messages tool_statistics",
        "agent.core.store.export": "line masked node_record portable_line trajectory",
    },
)

"""Recorded sessions, replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.attachments import AttachmentStore as AttachmentStore
    from agent.replay.going_live import branch_before as branch_before
    from agent.replay.going_live import check_step as check_step
    from agent.replay.replaying import ReplayReport as ReplayReport
    from agent.replay.replaying import replay as replay
    from agent.replay.replaying import steps_of as steps_of

__getattr__ = exports(
    __name__,
    {
        "agent.attachments": "AttachmentStore",
        "agent.replay.going_live": "branch_before check_step",
        "agent.replay.replaying": "ReplayReport replay steps_of",
    },
)

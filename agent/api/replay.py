"""Recorded sessions, replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.core.attachments import AttachmentStore as AttachmentStore
    from agent.session.replay.going_live import branch_before as branch_before
    from agent.session.replay.going_live import check_step as check_step
    from agent.session.replay.replaying import ReplayReport as ReplayReport
    from agent.session.replay.replaying import replay as replay
    from agent.session.replay.replaying import steps_of as steps_of

__getattr__ = exports(
    __name__,
    {
        "agent.core.attachments": "AttachmentStore",
        "agent.session.replay.going_live": "branch_before check_step",
        "agent.session.replay.replaying": "ReplayReport replay steps_of",
    },
)

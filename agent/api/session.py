"""The types of an open session and of its parts, for annotations in surfaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.integrations.mcp.service import McpService as McpService
    from agent.session.attempts.parallel_attempts import LiveAttempt as LiveAttempt
    from agent.session.engine import Engine as SessionClient
    from agent.session.pending_requests import Approvals as Approvals

    __all__ = ["Approvals", "LiveAttempt", "McpService", "SessionClient"]

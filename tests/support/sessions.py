"""What stands behind the sessions that surfaces use."""

from __future__ import annotations

from typing import Any

from agent.session.engine import Engine


def engine_of(app: Any) -> Engine:
    """The engine of the session that an application has open; it works in this process."""
    client = app.need_client()
    assert isinstance(client, Engine)
    return client

"""Options a surface chooses when it opens a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.session.options import PREVIEWED as PREVIEWED
    from agent.session.options import Options as Options

__getattr__ = exports(
    __name__,
    {
        "agent.session.options": "Options PREVIEWED",
    },
)

"""The pane of subagents. The bridge updates it, like other parts of the screen."""

from __future__ import annotations

from app.tui.panes.pane_kind import PaneKind
from widgets.panes.agents import AgentsPane

PANE = PaneKind("agents", 20, AgentsPane)

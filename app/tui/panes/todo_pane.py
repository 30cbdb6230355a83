"""The task list. The bridge tells it what happened, as other parts of the screen."""

from __future__ import annotations

from app.tui.panes.pane_kind import PaneKind
from widgets.panes.todo import TodoPane

PANE = PaneKind("todo", 10, TodoPane)

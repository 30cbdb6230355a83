"""The pane of the task list. The bridge updates it, like other parts of the screen."""

from __future__ import annotations

from app.tui.panes.pane_kind import PaneKind
from widgets.panes.todo import TodoPane

PANE = PaneKind("todo", 10, TodoPane)

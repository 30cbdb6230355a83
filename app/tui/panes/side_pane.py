"""The four built-in panes. The bridge updates them, like other parts of the screen."""

from __future__ import annotations

from functools import partial

from app.tui.panes.pane_kind import PaneKind
from widgets.panes.agents import AgentsPane
from widgets.panes.files import FilesPane
from widgets.panes.log import LogPane
from widgets.panes.todo import TodoPane

PANES = (
    PaneKind("todo", 10, TodoPane),
    PaneKind("agents", 20, AgentsPane),
    PaneKind("log", 30, partial(LogPane, scope="elsewhere")),
    PaneKind("files", 40, FilesPane),
)

"""The log of all tool calls. The bridge updates it, like other parts of the screen."""

from __future__ import annotations

from functools import partial

from app.tui.panes.pane_kind import PaneKind
from widgets.panes.log import LogPane

PANE = PaneKind("log", 30, partial(LogPane, scope="elsewhere"))

"""The pane of changed files. The bridge updates it, like other parts of the screen."""

from __future__ import annotations

from app.tui.panes.pane_kind import PaneKind
from widgets.panes.files import FilesPane

PANE = PaneKind("files", 40, FilesPane)

"""The parts of the session screen other than its prompt: the workbench with conversation and side panes.

Importing these modules takes as long as everything the first picture needs. They are therefore imported after
the first picture, in a thread, by `app.tui.conversation.session_screen`.
"""

from __future__ import annotations

from textual.geometry import Size

from app.tui.panes.pane_kind import pane_kinds
from widgets.panes.pane import Pane, PaneBar
from widgets.panes.workbench import Workbench
from widgets.transcript.view import Transcript

pane_kinds()
"""Imported together with this module, as nothing waits for it."""


class SessionPanes:
    """New, empty widgets that show a session."""

    def __init__(self, room: Size) -> None:
        """`room` is the size available for all of them."""
        self.transcript = Transcript()
        self.kinds = pane_kinds()
        self.by_name: dict[str, Pane] = {kind.name: kind.make() for kind in self.kinds}
        self.workbench = Workbench(self.transcript, tuple(self.by_name.values()), PaneBar(), room=room)

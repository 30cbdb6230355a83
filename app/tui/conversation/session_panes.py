"""The workbench of the session screen: the conversation and its side panes.

Importing this module takes as long as importing everything that the first frame needs. It is therefore
imported after the first frame, in a thread, by `app.tui.conversation.session_screen`.
"""

from __future__ import annotations

from textual.geometry import Size

from app.tui.panes.pane_kind import pane_kinds
from widgets.panes.pane import Pane, PaneBar
from widgets.panes.workbench import Workbench
from widgets.transcript.view import Transcript

pane_kinds()
"""Imported together with this module, because no user action waits for this import."""


class SessionPanes:
    """New, empty widgets that show a session."""

    def __init__(self, room: Size) -> None:
        """`room` is the size available to the workbench."""
        self.transcript = Transcript()
        self.kinds = pane_kinds()
        self.by_name: dict[str, Pane] = {kind.name: kind.make() for kind in self.kinds}
        self.workbench = Workbench(self.transcript, tuple(self.by_name.values()), PaneBar(), room=room)

"""The parts of the session screen beside its prompt: the workbench with conversation and side panes.

Reading these modules takes as long as everything the first picture needs, so nothing imports
this one by the time that is drawn; `app.tui.conversation.session_screen` does afterwards, in a thread.
"""

from __future__ import annotations

from textual.geometry import Size

from app.tui.panes.pane_kind import pane_kinds
from widgets.panes.pane import Pane, PaneBar
from widgets.panes.workbench import Workbench
from widgets.transcript.view import Transcript

pane_kinds()
"""Read together with this module, as nobody waits for it."""


class SessionPanes:
    """The parts that show a session, new and empty."""

    def __init__(self, room: Size) -> None:
        """`room` is what there will be for all of them."""
        self.transcript = Transcript()
        self.kinds = pane_kinds()
        self.by_name: dict[str, Pane] = {kind.name: kind.make() for kind in self.kinds}
        self.workbench = Workbench(self.transcript, tuple(self.by_name.values()), PaneBar(), room=room)

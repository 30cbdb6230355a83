"""What the session screen is furnished with once it stands: the workbench with conversation and side panes.

Reading these modules takes as long as everything the first picture needs, so nothing imports
this one by the time that is drawn; `app.screens.session` does afterwards, in a thread.
"""

from __future__ import annotations

from textual.geometry import Size

from widgets.panes.agents import AgentsPane
from widgets.panes.bar import PaneBar
from widgets.panes.files import FilesPane
from widgets.panes.log import LogPane
from widgets.panes.todo import TodoPane
from widgets.panes.workbench import Workbench
from widgets.transcript.view import Transcript


class Furniture:
    """The parts that show a session, new and empty."""

    def __init__(self, room: Size) -> None:
        """`room` is what there will be for all of them."""
        self.transcript = Transcript()
        self.todo = TodoPane()
        self.agents = AgentsPane()
        self.calls = LogPane()
        self.files = FilesPane()
        panes = (self.todo, self.agents, self.calls, self.files)
        self.workbench = Workbench(self.transcript, panes, PaneBar(), room=room)

"""What the session screen is furnished with once it stands: the conversation and the side panes.

Reading these modules takes as long as everything the first picture needs, so nothing imports
this one by the time that is drawn; `app.screens.session` does afterwards, in a thread.
"""

from __future__ import annotations

from widgets.panes.agents import AgentsPane
from widgets.panes.files import FilesPane
from widgets.panes.log import LogPane
from widgets.panes.pane import Pane
from widgets.panes.todo import TodoPane
from widgets.transcript.view import Transcript


class Furniture:
    """The parts that show a session, new and empty."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self.todo = TodoPane()
        self.agents = AgentsPane()
        self.calls = LogPane()
        self.files = FilesPane()

    @property
    def panes(self) -> tuple[Pane, ...]:
        """The panes as they stand in their column."""
        return self.todo, self.agents, self.calls, self.files

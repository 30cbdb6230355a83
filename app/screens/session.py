"""The screen of a session: status bar, conversation, side panes, prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import Screen

from app.commands import bindings
from widgets.palette import Palette
from widgets.panes.agents import AgentsPane
from widgets.panes.bar import PaneBar
from widgets.panes.files import FilesPane
from widgets.panes.log import LogPane
from widgets.panes.status import StatusBar
from widgets.panes.todo import TodoPane
from widgets.panes.workbench import Workbench
from widgets.prompt.history import History
from widgets.prompt.widget import Prompt
from widgets.transcript.view import Transcript


class SessionScreen(Screen[None]):
    """Only composes and hands out its parts; what happens in them is the bridge's and the actions' affair."""

    AUTO_FOCUS = "Prompt"
    # What is written begins in the column in which what was said does.
    DEFAULT_CSS = "#session-prompt { height: auto; padding: 0 1; background: $surface; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(),
        Binding("question_mark", "app.order('program.help')", "Help", show=False, id="session.help"),
    ]

    def __init__(
        self, history: History | None = None, files: Callable[[], Iterable[str]] | None = None
    ) -> None:
        """`history` holds what was sent before, `files` lists the project's files for mentions."""
        super().__init__()
        self.transcript = Transcript()
        self.prompt = Prompt(history=history, files_provider=files)
        self.status = StatusBar()
        self.todo = TodoPane()
        self.agents = AgentsPane()
        self.calls = LogPane()
        self.files = FilesPane()
        self.workbench = Workbench(
            self.transcript, (self.todo, self.agents, self.calls, self.files), PaneBar()
        )

    def compose(self) -> ComposeResult:
        yield self.status
        yield self.workbench
        yield Container(self.prompt, id="session-prompt")

    def on_mount(self) -> None:
        self.workbench.add_jump_target("prompt", self.prompt)

    def use(self, palette: Palette) -> None:
        """Draw everything with another skin."""
        for part in (self.transcript, self.prompt, self.status, self.workbench):
            part.use(palette)

    def move(self, motion: bool) -> None:
        """Whether anything moves: the two places that have a spinner."""
        self.transcript.motion = motion
        self.status.move(motion)

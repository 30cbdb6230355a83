"""The screen of a session: status bar, conversation, side panes, prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar

from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import Screen

from app.commands import bindings
from app.warmup import bring
from widgets.palette import Palette
from widgets.panes.bar import PaneBar
from widgets.panes.status import StatusBar
from widgets.panes.workbench import Workbench
from widgets.prompt.history import History
from widgets.prompt.widget import Prompt

if TYPE_CHECKING:
    from widgets.panes.agents import AgentsPane
    from widgets.panes.files import FilesPane
    from widgets.panes.log import LogPane
    from widgets.panes.todo import TodoPane
    from widgets.transcript.view import Transcript

FURNITURE = "app.screens.furniture"


class SessionScreen(Screen[None]):
    """Only composes and hands out its parts; what happens in them is the bridge's and the actions' affair.

    It stands with status bar, rules and prompt; `furnish` brings the conversation and the panes.
    """

    AUTO_FOCUS = "Prompt"
    # What is written begins in the column in which what was said does.
    DEFAULT_CSS = "#session-prompt { height: auto; padding: 0 1; background: $surface; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        # First of all, as Textual would end a selection on the way and leave nothing to go by.
        Binding(
            "escape", "leave_conversation", "Back", show=False, priority=True, id="session.leave_conversation"
        ),
        *bindings(),
        Binding("question_mark", "app.order('program.help')", "Help", show=False, id="session.help"),
    ]

    transcript: Transcript
    todo: TodoPane
    agents: AgentsPane
    calls: LogPane
    files: FilesPane

    def __init__(
        self, history: History | None = None, files: Callable[[], Iterable[str]] | None = None
    ) -> None:
        """`history` holds what was sent before, `files` lists the project's files for mentions."""
        super().__init__()
        self.prompt = Prompt(history=history, files_provider=files)
        self.status = StatusBar()
        self.workbench = Workbench(None, (), PaneBar())
        self.furnished = False
        """Whether conversation and panes are there."""

    def compose(self) -> ComposeResult:
        yield self.status
        yield self.workbench
        yield Container(self.prompt, id="session-prompt")

    def on_mount(self) -> None:
        self.workbench.add_jump_target("prompt", self.prompt)

    async def furnish(self) -> None:
        """Bring in conversation and panes, without keeping the keys waiting."""
        new = (await bring(FURNITURE)).Furniture()
        self.transcript, self.todo, self.agents = new.transcript, new.todo, new.agents
        self.calls, self.files = new.calls, new.files
        self.transcript.use(self.workbench.palette)
        self.transcript.motion = self.status.motion
        await self.workbench.furnish(self.transcript, new.panes)
        self.furnished = True

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Esc leads out of the conversation only while that has the keys."""
        return action != "leave_conversation" or (self.furnished and self.transcript.has_focus)

    def action_leave_conversation(self) -> None:
        """End a selection or a search in the conversation; without one, go back to the prompt."""
        if self.get_selected_text():
            self.clear_selection()
        elif self.transcript.finder.pattern:
            self.run_worker(self.transcript.find(""), group="find")
        else:
            self.prompt.focus()
            if self.prompt.busy:
                # Esc stops a turn wherever it is pressed.
                raise SkipAction

    def use(self, palette: Palette) -> None:
        """Draw everything with another skin."""
        for part in (self.prompt, self.status, self.workbench):
            part.use(palette)
        if self.furnished:
            self.transcript.use(palette)

    def move(self, motion: bool) -> None:
        """Whether anything moves: the two places that have a spinner."""
        self.status.move(motion)
        if self.furnished:
            self.transcript.motion = motion

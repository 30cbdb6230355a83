"""The screen of a session: status bar, conversation, side panes, prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.messages import Prune
from textual.strip import Strip

from app.commands import bindings
from app.screens.closable import ClosableScreen
from app.screens.placing import bring_in, put_in_place
from app.twice import Twice
from app.warmup import bring
from widgets.ground import Backdrop, Ground
from widgets.palette import Palette
from widgets.panes.arrangement import Arrangement
from widgets.panes.empty import EmptyBench
from widgets.panes.status import StatusBar
from widgets.prompt.history import History
from widgets.prompt.widget import Prompt

if TYPE_CHECKING:
    from app.application import HermesApp
    from widgets.panes.agents import AgentsPane
    from widgets.panes.files import FilesPane
    from widgets.panes.log import LogPane
    from widgets.panes.todo import TodoPane
    from widgets.panes.workbench import Workbench
    from widgets.transcript.view import Transcript

FURNITURE = "app.screens.furniture"
ESCAPES = 0.6
"""Seconds between two presses of esc that belong together."""
STOPPING = 1.0
"""Seconds after a turn was stopped in which esc means nothing else."""


class SessionScreen(ClosableScreen[None]):
    """Only composes and hands out its parts; what happens in them is the bridge's and the actions' affair.

    It stands with status bar, rules and prompt; `furnish` brings the workbench with conversation and panes.
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
        Binding("escape", "twice", "Go back", show=False, id="session.twice"),
        Binding("question_mark", "app.order('program.help')", "Help", show=False, id="session.help"),
    ]

    workbench: Workbench
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
        self._empty = EmptyBench()
        self._arranged: Mapping[str, Any] = {}
        self.furnished = False
        """Whether conversation and panes are there."""
        self._escapes = Twice(ESCAPES)
        self._ground = Ground(self)

    def compose(self) -> ComposeResult:
        yield self.status
        yield self._empty
        yield Backdrop(self.prompt, id="session-prompt")

    async def on_prune(self, event: Prune) -> None:
        """The application ends: so does all its work, as much of it deals with what is shown here."""
        self.workers.cancel_all()

    def render_lines(self, crop: Region) -> list[Strip]:
        return self._ground.rows(crop)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Arrange the panes as remembered; before there are any."""
        self._arranged = state
        self._empty.wished = Arrangement().changed(state).width

    async def furnish(self) -> None:
        """Bring in conversation and panes, without keeping the keys waiting."""
        new = (await bring(FURNITURE)).Furniture(self._empty.size)
        self.transcript, self.todo, self.agents = new.transcript, new.todo, new.agents
        self.calls, self.files, self.workbench = new.calls, new.files, new.workbench
        self.transcript.motion = self.agents.motion = self.status.motion
        self.workbench.restore(self._arranged)
        self.workbench.add_jump_target("prompt", self.prompt)
        for part in (self.workbench, self.transcript):
            part.use(self._empty.palette)
        await bring_in(self, self.workbench, self._empty)
        self.furnished = True
        await put_in_place(self, self.workbench, self._empty)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Esc leads out of the conversation while that has the keys; twice, back from an empty prompt."""
        if action == "twice":
            return self.prompt.has_focus and not self.prompt.text and not self.prompt.busy
        return action != "leave_conversation" or (self.furnished and self.transcript.has_focus)

    def action_twice(self) -> None:
        """The second esc at an empty prompt in short order, while nothing runs, leads back."""
        if self._escapes.press():
            cast("HermesApp", self.app).action_order("session.rewind")

    def action_leave_conversation(self) -> None:
        """End a selection or a search in the conversation; without one, go back to the prompt."""
        if self.get_selected_text():
            self.clear_selection()
        elif self.transcript.finder.pattern:
            self.run_worker(partial(self.transcript.find, ""), group="find")
        else:
            self.prompt.focus()
            if self.prompt.busy:
                # Esc stops a turn wherever it is pressed.
                raise SkipAction

    def stopped(self) -> None:
        """Esc has stopped a turn: whoever goes on pressing it does not mean to go back."""
        self._escapes.hold(STOPPING)

    def use(self, palette: Palette) -> None:
        """Draw everything with another skin."""
        for part in (self.prompt, self.status, self._empty):
            part.use(palette)
        if self.furnished:
            self.workbench.use(palette)
            self.transcript.use(palette)

    def move(self, motion: bool) -> None:
        """Whether anything moves: what has a spinner, and the speed of agents."""
        self.status.move(motion)
        if self.furnished:
            self.transcript.motion = motion
            self.agents.move(motion)

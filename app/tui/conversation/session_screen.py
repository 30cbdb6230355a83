"""The screen of a session: status bar, conversation, side panes, prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.messages import Prune

from app.tui.commands.registry import bindings
from app.tui.conversation.conversation_screen import ConversationScreen
from app.tui.conversation.double_press import DoublePress
from app.tui.startup.preload import bring
from widgets.panes.arrangement import Arrangement
from widgets.panes.status import StatusBar
from widgets.prompt.history import History
from widgets.prompt.widget import Prompt

if TYPE_CHECKING:
    from agent.events import Event
    from app.tui.commands.command_kind import AppCommand
    from app.tui.panes.pane_kind import PaneKind
    from widgets.panes.files import FilesPane
    from widgets.panes.log import LogPane
    from widgets.panes.pane import Pane
    from widgets.panes.todo import TodoPane

PANES_MODULE = "app.tui.conversation.session_panes"
ESCAPES = 0.6
"""Seconds between two presses of esc that belong together."""
STOPPING = 1.0
"""Seconds after a turn was stopped in which esc means nothing else."""


class SessionScreen(ConversationScreen):
    """Only composes and hands out its parts; what happens in them is the bridge's and the actions' affair.

    It stands with status bar, rules and prompt; `furnish` brings the workbench with conversation and panes.
    """

    PROMPT_ID = "session-prompt"
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

    todo: TodoPane
    calls: LogPane
    files: FilesPane

    def __init__(
        self, history: History | None = None, files: Callable[[], Iterable[str]] | None = None
    ) -> None:
        """`history` holds what was sent before, `files` lists the project's files for mentions."""
        self.status = StatusBar()
        super().__init__(self.status, Prompt(history=history, files_provider=files))
        self._arranged: Mapping[str, Any] = {}
        self.pane_commands: list[AppCommand] = []
        """Commands of panes that declare one."""
        self._hearing: list[tuple[PaneKind, Pane]] = []
        """Panes that take events themselves."""
        self._escapes = DoublePress(ESCAPES)

    async def on_prune(self, event: Prune) -> None:
        """The application ends: so does all its work, as much of it deals with what is shown here."""
        self.workers.cancel_all()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Arrange the panes as remembered; before there are any."""
        self._arranged = state
        self._empty.wished = Arrangement().changed(state).width

    async def mount_panes(self) -> None:
        """Bring in conversation and panes, without keeping the keys waiting."""
        new = (await bring(PANES_MODULE)).SessionPanes(self._empty.size)
        self.made(new.workbench, new.transcript, new.by_name["agents"])
        self.todo, self.calls, self.files = (new.by_name[name] for name in ("todo", "log", "files"))
        self._hearing = [(kind, new.by_name[kind.name]) for kind in new.kinds if kind.events]
        self.pane_commands = [command for kind in new.kinds if (command := kind.command()) is not None]
        self.transcript.motion = self.agents.motion = self.status.motion
        self.workbench.restore(self._arranged)
        self.workbench.add_jump_target("prompt", self.prompt)
        for part in (self.workbench, self.transcript):
            part.use(self._empty.palette)
        await self.place_workbench()

    def hear(self, event: Event) -> None:
        """Tell the panes that take events themselves."""
        for kind, pane in self._hearing:
            if isinstance(event, kind.events):
                kind.hear(pane, event)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Esc leads out of the conversation while that has the keys; twice, back from an empty prompt."""
        if action == "twice":
            return self.prompt.has_focus and not self.prompt.text and not self.prompt.busy
        return action != "leave_conversation" or (self.panes_mounted and self.transcript.has_focus)

    async def action_twice(self) -> None:
        """The second esc at an empty prompt in short order, while nothing runs, leads back."""
        if self._escapes.press():
            await self.app.run_action("order('session.rewind')")

    def action_leave_conversation(self) -> None:
        """End a selection or a search in the conversation; without one, go back to the prompt."""
        if not self.ends_selection_or_search():
            self.prompt.focus()
            if self.prompt.busy:
                # Esc stops a turn wherever it is pressed.
                raise SkipAction

    def stopped(self) -> None:
        """Esc has stopped a turn: whoever goes on pressing it does not mean to go back."""
        self._escapes.hold(STOPPING)

"""The screen of a session: status bar, conversation, side panes, prompt."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.messages import Prune
from textual.strip import Strip
from textual.widget import Widget

from app.tui.commands.registry import bindings
from app.tui.screens.closable import ClosableScreen
from app.tui.startup.preload import import_yielding
from widgets.background import Backdrop, Background
from widgets.palette import Palette
from widgets.panes.arrangement import EmptyBench
from widgets.panes.status import StatusBar
from widgets.prompt.history import History
from widgets.prompt.widget import Prompt

if TYPE_CHECKING:
    from textual.screen import Screen

    from app.tui.commands.registry import AppCommand
    from app.tui.panes.pane_kind import PaneKind
    from widgets.panes.agents import AgentHeader, AgentsPane
    from widgets.panes.files import FilesPane
    from widgets.panes.log import LogPane
    from widgets.panes.pane import Pane
    from widgets.panes.todo import TodoPane
    from widgets.panes.workbench import Workbench
    from widgets.transcript.view import Transcript


async def mount_hidden(screen: Screen[Any], workbench: Workbench, empty: EmptyBench) -> None:
    """Mount `workbench` hidden next to `empty`, which remains visible. Raises `MountError` if the screen has
    closed.
    """
    workbench.set_hidden(True)
    workbench.display = False
    await screen.mount(workbench, after=empty)


async def put_in_place(screen: Screen[Any], workbench: Workbench, empty: EmptyBench) -> None:
    """Show `workbench` instead of `empty`: first the conversation and the rules, then the panes.

    Returns once all of it is painted. Must not be awaited in a message handler of the screen.
    """
    await _wait_for_paint(screen)
    # The covered widget stays hidden: removing it would cost another layout.
    empty.display, workbench.display = False, True
    await _wait_for_paint(screen)
    workbench.set_hidden(False)
    await _wait_for_paint(screen)


async def _wait_for_paint(screen: Screen[Any]) -> None:
    """Wait until the screen has painted all changes made so far."""
    done = asyncio.Event()
    screen.call_after_refresh(done.set)
    await done.wait()


class ConversationScreen(ClosableScreen[None]):
    """The base class of screens that show the conversation of the main agent or of a subagent.

    It starts with header and prompt; `place_workbench` adds the workbench with conversation and panes.
    """

    AUTO_FOCUS = "Prompt"
    BINDINGS: ClassVar[list[BindingType]] = [
        # Whatever has the focus comes first; the prompt leaves them to the conversation.
        Binding("pageup", "page(-1)", "Page up", show=False, id="conversation.page_up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="conversation.page_down"),
    ]
    PROMPT_ID: ClassVar[str]
    """The id of the prompt's container in style sheets."""

    workbench: Workbench
    transcript: Transcript
    agents: AgentsPane
    """The pane that lists the subagents of the agent shown here."""

    def __init__(self, head: StatusBar | AgentHeader, prompt: Prompt, agent: str = "") -> None:
        super().__init__()
        self.shows_agent = agent
        """The id of the agent; empty for the main agent."""
        self.head = head
        self.prompt = prompt
        self.panes_mounted = False
        """True once conversation and panes are mounted."""
        self.is_made = False
        """True once they are created, so that skin and motion apply to them."""
        self._empty = EmptyBench()
        self._ground = Background(self)

    def compose(self) -> ComposeResult:
        yield self.head
        yield self._empty
        yield Backdrop(self.prompt, id=self.PROMPT_ID)
        yield from self.foot()

    def foot(self) -> tuple[Widget, ...]:
        """The widgets below the prompt."""
        return ()

    def keys_shown(self) -> frozenset[str]:
        """The characters that the visible key hints list as keys of the focused widget."""
        return self.workbench.keys_shown() if self.panes_mounted else frozenset()

    def render_lines(self, crop: Region) -> list[Strip]:
        return self._ground.rows(crop)

    def adopt_workbench(self, workbench: Workbench, transcript: Transcript, agents: AgentsPane) -> None:
        """Store the workbench and its parts; they are not shown yet."""
        self.workbench, self.transcript, self.agents = workbench, transcript, agents
        self.is_made = True

    async def place_workbench(self) -> None:
        """Mount conversation and panes without delaying key presses. Raises `MountError`."""
        await mount_hidden(self, self.workbench, self._empty)
        self.panes_mounted = True
        await put_in_place(self, self.workbench, self._empty)

    def ends_selection_or_search(self) -> bool:
        """End a selection in the conversation, or without one a search; return whether there was either."""
        if self.get_selected_text():
            self.clear_selection()
        elif self.transcript.finder.pattern:
            self.run_worker(partial(self.transcript.navigator.find, ""), group="find")
            self.query("#find-bar").remove()
        else:
            return False
        return True

    def action_page(self, direction: int) -> None:
        """Scroll the conversation by a page, also while the prompt has the focus."""
        if self.panes_mounted:
            self.transcript.action_page(direction)

    def go_to_end(self) -> None:
        """Scroll to the end of the conversation and follow it, even if the user was reading further up."""
        if self.panes_mounted:
            self.workbench.uncover()
            self.transcript.navigator.focused = None
            self.transcript.navigator.jump_to_end()

    def use(self, palette: Palette) -> None:
        """Show everything in the colours of another skin."""
        for part in (self.prompt, self.head, self._empty):
            part.use(palette)
        if self.is_made:
            self.workbench.use(palette)
            self.transcript.use(palette)

    def set_motion(self, motion: bool) -> None:
        """Turn animation on or off for the header, the conversation and the agents pane."""
        self.head.set_motion(motion)
        if self.is_made:
            self.transcript.motion = motion
            self.agents.set_motion(motion)


class DoublePress:
    """Recognizes the second press of a key; `window` is the longest time between presses in seconds."""

    def __init__(self, window: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._window = window
        self._clock = clock
        self._last = float("-inf")
        self._held = float("-inf")

    def press(self) -> bool:
        """Record a press; return whether it completes a double press. The next press is a first one again."""
        now = self._clock()
        if now < self._held:
            return False
        second = now - self._last <= self._window
        self._last = float("-inf") if second else now
        return second

    def hold(self, seconds: float) -> None:
        """Ignore presses for some seconds, because the key has just done something else."""
        self._last = float("-inf")
        self._held = self._clock() + seconds


PANES_MODULE = "app.tui.conversation.session_panes"
ESCAPES = 0.6
"""Seconds between two presses of esc that count as a double press."""
STOPPING = 1.0
"""Seconds after a turn was stopped during which esc has no other meaning."""


class SessionScreen(ConversationScreen):
    """The screen of the session. It composes its parts; bridge and actions control them.

    It starts with status bar, rules and prompt; `mount_panes` adds the workbench with conversation and panes.
    """

    PROMPT_ID = "session-prompt"
    # Text in the prompt starts in the same column as text in the conversation.
    DEFAULT_CSS = "#session-prompt { height: auto; padding: 0 1; background: $surface; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        # With priority, as Textual would end the selection before this binding could check it.
        Binding(
            "escape", "leave_conversation", "Back", show=False, priority=True, id="session.leave_conversation"
        ),
        *bindings(),
        # From the prompt the next mode, as in other agents; elsewhere the part before this one.
        Binding("shift+tab", "mode_or_previous", "Next mode", show=False, id="session.next_mode"),
        Binding("escape", "twice", "Go back", show=False, id="session.twice"),
        Binding("question_mark", "app.order('program.help')", "Help", show=False, id="session.help"),
    ]

    todo: TodoPane
    calls: LogPane
    files: FilesPane

    def __init__(
        self, history: History | None = None, files: Callable[[], Iterable[str]] | None = None
    ) -> None:
        """`history` holds earlier messages, `files` lists the project's files for mentions."""
        self.status = StatusBar()
        super().__init__(self.status, Prompt(history=history, files_provider=files))
        self._arranged: Mapping[str, Any] = {}
        self.pane_commands: list[AppCommand] = []
        """The commands that open panes, as far as panes declare one."""
        self.hearing: list[tuple[PaneKind, Pane]] = []
        """Panes that handle events themselves."""
        self._hints: Sequence[str] = ()
        self._escapes = DoublePress(ESCAPES)

    async def on_prune(self, event: Prune) -> None:
        """Cancel all workers of the application when this screen is removed, as many of them use it."""
        self.workers.cancel_all()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Remember the saved arrangement of the panes until `mount_panes` applies it."""
        self._arranged = state

    def show_hints(self, hints: Sequence[str]) -> None:
        """Show these hints in an empty conversation."""
        self._hints = hints
        if self.panes_mounted:
            self.transcript.show_hints(hints)

    async def mount_panes(self, *, welcome: bool = True) -> None:
        """Mount conversation and panes without delaying keys; `welcome` shows a hint while it is empty."""
        new = (await import_yielding(PANES_MODULE)).SessionPanes(self._empty.size)
        self.adopt_workbench(new.workbench, new.transcript, new.by_name["agents"])
        self.todo, self.calls, self.files = (new.by_name[name] for name in ("todo", "log", "files"))
        self.hearing = [(kind, new.by_name[kind.name]) for kind in new.kinds if kind.events]
        self.pane_commands = [command for kind in new.kinds if (command := kind.command()) is not None]
        self.transcript.show_hints(self._hints)
        self.transcript.welcome(welcome)
        self.transcript.motion = self.agents.motion = self.status.motion
        self.workbench.restore(self._arranged)
        self.workbench.add_jump_target("prompt", self.prompt)
        for part in (self.workbench, self.transcript):
            part.use(self._empty.palette)
        await self.place_workbench()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable Esc in the focused conversation, and double Esc at an empty prompt while nothing runs."""
        if action == "twice":
            return self.prompt.has_focus and not self.prompt.text and not self.prompt.busy
        return action != "leave_conversation" or (self.panes_mounted and self.transcript.has_focus)

    async def action_twice(self) -> None:
        """On the second quick press of Esc, open the list of messages to go back to."""
        if self._escapes.press():
            await self.app.run_action("order('session.rewind')")

    async def action_mode_or_previous(self) -> None:
        """Switch to the next permission mode if the prompt has the focus; else focus the previous widget."""
        if self.prompt.has_focus:
            await self.app.run_action("order('program.mode')")
        else:
            self.focus_previous()

    def action_leave_conversation(self) -> None:
        """End a selection or a search in the conversation; without either, focus the prompt."""
        if not self.ends_selection_or_search():
            self.prompt.focus()
            if self.prompt.busy:
                # Esc stops a turn wherever it is pressed.
                raise SkipAction

    def note_stop(self) -> None:
        """Record that Esc stopped a turn, so that further presses are ignored for `STOPPING` seconds."""
        self._escapes.hold(STOPPING)

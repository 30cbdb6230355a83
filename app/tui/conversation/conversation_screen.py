"""Base of every screen with a conversation: a head, the workbench, a prompt."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from app.tui.conversation.pane_placing import bring_in, put_in_place
from app.tui.screens.closable import ClosableScreen
from widgets.background import Backdrop, Background
from widgets.palette import Palette
from widgets.panes.empty_workbench import EmptyBench
from widgets.prompt.widget import Prompt

if TYPE_CHECKING:
    from widgets.panes.agent_header import AgentHeader
    from widgets.panes.agents import AgentsPane
    from widgets.panes.status import StatusBar
    from widgets.panes.workbench import Workbench
    from widgets.transcript.view import Transcript


class ConversationScreen(ClosableScreen[None]):
    """The conversation of the session's own agent, or of one that was sent.

    It stands with head and prompt; `place_workbench` brings the workbench in, with conversation and panes.
    """

    AUTO_FOCUS = "Prompt"
    PROMPT_ID: ClassVar[str]
    """What style sheets call the prompt's place."""

    workbench: Workbench
    transcript: Transcript
    agents: AgentsPane
    """The agents below the one whose conversation it is."""

    def __init__(self, head: StatusBar | AgentHeader, prompt: Prompt, agent: str = "") -> None:
        super().__init__()
        self.shows_agent = agent
        """The id of the agent; empty for the session's own."""
        self.head = head
        self.prompt = prompt
        self.panes_mounted = False
        """Whether conversation and panes are there."""
        self.is_made = False
        """Whether they were made, so that skin and motion reach them."""
        self._empty = EmptyBench()
        self._ground = Background(self)

    def compose(self) -> ComposeResult:
        yield self.head
        yield self._empty
        yield Backdrop(self.prompt, id=self.PROMPT_ID)
        yield from self.foot()

    def foot(self) -> tuple[Widget, ...]:
        """What stands below the prompt."""
        return ()

    def keys_shown(self) -> frozenset[str]:
        """The characters that are said to be commands where the focus is."""
        return self.workbench.keys_shown() if self.panes_mounted else frozenset()

    def render_lines(self, crop: Region) -> list[Strip]:
        return self._ground.rows(crop)

    def made(self, workbench: Workbench, transcript: Transcript, agents: AgentsPane) -> None:
        """Take the workbench with what is in it; nothing of it is shown yet."""
        self.workbench, self.transcript, self.agents = workbench, transcript, agents
        self.is_made = True

    async def place_workbench(self) -> None:
        """Bring in conversation and panes, without keeping the keys waiting. Raises `MountError`."""
        await bring_in(self, self.workbench, self._empty)
        self.panes_mounted = True
        await put_in_place(self, self.workbench, self._empty)

    def ends_selection_or_search(self) -> bool:
        """End a selection in the conversation, or else a search; whether there was one."""
        if self.get_selected_text():
            self.clear_selection()
        elif self.transcript.finder.pattern:
            self.run_worker(partial(self.transcript.navigator.find, ""), group="find")
        else:
            return False
        return True

    def use(self, palette: Palette) -> None:
        """Draw everything with another skin."""
        for part in (self.prompt, self.head, self._empty):
            part.use(palette)
        if self.is_made:
            self.workbench.use(palette)
            self.transcript.use(palette)

    def move(self, motion: bool) -> None:
        """Whether anything moves: what has a spinner, and the speed of agents."""
        self.head.move(motion)
        if self.is_made:
            self.transcript.motion = motion
            self.agents.move(motion)

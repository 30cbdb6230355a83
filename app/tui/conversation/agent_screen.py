"""The live conversation of a subagent, with its own prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from textual.binding import Binding, BindingType
from textual.widget import MountError, Widget

from agent.errors import HermesError
from agent.events import (
    AgentEnded,
    AgentProgressed,
    AgentStarted,
    Asked,
    Event,
    QueueChanged,
    RequestResolved,
    SessionOpened,
    TodosChanged,
    TurnStarted,
    UserMessageAdded,
)
from app.tui.commands.registry import COMMANDS, CommandCall, bindings, read_slash
from app.tui.conversation.bridge import UnstoredEvents, end_notice, show_event
from app.tui.conversation.replay import newest_first
from app.tui.conversation.session_screen import ConversationScreen
from app.tui.screens.page import BETWEEN, KeyLine
from widgets.panes.agents import LIVE, UNDER_WAY, AgentHeader, AgentRow, AgentsPane
from widgets.panes.pane import PaneBar
from widgets.panes.todo import TodoPane
from widgets.panes.workbench import Workbench
from widgets.prompt.completion import CommandChoice
from widgets.prompt.widget import Prompt
from widgets.rows.row_text import one_line
from widgets.transcript.parts import Item, UserItem
from widgets.transcript.view import Transcript

if TYPE_CHECKING:
    from agent.core.store.nodes import Node
    from app.tui.app_context import AgentControls
    from app.tui.conversation.bridge import Bridge
    from app.tui.screens.skins.appearance import AppearancePort


CONVERSATION = tuple(command for command in COMMANDS if command.group == "Conversation")
"""The commands that work on any conversation, also on a subagent's."""
ABOUT_IT = (
    AgentStarted,
    AgentProgressed,
    AgentEnded,
    TodosChanged,
    Asked,
    RequestResolved,
)
"""Events that change what is shown beside the conversation."""
ALWAYS = ("tab conversation", "F1 help", "esc back")
"""Key hints shown in every state of the agent."""
READS = 5
"""The number of times that a conversation is read at most if it changes during reading."""


class AgentScreen(ConversationScreen):
    """The screen of one subagent: it shows the past conversation, then follows it. Esc leads back."""

    CSS_PATH = "agent_screen.tcss"
    PROMPT_ID = "agent-prompt"
    BINDINGS: ClassVar[list[BindingType]] = [
        # With priority, as Textual would end the selection before this binding could check it.
        Binding(
            "escape", "leave_conversation", "Back", show=False, priority=True, id="agent.leave_conversation"
        ),
        *bindings(CONVERSATION),
        Binding("alt+p", "pause", "Pause the agent, or let it continue", id="agent.pause"),
        Binding("alt+k", "kill", "Stop the agent for good", id="agent.kill"),
        Binding("escape", "back", "Back", id="agent.back"),
        Binding("ctrl+c", "back_out", "Copy, or clear the prompt", show=False, id="agent.back_out"),
        Binding("f1,question_mark", "app.order('program.help')", "Help", show=False, id="agent.help"),
    ]

    def __init__(self, agent: str, agents: AgentControls, bridge: Bridge) -> None:
        clock = bridge.clock
        self.header = AgentHeader(lambda: bridge.team.row(agent), clock=clock)
        super().__init__(self.header, Prompt(), agent)
        self._agents = agents
        self._bridge = bridge
        self.todo = TodoPane(agent)
        below, transcript = AgentsPane(clock=clock), Transcript()
        transcript.clock = clock
        self.adopt_workbench(Workbench(transcript, (self.todo, below), PaneBar()), transcript, below)
        self._keys = KeyLine(id="agent-keys")
        self._told: tuple[str, ...] = ()
        """The key hints shown last."""
        self._stood = bridge.team.row(agent)
        """The agent's row at the last clock tick, compared to find changes."""
        self._stop: Callable[[], None] = lambda: None
        self._missed: list[Event] | None = []
        """Events that arrived while the conversation was read; None once it is shown."""

    def foot(self) -> tuple[Widget, ...]:
        return (self._keys,)

    def on_mount(self) -> None:
        app = cast("AppearancePort", self.app)
        main = app.session
        self.transcript.document.archive.file.folder = main.transcript.document.archive.file.folder
        self.transcript.navigator.wrap_code(main.transcript.document.wrap)
        self.transcript.direct.write = app.direct_write
        self.prompt.vi = main.prompt.vi
        self.prompt.bind_keys(app.keys.for_prompt())
        self.prompt.completer.files_provider = main.prompt.completer.files_provider
        self.prompt.completer.commands = [
            CommandChoice(each.slash, each.name, each.argument_hint) for each in CONVERSATION if each.slash
        ]
        self.prompt.set_text(self._agents.drafts.pop(self.shows_agent, ""))
        self.workbench.restore({"width": main.workbench.state()["width"]})
        self.workbench.add_jump_target("prompt", self.prompt)
        self.set_motion(app.appearance.motion)
        self.use(app.appearance.palette)
        self._stop = self._bridge.streams.follow(self.shows_agent, self._handle)
        self._show_standing()
        # This screen gets no events of subagents and merges.
        self.set_interval(1.0, self._keep_up)
        self.run_worker(self._begin, group="read")

    def on_unmount(self) -> None:
        self._stop()

    # Display

    async def _begin(self) -> None:
        """Mount conversation and panes without delaying key presses, and fill them."""
        try:
            await self.place_workbench()
        except MountError:
            return  # the user has already left
        await self._read()

    async def _read(self) -> None:
        """Show the stored conversation and its unfinished part; later events are shown as they arrive."""
        from tools.registry import registry

        path: Sequence[Node] = ()
        try:
            for _ in range(READS):
                self._missed = []
                past = await self._agents.past(self.shows_agent)
                path = announced_nodes(past.path, self._unstored_events, self._is_under_way)
                if not self._bridge.todos.of(self.shows_agent):
                    self.todo.show(past.todos)
                if not any(getattr(event, "node", 0) for event in self._missed):
                    break
        except HermesError as error:
            cast("AppearancePort", self.app).show_warning(str(error))
        self._missed = None
        self.transcript.load(earlier=_with_task(newest_first(path, registry), path))
        for event in self._unstored_events.events():
            show_event(self.transcript, event)
        self._show_standing()

    @property
    def _unstored_events(self) -> UnstoredEvents:
        return self._bridge.streams.unstored_events(self.shows_agent)

    @property
    def _row(self) -> AgentRow | None:
        return self._bridge.team.row(self.shows_agent)

    @property
    def _is_under_way(self) -> bool:
        return (row := self._row) is not None and row.state in UNDER_WAY

    def _handle(self, event: Event) -> None:
        match event:
            case SessionOpened():
                self.dismiss(None)
                return
            case QueueChanged():
                self.prompt.steering = (*event.steering, *event.queued)
            case TurnStarted():
                # The agent starts with its queued messages.
                self.prompt.steering = ()
            case _ if isinstance(event, ABOUT_IT):
                self._show_standing()
        if self._missed is not None:
            self._missed.append(event)
        elif isinstance(event, AgentEnded):
            self.transcript.add_notice(*end_notice(event.outcome))
        elif isinstance(event, UserMessageAdded) and not self.transcript.document.entries:
            show_event(self.transcript, replace(event, origin="task"))
        else:
            show_event(self.transcript, event)

    def _show_standing(self) -> None:
        """Update everything but the conversation: tasks, subagents, waiting messages and key hints."""
        todos = self._bridge.todos
        if items := todos.of(self.shows_agent):
            self.todo.show(items, todos.below(self.shows_agent))
        self._show_below()
        row = self._row
        if row is not None and row.state not in LIVE:
            self.run_worker(self._show_waiting, group="waiting", exclusive=True)
        self.header.update_agent()
        self._show_keys()

    async def _show_waiting(self) -> None:
        """Show the messages that the agent will read when it continues."""
        waiting = await self._agents.waiting(self.shows_agent)
        if (row := self._row) is not None and row.state not in LIVE:
            self.prompt.steering = waiting

    def _keep_up(self) -> None:
        self._show_below()
        if self._row != self._stood:
            self._stood = self._row
            self.header.update_agent()

    def _show_below(self) -> None:
        self.agents.show(self._bridge.team.below(self.shows_agent))

    def _show_keys(self) -> None:
        row = self._row
        name = one_line(row.name) if row is not None else self.shows_agent
        over = not self._is_under_way
        hint = f"let {name} continue with …" if over else f"tell {name} something"
        if self.prompt.placeholder != hint:
            self.prompt.placeholder = hint
            self.prompt.use(self.prompt.palette)
        held = "continue" if row is not None and row.state == "paused" else "pause"
        steering = () if over else (f"alt+p {held}", "alt+k kill")
        keys = ("⏎ let it continue" if over else "⏎ tell it", *steering, *ALWAYS)
        if keys != self._told:
            self._told = keys
            self._keys.say(BETWEEN.join(keys))

    # Actions of the user

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the action of Esc only if the focused conversation has a selection or a search to end."""
        if action == "leave_conversation":
            return self.transcript.has_focus and bool(
                self.get_selected_text() or self.transcript.finder.pattern
            )
        return True

    def action_leave_conversation(self) -> None:
        """End a selection or a search in the conversation."""
        self.ends_selection_or_search()

    def action_back(self) -> None:
        """Return to the previous screen; the text written for the agent is kept."""
        if text := self.prompt.text:
            self._agents.drafts[self.shows_agent] = text
        self.dismiss(None)

    def action_back_out(self) -> None:
        """Copy the selection; without one, empty the prompt."""
        if selected := self.get_selected_text():
            self.app.copy_to_clipboard(selected)
            self.clear_selection()
        else:
            self.prompt.set_text("")

    def action_pause(self) -> None:
        """Pause the agent, or let it continue."""
        self.app.run_worker(partial(self._agents.pause, self.shows_agent))

    def action_kill(self) -> None:
        """Ask for confirmation, then stop the agent."""
        self.app.run_worker(partial(self._agents.kill, self.shows_agent))

    def on_prompt_submitted(self, event: Prompt.Submitted) -> None:
        event.stop()
        if event.kind == "command":
            call = read_slash(event.text)
            if isinstance(call, CommandCall) and call.command in CONVERSATION:
                self.app.run_worker(partial(cast("AppearancePort", self.app).actions.run_slash, event.text))
                return
        if event.kind in ("command", "shell"):
            sign = "/" if event.kind == "command" else "!"
            self._give_back(sign + event.text)
            words = "That works in the main prompt (esc leads there); // begins a message with a slash."
            cast("AppearancePort", self.app).show_warning(words)
        else:
            self.run_worker(partial(self._send, event.text), group="tell")

    async def _send(self, text: str) -> None:
        if await self._agents.send_message(self.shows_agent, text):
            self.go_to_end()
            self._show_standing()
        else:
            self._give_back(text)

    def _give_back(self, text: str) -> None:
        """Put an undelivered message back into the prompt."""
        self.prompt.set_text("\n".join(filter(None, (text, self.prompt.text))))

    def on_workbench_state_changed(self, event: Workbench.StateChanged) -> None:
        # Only the layout of the main session's panes is saved.
        event.stop()

    def on_transcript_placed(self, event: Transcript.Placed) -> None:
        event.stop()
        cast("AppearancePort", self.app).show_notice(
            "The timeline has the messages of the session's own agent only."
        )


def _with_task(items: Iterable[Item], path: Sequence[Node]) -> Iterator[Item]:
    """Yield the items of an agent, with the first user message marked as the task from another agent."""
    task = next((node.id for node in path if node.kind == "user"), 0)
    for item in items:
        yield replace(item, origin="task") if isinstance(item, UserItem) and item.node == task else item


def announced_nodes(path: Sequence[Node], unstored: UnstoredEvents, under_way: bool) -> Sequence[Node]:
    """Return the part of a path whose events have already arrived. Pure.

    Nodes after it are shown when their events arrive.
    """
    if not under_way or not unstored.node:
        return path
    end = len(path)
    while end and path[end - 1].id > unstored.node and path[end - 1].kind in ("user", "assistant", "tool"):
        end -= 1
    return path[:end]

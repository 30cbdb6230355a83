"""The translation of engine events into screen updates, with the state of the status line."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.attachments import display_text
from agent.core.listeners import Listeners
from agent.core.store.nodes import MAIN
from agent.events import (
    AgentEnded,
    AgentStarted,
    Asked,
    AssistantMessageAdded,
    BranchSwitched,
    EffortChanged,
    Event,
    FileChange,
    FilesChanged,
    ModeChanged,
    Noticed,
    PrefixBroken,
    QueueChanged,
    ReasoningAdded,
    ReplyCut,
    RequestResolved,
    RetryScheduled,
    SessionOpened,
    StepTaken,
    TextAdded,
    TodosChanged,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UsageChanged,
    UserMessageAdded,
)
from agent.integrations.server_events import ServerLogged
from app.tui.conversation.attachments import sources
from app.tui.panes.agent_rows import AgentRows
from app.tui.questions.request_queue import RequestQueue
from app.tui.terminal.attention import Attention, CallKind
from tools.context import Todo
from tools.results import DiffDetail, Display
from widgets.panes.files import PaneFileChange
from widgets.panes.status import StatusFigures
from widgets.panes.todo import TasksBelow
from widgets.transcript.parts import CallItem, result_lines

if TYPE_CHECKING:
    from widgets.transcript.view import Transcript

Listener = Callable[[Event], None]
PROGRESS_KEPT = 40
"""The number of output pieces of a running call that are kept for a pane opened later."""


@dataclass(slots=True)
class _Running:
    started: ToolStarted
    progress: deque[ToolProgressed] = field(default_factory=lambda: deque(maxlen=PROGRESS_KEPT))


@dataclass(slots=True)
class UnstoredEvents:
    """The events of an agent's conversation that are not stored yet: streamed text and running calls."""

    node: int = 0
    """The id of the last stored message or result that an event announced; 0 if there is none."""
    _pieces: list[Event] = field(default_factory=list[Event])
    _calls: dict[str, _Running] = field(default_factory=dict[str, _Running])

    def handle(self, event: Event) -> None:
        """Add an event of the conversation, or drop the events that it completes."""
        match event:
            case TextAdded() | ReasoningAdded() | ReplyCut():
                self._pieces.append(event)
            case AssistantMessageAdded():
                self.node = event.node
                self._pieces.clear()
            case UserMessageAdded():
                self.node = event.node
            case ToolStarted(parent=""):
                self._calls[event.call] = _Running(event)
            case ToolProgressed() if event.call in self._calls:
                self._calls[event.call].progress.append(event)
            case ToolFinished(parent=""):
                self.node = max(self.node, event.node)
                self._calls.pop(event.call, None)

    def events(self) -> list[Event]:
        """Return the events that follow the stored conversation: streamed text, then running calls."""
        calls = [each for running in self._calls.values() for each in (running.started, *running.progress)]
        return [*self._pieces, *calls]


class AgentStreams:
    """The unfinished conversations of all subagents, and the listeners of each."""

    def __init__(self) -> None:
        self._unstored: dict[str, UnstoredEvents] = {}
        self._listeners: dict[str, list[Listener]] = {}

    def handle(self, event: Event) -> None:
        """Record an event and pass it to the listeners of its agent; `SessionOpened` goes to all of them."""
        if isinstance(event, SessionOpened):
            self._unstored.clear()
            for each in [each for listeners in self._listeners.values() for each in listeners]:
                each(event)
        if event.agent == "main":
            return
        if isinstance(event, AgentStarted | AgentEnded):
            # The agent is not running yet, or has ended.
            node = self._unstored[event.agent].node if event.agent in self._unstored else 0
            self._unstored[event.agent] = UnstoredEvents(node)
        else:
            self._unstored.setdefault(event.agent, UnstoredEvents()).handle(event)
        for listener in tuple(self._listeners.get(event.agent, ())):
            listener(event)

    def unstored_events(self, agent: str) -> UnstoredEvents:
        """Return the unfinished part of an agent's conversation."""
        return self._unstored.get(agent) or UnstoredEvents()

    def follow(self, agent: str, listener: Listener) -> Callable[[], None]:
        """Pass every event of an agent to `listener`, until the returned function is called."""
        listeners = self._listeners.setdefault(agent, [])
        listeners.append(listener)

        def stop() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return stop


class TodoTree:
    """The task lists of all agents, and for each agent the task of its parent that it works on."""

    def __init__(self) -> None:
        self._lists: dict[str, tuple[Todo, ...]] = {}
        self._sent: dict[str, TasksBelow] = {}
        """Each agent's position below its parent's task, without its own tasks."""

    def handle(self, event: Event) -> bool:
        """Record an event; return whether a task list changed."""
        match event:
            case TodosChanged():
                self._lists[event.agent] = event.items
                return True
            case AgentStarted() if event.agent not in self._sent:
                self._sent[event.agent] = TasksBelow(
                    event.agent, event.name, event.parent, self._in_progress(event.parent)
                )
        return False

    def items(self) -> tuple[Todo, ...]:
        """Return the tasks of the main agent."""
        return self.of("main")

    def of(self, agent: str) -> tuple[Todo, ...]:
        """Return the tasks of one agent."""
        return self._lists.get(agent, ())

    def below(self, owner: str = "main") -> tuple[TasksBelow, ...]:
        """Return the task lists of the agents below `owner`, in the order in which the agents were started.

        Empty lists are left out. If an agent's parent has no list, its list is placed where the parent's
        would be.
        """
        found: list[TasksBelow] = []
        for agent, place in self._sent.items():
            items = self.of(agent)
            if items and (standing := self._place(place, owner)) is not None:
                found.append(standing.having(items))
        return tuple(found)

    def _place(self, place: TasksBelow, owner: str) -> TasksBelow | None:
        """Return `place` below its nearest ancestor with tasks, or `owner`; None if that is not below
        `owner`.
        """
        sender, task = place.sender, place.task
        passed = {place.agent}
        while sender != owner and not self.of(sender):
            above = self._sent.get(sender)
            if above is None or sender in passed:
                return None
            passed.add(sender)
            sender, task = above.sender, above.task
        return replace(place, sender=sender, task=task) if self._is_below(sender, owner) else None

    def _is_below(self, agent: str, owner: str) -> bool:
        passed: set[str] = set()
        while agent != owner:
            above = self._sent.get(agent)
            if above is None or agent in passed:
                return False
            passed.add(agent)
            agent = above.sender
        return True

    def clear(self) -> None:
        """Remove all lists, because another session opens."""
        self._lists.clear()
        self._sent.clear()

    def _in_progress(self, agent: str) -> str:
        """Return the id of the task an agent works on; empty if there is none."""
        return next((item.id for item in self.of(agent) if item.status == "in_progress"), "")


def show_event(transcript: Transcript, event: Event) -> None:
    """Show an event of a conversation in its transcript: messages, answers, calls and notices."""
    match event:
        case UserMessageAdded():
            said = display_text(event.text, event.attachments)
            transcript.add_user(said, event.node, event.origin, sources(event.attachments))
        case ReasoningAdded():
            transcript.add_reasoning(event.text)
        case TextAdded():
            transcript.add_text(event.text)
        case AssistantMessageAdded():
            transcript.finish_answer(event.text, event.reasoning, event.node)
        case ReplyCut():
            transcript.mark_interrupted()
        case ToolStarted(parent=""):
            transcript.start_call(event.call, event.tool, event.display, event.arguments)
        case ToolProgressed():
            transcript.progress_call(event.call, event.text)
        case ToolFinished(parent=""):
            transcript.finish_call(event.call, event.outcome, event.seconds, event.display, event.result)
        case StepTaken():
            transcript.changed_files(event.call, event.count)
        case TurnEnded():
            for kind, words in turn_end_notices(event):
                transcript.add_notice(kind, words)
        case PrefixBroken(declared=False):
            # What the user or the session caused costs once and stands in the top line.
            transcript.add_notice("info", f"The provider's cache starts over: {event.reason}.")
        case Noticed():
            transcript.add_notice(event.kind, event.text, event.detail)
        case RetryScheduled() if said := event.notice():
            # Of a row of attempts the first, with the cause in full, and the last stay.
            words = said[1].replace(" s (", "\N{NO-BREAK SPACE}s (")
            transcript.add_notice(said[0], words, instead_of=RETRYING if event.attempt > 3 else "")
        case _ if said := event.notice():
            transcript.add_notice(*said)


RETRYING = "Trying again"
"""The words in each notice of a retried request, by which later ones replace it."""
ENDS: Mapping[str, tuple[str, str]] = {
    "done": ("info", "It has ended: done."),
    "failed": ("error", "It has ended: failed."),
    "denied": ("warning", "It has ended: what it needed was not allowed."),
    "interrupted": ("info", "It has ended: stopped before it was done."),
    "budget": ("warning", "It has ended: its budget was reached."),
}
"""Kind and text of the notice for each end of a subagent."""
_AS_STORED: Mapping[str, str] = {"completed": "done", "killed": "interrupted"}


def end_notice(outcome: str, why: str = "") -> tuple[str, str]:
    """Return kind and text of the notice for an agent's end, from an event's or the store's outcome. Pure."""
    kind, words = ENDS.get(_AS_STORED.get(outcome, outcome), ENDS["failed"])
    return kind, f"{words} {why}".rstrip()


def turn_end_notices(event: TurnEnded) -> list[tuple[str, str]]:
    """Return kind and text of the notices for a turn that did not end normally; empty if it did. Pure."""
    match event.outcome:
        case "failed":
            return [("error", event.error or "The turn failed.")]
        case "interrupted":
            return [("info", "Stopped.")]
        case "denied":
            return [("warning", event.error or "An action was denied in this turn.")]
        case "budget":
            return [("warning", "The limit of requests was reached; send a message to continue.")]
        case _:
            return []


_SANDBOXES = ("", "bubblewrap", "landlock", "seatbelt", "none")
KEPT_RESULTS = 500
"""The number of calls whose results are kept in memory; older ones are read from the session's path."""

_TROUBLES = {
    "": "offline",  # a service of an older version, which does not report it
    "unreachable": "offline",
    "auth": "access refused",
    "billing": "no credit",
    "rate_limit": "rate limited",
}
"""The status line's words for the kinds of failed requests to a model; for other kinds it shows "no answer".
"""

_ALARMING = ("error", "critical", "alert", "emergency")
"""Levels of a tool server's log that are shown as failures."""


_SESSION = (
    SessionOpened,
    TurnStarted,
    TurnEnded,
    QueueChanged,
    ModeChanged,
    EffortChanged,
    UsageChanged,
    BranchSwitched,
    ToolStarted,
    ToolFinished,
)
_ANY_AGENT = (
    ToolStarted,
    ToolProgressed,
    ServerLogged,
    ToolFinished,
    FilesChanged,
    Asked,
    RequestResolved,
)


class Bridge:
    """Receives every event and updates the panes. It is fast: panes record changes and paint later."""

    def __init__(
        self,
        panes: Any,
        requests: RequestQueue,
        attention: Attention,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`panes` are the visible parts of the session's screen."""
        self._logged = 0
        self._asked: set[str] = set()
        self._panes = panes
        self._requests = requests
        self._attention = attention
        self.clock = clock
        """The clock, in seconds, that the panes use as well."""
        self.state = StatusFigures()
        self.team = AgentRows(clock)
        self.todos = TodoTree()
        self.streams = AgentStreams()
        self._own_cost: float | None = None
        """Cost of the main agent in US dollars; None if unknown or not counted yet."""
        self._finished: dict[str, ToolFinished] = {}
        self._running: dict[str, tuple[str, float]] = {}
        """The running calls of the main agent, oldest first: what each does, and its start on the clock."""
        self._touched: dict[str, tuple[FileChange, ...]] = {}
        """Changes that the watcher saw during calls that are still running."""
        self._of_main = Listeners()
        self._of_main.subscribe(lambda event: show_event(self._panes.transcript, event))
        self._of_main.subscribe(self._session, *_SESSION)
        self._of_main.subscribe(self.streams.handle, SessionOpened)
        self._of_agents = Listeners()
        self._of_agents.subscribe(self.streams.handle)
        self.listeners = Listeners()
        """Listeners to the events of all agents, by event types. They must be quick."""
        self.listeners.subscribe(self._show_team_change, *AgentRows.HEARD)
        self.listeners.subscribe(self._show_todos, TodosChanged, AgentStarted)
        self.listeners.subscribe(self._show_any_agent, *_ANY_AGENT)

    def __call__(self, event: Event) -> None:
        (self._of_main if event.agent == "main" else self._of_agents).pass_on(event)
        self.listeners.pass_on(event)

    def _session(self, event: Event) -> None:
        """Show events of the session and its main agent, except those in the conversation."""
        panes = self._panes
        match event:
            case SessionOpened():
                self._begin_session(event)
            case TurnStarted():
                self.change(busy_since=self.clock(), budget_reached=False, trouble="")
                panes.prompt.busy = True
            case TurnEnded():
                failed = event.outcome == "failed" and event.exit_code == 3
                trouble = _TROUBLES.get(event.cause, "no answer") if failed else ""
                self.change(busy_since=None, budget_reached=event.outcome == "budget", trouble=trouble)
                self._running.clear()
                self._show_activity()
                panes.prompt.busy = False
                kind: CallKind = "done" if event.outcome in ("done", "interrupted") else "failed"
                self._attention.call(kind, f"{self.state.title or 'hermes'}: {event.outcome}")
            case QueueChanged():
                panes.prompt.queued, panes.prompt.steering = event.queued, event.steering
            case ModeChanged():
                self.show_approvals(event.mode)
            case EffortChanged():
                self.change(effort=event.effort)
            case UsageChanged():
                self._own_cost = event.session_cost
                self.change(
                    context_used=event.context_used,
                    context_window=event.context_window,
                    cache=event.session_cached / event.session_input if event.session_input else None,
                )
                self._update_cost()
            case ToolStarted(parent=""):
                self._running[event.call] = (event.display.activity(), self.clock())
                self._show_activity()
            case ToolFinished(parent=""):
                self._running.pop(event.call, None)
                self._show_activity()
            case BranchSwitched():
                self._finished.clear()
                self._touched.clear()
                self.show_head(event.head)

    def _show_team_change(self, event: Event) -> None:
        if self.team.handle(event):
            self._show_team()

    def _show_todos(self, event: Event) -> None:
        if self.todos.handle(event):
            self._panes.todo.show(self.todos.items(), self.todos.below())

    def _show_any_agent(self, event: Event) -> None:
        """Show the calls, questions, server logs and file changes of every agent."""
        panes = self._panes
        match event:
            case ToolStarted():
                parent = _key(event, event.parent) if event.parent else None
                panes.calls.start(
                    _key(event, event.call), event.tool, event.display, parent=parent, agent=event.agent
                )
            case ToolProgressed():
                panes.calls.progress(_key(event, event.call), event.text)
            case ServerLogged():
                self._server_log(event)
            case ToolFinished():
                key = _key(event, event.call)
                panes.calls.finish(key, event.outcome, event.seconds, event.display)
                self._keep(key, event)
                self._record_files(event, self._touched.pop(key, ()))
            case FilesChanged():
                self._files_changed(event)
            case Asked():
                self._requests.add(event)
                self._asked.add(event.id)
                panes.transcript.show_asking(event.id, getattr(event, "tool", ""))
                self._show_work()
                self._attention.call("needs_you", f"{self.state.title or 'hermes'} needs an answer")
            case RequestResolved():
                self._requests.close_request(event.id)
                self._asked.discard(event.id)
                panes.transcript.show_asking(event.id, None)
                self._show_work()

    # Subagents

    def recall(self, events: Sequence[Event]) -> None:
        """Show agents that earlier processes started, given by their start and end events."""
        for event in events:
            self.team.handle(event)
            self.todos.handle(event)
        self._show_team()

    def show_stopping(self, agent: str) -> None:
        """Mark an agent as stopping at once, before its end is announced."""
        self.team.mark_stopping(agent)
        self._show_team()

    def clear_ended_agents(self) -> int:
        """Remove the rows of ended agents; return how many were removed."""
        count = self.team.clear_ended()
        self._show_team()
        return count

    def _show_team(self) -> None:
        self._panes.agents.soon(self.team.rows)
        self._update_cost()

    def change(self, **fields: Any) -> None:
        """Change fields of the status line and show it."""
        self.state = self.state._replace(**fields)
        self._panes.status.show(self.state)
        self._show_work()

    def _show_activity(self) -> None:
        activity, since = next(iter(self._running.values()), ("", 0.0))
        self.change(activity=activity, activity_since=since)

    def _show_work(self) -> None:
        busy = "idle" if self.state.busy_since is None else "works"
        self._attention.show_state("asks" if self._asked else busy, self.state.title)

    def _keep(self, key: str, event: ToolFinished) -> None:
        """Keep the result of a call; drop the oldest one if there are more than `KEPT_RESULTS`."""
        self._finished[key] = event
        if len(self._finished) > KEPT_RESULTS:
            del self._finished[next(iter(self._finished))]

    def display_of(self, call: str) -> Display | None:
        """Return how one of the session's last calls is displayed; None if it is no longer kept."""
        event = self._finished.get(call)
        return None if event is None else event.display

    def call_in_full(self, call: str) -> str:
        """Return one of the session's last calls with its full result; empty if it is no longer kept."""
        event = self._finished.get(call)
        if event is None:
            return ""
        detail = event.display.detail
        text = detail.diff if isinstance(detail, DiffDetail) else detail.text if detail else ""
        text = text or result_lines(event.result)
        return f"{event.display.verb} {event.display.subject}\n{event.display.summary}\n\n{text}"

    def _begin_session(self, event: SessionOpened) -> None:
        panes = self._panes
        self._requests.clear()
        panes.transcript.begin_conversation()
        for pane in (panes.calls, panes.files):
            pane.clear()
        self.team.clear()
        self.todos.clear()
        self._own_cost = None
        panes.agents.show(())
        panes.todo.show(())
        panes.prompt.busy = False
        panes.prompt.queued = panes.prompt.steering = ()
        self._finished.clear()
        self._running.clear()
        self._touched.clear()
        self.state = StatusFigures(
            title=event.title,
            folder=Path(event.workspace).name,
            model=event.model,
            effort=event.effort,
            service=self.state.service,
            unsandboxed=event.sandbox == "none",
            place="" if event.sandbox in _SANDBOXES else event.sandbox,
        )
        self.show_approvals(event.approvals)

    def show_approvals(self, mode: str) -> None:
        """Show the mode, unless it is the default."""
        self.change(approvals="" if mode in ("ask", "normal") else mode)

    def show_branch(self, calls: Sequence[tuple[CallItem, float]], files: Sequence[PaneFileChange]) -> None:
        """Show the calls and files of another branch; each call comes with its end, in epoch seconds."""
        log, pane = self._panes.calls, self._panes.files
        log.clear()
        for call, ended in calls:
            at = datetime.fromtimestamp(ended - call.seconds)
            log.start(call.call, call.tool, call.display, at=at)
            log.finish(call.call, call.outcome or "interrupted", call.seconds, call.display)
        pane.clear()
        for outside in (True, False):
            pane.record([file for file in files if file.outside is outside], outside=outside)

    def show_head(self, head: str) -> None:
        """Show the name of the branch, unless it is the main branch."""
        self.change(head="" if head == MAIN else head)

    def _update_cost(self) -> None:
        """Show the session's cost: that of main agent and subagents; unknown if one of them is unknown."""
        sent = self.team.cost()
        self.change(cost=None if self._own_cost is None or sent is None else self._own_cost + sent)

    def _server_log(self, event: ServerLogged) -> None:
        """Show a log line of a tool server among the calls."""
        self._logged += 1
        key = f"server:{self._logged}"
        display = Display(event.level[:20], event.text, "")
        self._panes.calls.start(key, event.level, display, agent=event.server)
        outcome = "failed" if event.level in _ALARMING else "done"
        self._panes.calls.finish(key, outcome, None, display)

    def _files_changed(self, event: FilesChanged) -> None:
        """Record file changes by others at once; those during a call wait for the call's more exact diff."""
        key, outside = _key(event, event.call), event.by == "others"
        if event.more:
            self._panes.files.count_unnamed(event.more, outside=outside)
        if not event.call:
            self._panes.files.record([_change(file) for file in event.files], outside=outside)
        elif key in self._finished:
            self._record_files(self._finished[key], event.files, again=True)
        else:
            self._touched[key] = (*self._touched.get(key, ()), *event.files)

    def _record_files(
        self, event: ToolFinished, seen: tuple[FileChange, ...], *, again: bool = False
    ) -> None:
        """Record the changes of a call: those in its diff, and others `seen` by the watcher meanwhile."""
        if self.team.is_in_copy(event.agent):
            return  # Merging changes the workspace, and only that.
        detail = event.display.detail
        told: list[PaneFileChange] = []
        if event.outcome == "done" and isinstance(detail, DiffDetail):
            told = [PaneFileChange(*each, detail.diff) for each in changed_files(detail.diff)]
        paths = {change.path for change in told}
        more = [_change(file) for file in seen if file.path not in paths]
        if changes := more if again else told + more:
            self._panes.files.record(changes)


def _key(event: Event, call: str) -> str:
    """Return the key of a call in the panes; it includes the agent, as agents number calls separately."""
    return call if event.agent == "main" else f"{event.agent}/{call}"


def _change(file: FileChange) -> PaneFileChange:
    return PaneFileChange(file.path, file.added, file.removed, file.diff, file.kind)


def changed_files(diff: str) -> list[tuple[str, int, int]]:
    """Return path, number of added and of removed lines for each file of a unified diff. Pure."""
    from widgets.transcript.diff import DiffHunk, read_diff

    changes = []
    for file in read_diff(diff):
        signs = [line.sign for part in file.parts if isinstance(part, DiffHunk) for line in part.lines]
        if signs and file.path:
            changes.append((file.path, signs.count("+"), signs.count("-")))
    return changes

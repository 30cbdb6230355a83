"""The events that the engine sends to a surface (a user interface).

The engine emits one ordered stream of events; every surface is a view of it. `docs/events.md` documents the
JSON form, whose version is `STREAM_VERSION`. All text in events may come from outside (model, files, tools):
it has no terminal control characters, and a surface must not interpret it as markup.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from agent.core.event_data import CeilingReply, Decision, FileChange, FormReply, Room, Usage, VerdictPart
from agent.core.messages import Attachment, ModeName
from agent.errors import ModelErrorKind
from tools.context import PersonAnswer, Todo
from tools.results import Display, Outcome

if TYPE_CHECKING:
    from agent.core.event_data import Forecast, Measure

STREAM_VERSION = 1

TurnOutcome = Literal["done", "failed", "interrupted", "denied", "budget"]
"""`denied`: the permission check stopped it; `budget`: it hit a limit of requests, tokens, money or time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base class of all events. `agent` names the agent that it is about: `main`, or a subagent's id."""

    type: ClassVar[str] = ""
    agent: str = "main"
    seq: int = field(default=0, compare=False)
    """Its number within the session, counting from 1; 0 before the stream has numbered it."""

    def to_json(self) -> dict[str, Any]:
        """Return the event as data that can be written as JSON, `type` first; futures are left out."""
        fields = {
            f.metadata.get("name", f.name): _plain(getattr(self, f.name))
            for f in dataclasses.fields(self)
            if f.metadata.get("json", True)
        }
        return {"type": self.type, **fields}

    def notice(self) -> tuple[str, str] | None:
        """Return the event as a line of the conversation (kind and text); None if it is not shown as one."""
        return None


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened(Event):
    """A session is ready. `nodes` is the number of nodes in its conversation, 0 for a new one."""

    type: ClassVar[str] = "session_opened"
    version: int = STREAM_VERSION
    session: str
    title: str
    model: str
    workspace: str
    nodes: int = 0
    approvals: ModeName = "ask"
    """The mode of the permission check."""
    sandbox: str = ""
    """The sandbox of commands: `bubblewrap`, `landlock`, `none`; empty if unknown. For commands on another
    machine its name, such as `docker` or `ssh build.example.org`.
    """
    effort: str = ""
    """The thinking effort: a word such as `high`, or `12,000 tokens`; empty for the provider's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceMoved(Event):
    """The session works in another folder (`to`) from now on. Its earlier changes remain in the previous
    folder.
    """

    type: ClassVar[str] = "workspace_moved"
    left: str = field(metadata={"name": "from"})
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChanged(Event):
    """The permission mode was changed, by the user or by a permissions file."""

    type: ClassVar[str] = "mode_changed"
    mode: ModeName


@dataclass(frozen=True, slots=True, kw_only=True)
class EffortChanged(Event):
    """The thinking effort changes from the next request on; its form is as in `SessionOpened`."""

    type: ClassVar[str] = "effort_changed"
    effort: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted(Event):
    """The engine begins to work on a user message."""

    type: ClassVar[str] = "turn_started"
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessageAdded(Event):
    """A user message was stored. `origin` tells how it arrived."""

    type: ClassVar[str] = "user_message"
    node: int
    text: str
    origin: Literal["prompt", "queue", "steer"] = "prompt"
    attachments: tuple[Attachment, ...] = ()
    """Images that came with the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueChanged(Event):
    """The messages that wait have changed; those in `taken` are stored next, each as a `user_message`."""

    type: ClassVar[str] = "queue_changed"
    queued: tuple[str, ...]
    steering: tuple[str, ...] = ()
    """Messages for the running turn, which are read before its next request."""
    taken: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStarted(Event):
    """A request is sent to the model. `attempt` counts from 1; `step` counts the requests of the turn."""

    type: ClassVar[str] = "request_started"
    model: str
    step: int
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TextAdded(Event):
    """A piece of the answer that is being streamed."""

    type: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningAdded(Event):
    """A piece of the model's reasoning."""

    type: ClassVar[str] = "reasoning"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDrafted(Event):
    """The model is writing a tool call; `chars` of its arguments have arrived."""

    type: ClassVar[str] = "call_drafted"
    index: int
    name: str
    chars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyCut(Event):
    """The stream was interrupted. The text shown so far is marked; another attempt or an error follows."""

    type: ClassVar[str] = "reply_cut"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled(Event):
    """A request failed with a temporary error; the next attempt starts after `delay` seconds."""

    type: ClassVar[str] = "retry"
    reason: str
    delay: float
    attempt: int
    model: str

    def notice(self) -> tuple[str, str]:
        """Return the full cause at the first attempts, later only its beginning, which rarely changes."""
        # The user need not try again: the request is retried automatically.
        reason = re.sub(r"(?:;|, or) try again.*$", "", self.reason).rstrip(".") + "."
        if self.attempt == 1:
            return "warning", f"{reason} Going on with {self.model}."
        said = reason if self.attempt == 2 else re.split(r"[:;] ", self.reason)[0].rstrip(".") + "."
        return "warning", f"{said} Trying again in {self.delay:.1f} s ({self.model})."


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessageAdded(Event):
    """The model's message is complete and stored. It replaces the pieces streamed since the last one."""

    type: ClassVar[str] = "assistant_message"
    node: int
    text: str
    reasoning: str = ""
    calls: tuple[str, ...] = ()
    """Ids of the tool calls in the message, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(Event):
    """A tool call starts. It may still be refused, or wait for an approval."""

    type: ClassVar[str] = "tool_started"
    call: str
    tool: str
    arguments: dict[str, Any]
    display: Display
    parent: str = ""
    """The id of the call whose script makes this one; empty for a call of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgressed(Event):
    """New live output of a running call."""

    type: ClassVar[str] = "tool_progress"
    call: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished(Event):
    """A call ended and its result is stored. `result` is the JSON text that the model reads."""

    type: ClassVar[str] = "tool_finished"
    node: int
    call: str
    tool: str
    outcome: Outcome
    seconds: float
    result: str
    display: Display
    parent: str = ""
    """As in `ToolStarted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TodosChanged(Event):
    """The task list changed; `items` is the whole list."""

    type: ClassVar[str] = "todos"
    items: tuple[Todo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticed(Event):
    """A notice for the user that does not come from the user or the model."""

    type: ClassVar[str] = "notice"
    kind: Literal["info", "warning", "process", "files", "compaction", "recovery", "store"]
    text: str
    detail: str = ""
    """Details, shown on demand: for a compaction, the text that the model reads from now on; for project
    files that were reached, their text.
    """
    node: int = 0
    """The node that the notice is about; 0 if there is none."""

    def notice(self) -> tuple[str, str]:
        return self.kind, self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied(Event):
    """The user copied text in the full-screen interface, which alone has this event."""

    type: ClassVar[str] = "copied"
    way: str
    """How it was copied: `xclip`, `tmux`, `screen`, `terminal`, or `file`, which is not the clipboard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notified(Event):
    """The user was alerted while looking elsewhere. Only the full-screen interface has this event."""

    type: ClassVar[str] = "notified"
    way: str
    """`bell`, `terminal`, `desktop` or `sound`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesChanged(Event):
    """Files of the workspace changed: by a call of the agent, or by the user and other programs."""

    type: ClassVar[str] = "files_changed"
    by: Literal["agent", "others"]
    files: tuple[FileChange, ...]
    call: str = ""
    """The call during which the change happened; empty for `others`, and if files were restored or merged."""
    more: int = 0
    """The number of files not listed, when very many changed at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTaken(Event):
    """The file changes of a call were recorded as a step, which can be undone."""

    type: ClassVar[str] = "step"
    node: int
    """The node with the result of the call."""
    call: str
    step: int
    """The number of the step, which is the position of the files from now on."""
    paths: tuple[str, ...]
    """The first paths that changed, relative to the workspace."""
    count: int
    """The number of paths that changed."""
    coverage: str
    """`full`, or a description of what could not be recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchSwitched(Event):
    """The session continues at another node of its tree; surfaces show that conversation from now on."""

    type: ClassVar[str] = "branch"
    head: str
    """The name of the branch in use."""
    node: int | None
    """The node at its end; None if it is empty."""
    reason: Literal["switch", "rewind", "fork", "undo", "redo"]
    draft: str = ""
    """A user message that was taken back, to be edited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStarted(Event):
    """A subagent, `agent`, was created: it works, or waits for its turn until its first `AgentProgressed`."""

    type: ClassVar[str] = "agent_started"
    parent: str = "main"
    """The agent that started it."""
    call: str = ""
    """The call of the parent that started it."""
    name: str
    """A word or two to distinguish it from its siblings."""
    goal: str
    in_copy: bool = False
    """True if it changes files in a copy, which reach the workspace when they are merged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProgressed(Event):
    """The progress of a subagent. None means unknown; figures are totals since it started."""

    type: ClassVar[str] = "agent_progress"
    state: Literal["pending", "running", "waiting", "paused"] = "running"
    """`waiting`: for the user; `paused`: until it is resumed."""
    action: str = ""
    """Its current action, in a few words."""
    calls: int = 0
    tokens: int | None = None
    cost: float | None = None
    """US dollars."""
    budget: float | None = None
    """The used share of its budget, 0 to 1; None without a ceiling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnded(Event):
    """A subagent has ended; it may be started again. Figures are as in `AgentProgressed`."""

    type: ClassVar[str] = "agent_ended"
    outcome: TurnOutcome
    summary: str
    """The result in a few words, or why the agent failed."""
    seconds: float
    calls: int = 0
    tokens: int | None = None
    cost: float | None = None
    budget: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyChanged(Event):
    """The number of a subagent's changes in its copy that are neither merged nor discarded has changed."""

    type: ClassVar[str] = "copy"
    paths: int
    """The number of changed paths; 0 if nothing is left to merge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageChanged(Event):
    """Tokens and money after a request. `session_*` are totals of the session; None means unknown."""

    type: ClassVar[str] = "usage"
    request: Usage
    session_input: int
    session_output: int
    session_cached: int
    session_cost: float | None
    """US dollars."""
    context_used: int
    """The tokens of the next request, as far as they are known."""
    context_window: int | None
    window_told: bool = False
    """True if the server itself reported the window, rather than the settings or the catalog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixBroken(Event):
    """The prompt prefix changed, so the provider's cache misses once. `declared`: the engine intended it."""

    type: ClassVar[str] = "prefix_broken"
    reason: str
    declared: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Event):
    """A request that waits for the user until a surface resolves `reply`. Each kind is a class."""

    cancelled: ClassVar[Any]
    """The value of `reply` if the request is cancelled."""
    unattended: ClassVar[Any]
    """The reply in an unattended session, in which the user is not asked."""
    id: str
    reply: asyncio.Future[Any] = field(metadata={"json": False})

    def outcome(self, reply: Any) -> str:
        """Return a reply as one word."""
        return str(getattr(reply, "outcome", "") or getattr(reply, "choice", "") or reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAsked(Asked):
    """A question from the model to the user."""

    type: ClassVar[str] = "question"
    cancelled: ClassVar[PersonAnswer] = PersonAnswer("cancelled")
    unattended: ClassVar[PersonAnswer] = PersonAnswer("declined")
    question: str
    choices: tuple[str, ...]
    allow_freetext: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAsked(Asked):
    """A question from the permission check: whether the user allows an action."""

    type: ClassVar[str] = "approval"
    cancelled: ClassVar[Decision] = Decision("cancelled")
    unattended: ClassVar[Decision] = Decision("expired")
    tool: str
    headline: str
    """The full action, such as the whole command or path."""
    reasons: tuple[str, ...]
    parts: tuple[VerdictPart, ...] = ()
    """For commands: the verdict on each part, in the order of execution."""
    touches: tuple[str, ...] = ()
    """Files and folders that the action would change, if known; relative paths are below the workspace."""
    network: Literal["", "yes", "no", "open", "filtered"] = ""
    """`open`: unrestricted network access; `filtered`: hosts need separate approvals; empty: unknown."""
    sandbox: Literal["", "bubblewrap", "landlock", "seatbelt", "none", "outside"] = ""
    """The sandbox in which it would run; `outside`: it would leave the sandbox; empty: unknown."""
    rule: str = ""
    """The scope of a lasting approval, in words; empty if only a single approval is possible."""
    sentence: str = ""
    """What will happen and why approval is needed, for example `Force-pushes main: commits that others have
    may be lost.`
    """
    folder: str = ""
    """The folder in which the action happens."""
    undo: str = ""
    """A clause on what an undo could restore afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastAsked(Asked):
    """A question before agents that may use much are started. None of them begins before the reply.

    `once` starts them, `session` also ends such questions for this session, `deny` starts none.
    """

    type: ClassVar[str] = "forecast"
    cancelled: ClassVar[Decision] = Decision("cancelled")
    unattended: ClassVar[Decision] = Decision("expired")
    forecast: Forecast
    rooms: tuple[Room, ...] = ()
    """The amounts that ceilings leave, from the starting agent's to those of session and day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingAsked(Asked):
    """The agent's next request does not fit a ceiling in the settings; it waits for `reply`."""

    type: ClassVar[str] = "ceiling"
    cancelled: ClassVar[CeilingReply] = CeilingReply("cancelled")
    unattended: ClassVar[CeilingReply] = CeilingReply("expired")
    owner: str
    """The owner of the ceiling, in words."""
    measure: Measure
    ceiling: float
    used: float
    needed: float
    """The most that the next request can use."""
    again: float
    """The proposed ceiling: raised by its own amount as often as needed."""
    setting: str
    """The key of the ceiling in the settings, which are not changed."""


Reply = PersonAnswer | Decision | CeilingReply | FormReply
"""The user's reply to a pending request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestResolved(Event):
    """A request that waited for the user was answered, cancelled or has expired."""

    type: ClassVar[str] = "request_resolved"
    id: str
    outcome: str
    by: str = ""
    """The user and surface that replied, in words; empty for the user at the terminal, or without reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded(Event):
    """The last event of a turn. `error` is a sentence for the user, empty unless the turn failed."""

    type: ClassVar[str] = "turn_ended"
    outcome: TurnOutcome
    text: str
    session: str
    usage: dict[str, int | float | None]
    error: str = ""
    exit_code: int = 0
    cause: ModelErrorKind | Literal[""] = ""
    """The kind of model error that made the turn fail, if any."""

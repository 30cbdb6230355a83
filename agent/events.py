"""The events between the engine and a surface.

The engine emits one ordered stream of events; every surface is a view of it. `docs/events.md` documents the
JSON form, whose version is `STREAM_VERSION`. All text in events may come from outside (model, files, tools):
it has no terminal control bytes, and a surface must not read it as markup.
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
"""`denied`: the gate stopped the turn; `budget`: a limit of requests, tokens, money or time was reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events. `agent` names the agent it is about: `main`, or a subagent's id."""

    type: ClassVar[str] = ""
    agent: str = "main"
    seq: int = field(default=0, compare=False)
    """Its number within the session, counting from 1; 0 before the stream has numbered it."""

    def to_json(self) -> dict[str, Any]:
        """Return the event as JSON-able data, `type` first; futures are left out."""
        fields = {
            f.metadata.get("name", f.name): _plain(getattr(self, f.name))
            for f in dataclasses.fields(self)
            if f.metadata.get("json", True)
        }
        return {"type": self.type, **fields}

    def notice(self) -> tuple[str, str] | None:
        """Return the event as a line of the conversation (kind and words); None for events without one."""
        return None


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened(Event):
    """A session is ready. `nodes` is the length of a resumed conversation, 0 for a new one."""

    type: ClassVar[str] = "session_opened"
    version: int = STREAM_VERSION
    session: str
    title: str
    model: str
    workspace: str
    nodes: int = 0
    approvals: ModeName = "ask"
    """The permission mode of the gate."""
    sandbox: str = ""
    """The confinement of commands: `bubblewrap`, `landlock`, `none`; empty = unknown. For commands on another
    machine its name, such as `docker` or `ssh build.example.org`."""
    effort: str = ""
    """The thinking effort: a word such as `high`, or `12,000 tokens`; empty = the provider's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceMoved(Event):
    """The session works in another folder (`to`) from now on; its earlier changes remain in the previous
    one.
    """

    type: ClassVar[str] = "workspace_moved"
    left: str = field(metadata={"name": "from"})
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChanged(Event):
    """The permission mode was changed, by the person or by a permissions file."""

    type: ClassVar[str] = "mode_changed"
    mode: ModeName


@dataclass(frozen=True, slots=True, kw_only=True)
class EffortChanged(Event):
    """The thinking effort changes from the next request on. `effort` as in `SessionOpened`."""

    type: ClassVar[str] = "effort_changed"
    effort: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted(Event):
    """The engine begins to work on a user message."""

    type: ClassVar[str] = "turn_started"
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessageAdded(Event):
    """A user message was stored. `origin` is its source."""

    type: ClassVar[str] = "user_message"
    node: int
    text: str
    origin: Literal["prompt", "queue", "steer"] = "prompt"
    attachments: tuple[Attachment, ...] = ()
    """Images that came with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueChanged(Event):
    """Messages that wait for the turn to end; those in `taken` are stored next, each as a `user_message`."""

    type: ClassVar[str] = "queue_changed"
    queued: tuple[str, ...]
    steering: tuple[str, ...] = ()
    """Messages for the running turn, which it reads before its next request."""
    taken: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStarted(Event):
    """A request is sent to the model. `attempt` counts from 1; `step` is the iteration within the turn."""

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
    """The stream was interrupted. The shown text remains, marked; another attempt or an error follows."""

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
        """Return the full cause at the first attempt, then without its details, which rarely change."""
        # Nobody has to try again what is tried again.
        reason = re.sub(r"(?:;|, or) try again.*$", "", self.reason).rstrip(".") + "."
        if self.attempt == 1:
            return "warning", f"{reason} Going on with {self.model}."
        said = reason if self.attempt == 2 else re.split(r"[:;] ", self.reason)[0].rstrip(".") + "."
        return "warning", f"{said} Trying again in {self.delay:.1f} s ({self.model})."


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessageAdded(Event):
    """The model's message is complete and stored. Replaces the pieces streamed since the last one."""

    type: ClassVar[str] = "assistant_message"
    node: int
    text: str
    reasoning: str = ""
    calls: tuple[str, ...] = ()
    """Ids of the tool calls it asks for, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(Event):
    """A call passed validation and starts (it may still wait at the gate)."""

    type: ClassVar[str] = "tool_started"
    call: str
    tool: str
    arguments: dict[str, Any]
    display: Display
    parent: str = ""
    """The call whose script makes this one; empty for a call of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgressed(Event):
    """New live output of a running call."""

    type: ClassVar[str] = "tool_progress"
    call: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished(Event):
    """A call ended and its result is stored. `result` is the JSON text the model sees."""

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
    """The whole task list, after a change."""

    type: ClassVar[str] = "todos"
    items: tuple[Todo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticed(Event):
    """A notice for the person that comes from neither person nor model."""

    type: ClassVar[str] = "notice"
    kind: Literal["info", "warning", "process", "files", "compaction", "recovery", "store"]
    text: str
    detail: str = ""
    """Details, shown on demand: for a compaction, the text the model reads from now on; for project files
    that were reached, their text."""
    node: int = 0
    """The node it is about; 0 if there is none."""

    def notice(self) -> tuple[str, str]:
        return self.kind, self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied(Event):
    """A text that the person copied in the full screen. Only its surface has this event."""

    type: ClassVar[str] = "copied"
    way: str
    """A program such as `xclip`, `tmux`, `screen`, `terminal`, or `file`: then it is not on the clipboard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notified(Event):
    """A call to a person who looked elsewhere. Only the full screen has this event."""

    type: ClassVar[str] = "notified"
    way: str
    """`bell`, `terminal`, `desktop` or `sound`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesChanged(Event):
    """Files of the workspace changed: by a call of the agent, or by the person and their other programs."""

    type: ClassVar[str] = "files_changed"
    by: Literal["agent", "others"]
    files: tuple[FileChange, ...]
    call: str = ""
    """The call during which it happened; empty for `others`, and where files were put back or merged."""
    more: int = 0
    """Files beside those named, when very many changed at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTaken(Event):
    """The file changes of a call were recorded as a step, which can be undone."""

    type: ClassVar[str] = "step"
    node: int
    """The result of the call."""
    call: str
    step: int
    """The number of the step: the position of the files from now on."""
    paths: tuple[str, ...]
    """The first paths that changed, relative to the workspace."""
    count: int
    """How many paths changed."""
    coverage: str
    """`full`, or a description of what could not be recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchSwitched(Event):
    """The session continues from another place of its tree: a surface shows that conversation from now on."""

    type: ClassVar[str] = "branch"
    head: str
    """The branch in use."""
    node: int | None
    """Its end; None before anything was said."""
    reason: Literal["switch", "rewind", "fork", "undo", "redo"]
    draft: str = ""
    """A message of the person that was withdrawn, for the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStarted(Event):
    """A subagent, `agent`, was created: it works, or waits for its turn until its first `AgentProgressed`."""

    type: ClassVar[str] = "agent_started"
    parent: str = "main"
    """The agent that sent it."""
    call: str = ""
    """The call of the parent that asked for it."""
    name: str
    """A word or two to distinguish it from its siblings."""
    goal: str
    in_copy: bool = False
    """Whether it changes files of a copy, which reach the workspace when they are merged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProgressed(Event):
    """The progress of a subagent. None means unknown; figures add up since it started."""

    type: ClassVar[str] = "agent_progress"
    state: Literal["pending", "running", "waiting", "paused"] = "running"
    """`waiting`: for the person; `paused`: until it is resumed."""
    action: str = ""
    """Its current action, in a few words."""
    calls: int = 0
    tokens: int | None = None
    cost: float | None = None
    """US dollars."""
    budget: float | None = None
    """The share of its budget that is used, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnded(Event):
    """A subagent has ended; only `CopyChanged` may follow. Figures as in `AgentProgressed`."""

    type: ClassVar[str] = "agent_ended"
    outcome: TurnOutcome
    summary: str
    """The result in a few words, or why it failed."""
    seconds: float
    calls: int = 0
    tokens: int | None = None
    cost: float | None = None
    budget: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyChanged(Event):
    """The number of a subagent's changes in its copy that are neither merged nor discarded."""

    type: ClassVar[str] = "copy"
    paths: int
    """The number of paths; 0: nothing is left to resolve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageChanged(Event):
    """Tokens and money after a request. `session_*` add up the whole session; None means unknown."""

    type: ClassVar[str] = "usage"
    request: Usage
    session_input: int
    session_output: int
    session_cached: int
    session_cost: float | None
    """US dollars."""
    context_used: int
    """Tokens of the next request, as far as known."""
    context_window: int | None
    window_told: bool = False
    """True if the server itself reported the window, rather than the settings or the catalog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixBroken(Event):
    """The prompt prefix changed, so the provider's cache misses once. `reason` was declared by the engine."""

    type: ClassVar[str] = "prefix_broken"
    reason: str
    declared: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Event):
    """A request that waits for a person until a surface resolves `reply`. Each kind is a class."""

    cancelled: ClassVar[Any]
    """The value of `reply` when nobody answers."""
    unattended: ClassVar[Any]
    """The reply in an unattended session, where nothing is asked."""
    id: str
    reply: asyncio.Future[Any] = field(metadata={"json": False})

    def outcome(self, reply: Any) -> str:
        """Return the reply in one word."""
        return str(getattr(reply, "outcome", "") or getattr(reply, "choice", "") or reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAsked(Asked):
    """A question of the model to the person."""

    type: ClassVar[str] = "question"
    cancelled: ClassVar[PersonAnswer] = PersonAnswer("cancelled")
    unattended: ClassVar[PersonAnswer] = PersonAnswer("declined")
    question: str
    choices: tuple[str, ...]
    allow_freetext: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAsked(Asked):
    """A question of the gate to the person."""

    type: ClassVar[str] = "approval"
    cancelled: ClassVar[Decision] = Decision("cancelled")
    unattended: ClassVar[Decision] = Decision("expired")
    tool: str
    headline: str
    """The full action: the whole command, the whole path."""
    reasons: tuple[str, ...]
    parts: tuple[VerdictPart, ...] = ()
    """For commands: the verdict on each part, in the order of execution."""
    touches: tuple[str, ...] = ()
    """Files and folders it would change, if known; relative paths are below the workspace."""
    network: Literal["", "yes", "no", "open", "filtered"] = ""
    """`open`: unrestricted network access; `filtered`: hosts are asked about separately; empty: unknown."""
    sandbox: Literal["", "bubblewrap", "landlock", "seatbelt", "none", "outside"] = ""
    """The sandbox it would run in; `outside`: it would leave the sandbox; empty: unknown."""
    rule: str = ""
    """The scope of a lasting approval, in words; empty if only a single approval is possible."""
    sentence: str = ""
    """What will happen and why it is asked, for example `Force-pushes main: commits that others have may be
    lost.`
    """
    folder: str = ""
    """The folder in which it happens."""
    undo: str = ""
    """What undo could bring back afterwards, as a clause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastAsked(Asked):
    """A question before agents are sent that may use much. A surface resolves `reply` before any of them
    begins.

    `once` sends them, `session` sends them and asks no more in this session, `deny` sends none.
    """

    type: ClassVar[str] = "forecast"
    cancelled: ClassVar[Decision] = Decision("cancelled")
    unattended: ClassVar[Decision] = Decision("expired")
    forecast: Forecast
    rooms: tuple[Room, ...] = ()
    """The amounts the ceilings leave, the narrowest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingAsked(Asked):
    """The agent's next request does not fit a ceiling of the settings; it waits for `reply`."""

    type: ClassVar[str] = "ceiling"
    cancelled: ClassVar[CeilingReply] = CeilingReply("cancelled")
    unattended: ClassVar[CeilingReply] = CeilingReply("expired")
    owner: str
    """The owner of the ceiling, in words."""
    measure: Measure
    ceiling: float
    used: float
    needed: float
    """The maximum of the next request."""
    again: float
    """The ceiling raised by its amount, once or as often as needed."""
    setting: str
    """Its key in the settings, which are not changed."""


Reply = PersonAnswer | Decision | CeilingReply | FormReply
"""A person's reply to a pending request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestResolved(Event):
    """A request that waited for a person was resolved in any way."""

    type: ClassVar[str] = "request_resolved"
    id: str
    outcome: str
    by: str = ""
    """The person and surface that answered, in words; empty for the person at the terminal, and for nobody.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded(Event):
    """The last event of a turn. `error` is a sentence for a person, empty unless the turn failed."""

    type: ClassVar[str] = "turn_ended"
    outcome: TurnOutcome
    text: str
    session: str
    usage: dict[str, int | float | None]
    error: str = ""
    exit_code: int = 0
    cause: ModelErrorKind | Literal[""] = ""
    """The kind of model error that made the turn fail, if any."""

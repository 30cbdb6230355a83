"""An open session as every surface sees it: commands, queries, and a view that events keep up.

Everything that crosses is data: `agent.api.wire` writes all of it as JSON, so the same interface
works in this process (`agent.api.local`) and over a socket (`agent.api.remote`). What is a property is
known without asking; after an event it is as the event left it. Methods that answer are coroutines.
They raise `HermesError`, whatever stands behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from agent.api.plugin_commands import PluginCommands
from agent.api.servers import Servers
from agent.api.session_history import Choices, SessionHistory
from agent.core.event_data import FormReply
from agent.events import Asked, CeilingReply, Decision, Event, TurnEnded, TurnOutcome
from tools.context import PersonAnswer, Todo

if TYPE_CHECKING:
    from agent.core.messages import Attachment, Mode, ModeName
    from agent.core.store.nodes import Node, Session
    from agent.core.store.operations import Operation
    from agent.core.store.search import Filters, Order, SearchHits
    from agent.knowledge.context.context_table import ContextTable
    from agent.knowledge.recall.recall import SearchMode
    from agent.safety.grants import Grant
    from agent.session.history.branch_comparison import BranchComparison
    from agent.session.spending.overview import SpendingOverview
    from agent.workspace.checkpoints.restore.apply import Restored
    from agent.workspace.checkpoints.restore.plan import RestorePlan

Reply = PersonAnswer | Decision | CeilingReply | FormReply
"""What a person says to a request that waits."""


@dataclass(frozen=True, slots=True)
class AgentConversation:
    """What the session has of an agent."""

    path: tuple[Node, ...]
    todos: tuple[Todo, ...]


@dataclass(frozen=True, slots=True)
class AgentCopy:
    """A copy of the workspace that an agent changed."""

    agent: str
    ended: bool
    """Whether the agent has ended; the copy of one that works is not merged."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One branch that works, or has worked, on a message that several got."""

    branch: str
    model: str | None
    """None: the model of the session."""
    outcome: TurnOutcome | Literal["running"]
    text: str
    """Its answer, or why there is none."""
    calls: int
    changed: int
    """Paths it changed."""
    left_out: str
    """What its copy was without; empty when it was whole."""


class Agents(Protocol):
    """The agents that the session sent."""

    async def recall(self) -> Sequence[Event]:
        """Events that tell of the agents of earlier processes: how each began, ended, what it left."""
        ...

    async def waiting(self, agent: str) -> Sequence[str]:
        """What an agent that is not at work reads first when it is; empty for one that is not known."""
        ...

    async def conversation(self, agent: str) -> AgentConversation:
        """What an agent has said and done so far, whether it works or not."""
        ...

    async def has_ended(self, agent: str) -> bool:
        """Whether an agent is over."""
        ...

    async def toggle_pause(self, agent: str) -> None:
        """Hold an agent and all it sent, or let them go on."""
        ...

    async def tell(self, agent: str, text: str) -> None:
        """Tell an agent something before its next request; one that has ended goes on."""
        ...

    async def kill(self, agent: str) -> None:
        """Stop an agent and all it sent for good."""
        ...

    async def copies(self) -> Sequence[AgentCopy]:
        """The copies that hold something that was not merged."""
        ...

    async def holds_copy(self, agent: str) -> bool:
        """Whether a copy still holds something of an agent."""
        ...

    async def plan_merge(self, agent: str) -> RestorePlan:
        """What merging the copy of an agent would do to the project."""
        ...

    async def merge(
        self,
        agent: str,
        plan: RestorePlan,
        choices: Choices,
        label: str,
        note: str,
        onto: Operation | None = None,
    ) -> Restored:
        """Merge a copy; `label` names it for an undo, `note` tells the model, `onto` is undone with it."""
        ...

    async def discard(self, agent: str) -> int:
        """Throw away what an agent changed in its copy; how many changes went."""
        ...


class Attempts(Protocol):
    """The same message worked on by several branches at once."""

    async def listed(self) -> Sequence[Attempt]:
        """All of this session, as they stand."""
        ...

    async def start(self, message: str, count: int, models: Sequence[str] | None = None) -> Sequence[Attempt]:
        """Let so many branches work on a message; those that began."""
        ...

    async def stop(self, number: int | None = None) -> Sequence[Attempt]:
        """Stop one, or all that work; those that were stopped."""
        ...

    async def ended(self, number: int) -> Attempt:
        """One that has ended and can be gone on with."""
        ...


class Approvals(Protocol):
    """What was allowed, and what waits for a yes."""

    async def grants(self) -> Sequence[Grant]:
        """What was allowed for more than once and still holds."""
        ...

    async def revoke(self, grant: Grant) -> bool:
        """Take a lasting yes back; whether it still held."""
        ...

    async def pending(self) -> Sequence[Asked]:
        """Every request that waits for a person, oldest first."""
        ...


class StoredSessions(Protocol):
    """All sessions of this home, also those that are not open."""

    async def newest(self, limit: int) -> Sequence[Session]:
        """The sessions that were used last, newest first."""
        ...

    async def session(self, session: str) -> Session:
        """One of them."""
        ...

    async def node(self, session: str, node: int) -> Node:
        """A message in full."""
        ...

    async def ending(self, session: str, count: int) -> Sequence[Node]:
        """The last nodes of a session, oldest first."""
        ...

    async def before(self, session: str, node: int | None, count: int) -> Sequence[Node]:
        """The nodes that lead to a node of the branch in use (None: to its end), secrets masked."""
        ...

    async def search(
        self,
        text: str,
        *,
        filters: Filters | None = None,
        limit: int = 100,
        order: Order = "rank",
        patience: float | None = None,
        mode: SearchMode = "auto",
    ) -> SearchHits:
        """Messages that answer these words; after `patience` seconds what was found until then."""
        ...

    async def around(self, node: int, window: int) -> Sequence[Node]:
        """A node with `window` of them on either side, secrets masked."""
        ...

    async def branch_with(self, session: str, node: int) -> str:
        """A branch on which a node lies."""
        ...

    async def use_branch(self, session: str, branch: str) -> None:
        """The branch that a session goes on with when it is opened next."""
        ...

    async def rename(self, session: str, title: str) -> None:
        """Give a session another title."""
        ...

    async def delete(self, session: str) -> None:
        """Delete a session and all that belongs to it, unless another window works on it."""
        ...


class SessionClient(Protocol):
    """One open session."""

    # What is known without asking

    @property
    def id(self) -> str: ...

    @property
    def workspace(self) -> Path:
        """The folder it works in."""
        ...

    @property
    def model(self) -> str: ...

    @property
    def branch(self) -> str:
        """The branch in use."""
        ...

    @property
    def path(self) -> Sequence[Node]:
        """All nodes from the root to the end of the branch; those no longer sent without their text."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        ...

    @property
    def queue(self) -> tuple[str, ...]:
        """Messages that wait for the turn to end."""
        ...

    @property
    def watches(self) -> bool:
        """Whether it is noticed what others change in the project."""
        ...

    @property
    def keeps_files(self) -> bool:
        """Whether what happens to files is kept and can be taken back."""
        ...

    @property
    def mode(self) -> Mode:
        """The mode of the gate in force."""
        ...

    @property
    def effort(self) -> str:
        """How much the model thinks: a word or `12,000 tokens`; empty: as its provider likes."""
        ...

    @property
    def lost(self) -> bool:
        """Whether the process behind it has ended, so that nothing can be asked of it any more."""
        ...

    # Commands

    def submit(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        """Begin a turn with a message, or queue it behind the running one."""
        ...

    def steer(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        """Hand a message to the running turn; begin one if none runs."""
        ...

    def set_queue(self, texts: Sequence[str]) -> None:
        """Replace the queued messages, as edited by the person."""
        ...

    def send_queue(self) -> None:
        """Go on with the messages that a stop left in the queue. Nothing while a turn runs."""
        ...

    def interrupt(self) -> None:
        """Stop the running turn for good."""
        ...

    def answer(self, request: str, reply: Reply) -> None:
        """Answer a request that waits, by its id; one that is over already is left as it is."""
        ...

    async def run(self, text: str, attachments: Sequence[Attachment] = ()) -> TurnEnded:
        """Work on one message to its end."""
        ...

    async def go_on(self) -> TurnEnded | None:
        """Carry the turn to its end that the process before was cut off in; None if there is none.

        Nothing that is stored is asked for again: neither an answer of the model nor a call.
        """
        ...

    async def idle(self) -> None:
        """Wait until no turn runs and nothing is about to begin."""
        ...

    async def set_mode(self, mode: ModeName) -> Mode:
        """Choose the mode of the gate; the one that is in force then."""
        ...

    async def set_effort(self, text: str) -> str:
        """Choose how much the model thinks from its next request on; the level in force then."""
        ...

    async def watch(self, on: bool) -> None:
        """Notice from now on what others change in the project, or no longer."""
        ...

    async def add_note(self, text: str) -> None:
        """Add what a process printed to the conversation, for the model to read."""
        ...

    async def aclose(self) -> None:
        """Stop what runs and close the session."""
        ...

    # Queries

    async def compact(self, focus: str = "") -> str:
        """Fold the conversation so far, with an eye on `focus`; a sentence about what came of it."""
        ...

    async def context(self) -> ContextTable:
        """What fills the window of the model now, and what the session has used."""
        ...

    async def usage(self) -> SpendingOverview:
        """What was spent: this session and this day, by whom, beside the ceilings."""
        ...

    async def whole_path(self) -> Sequence[Node]:
        """All nodes from the root to the end of the branch in use, as they were written."""
        ...

    async def compare(self, left: str, right: str) -> BranchComparison:
        """Two branches, given by their names, against each other."""
        ...

    async def export(self, node: int) -> Path:
        """Write the conversation up to a node as a page, secrets masked; the file."""
        ...

    @property
    def history(self) -> SessionHistory:
        """Going about in the tree. Raises `HermesError` where a session has none."""
        ...

    @property
    def agents(self) -> Agents: ...

    @property
    def attempts(self) -> Attempts: ...

    @property
    def approvals(self) -> Approvals: ...

    @property
    def plugins(self) -> PluginCommands: ...

    @property
    def stored(self) -> StoredSessions: ...

    @property
    def servers(self) -> Servers: ...

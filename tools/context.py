"""The services a tool may use, as protocols. The engine implements them.

This module is the only way from a tool to the rest of the program, so a tool
can be tested with a few small objects and moved to another process later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tools.found import FoundMessage, SessionSearch
from tools.services.actions import Action
from tools.services.canvases import CanvasBoard
from tools.services.checkpoints import Checkpoints
from tools.services.diagnostics import Diagnostics
from tools.services.editor import EditorSide
from tools.services.job_keeper import JobKeeper
from tools.services.learning_notes import LearningKeeper
from tools.services.training_keeper import TrainingKeeper
from tools.services.web_reader import WebReader

if TYPE_CHECKING:
    from tools.browser.session import Browsers
    from tools.code.runner import CodeRunner
    from tools.senses.services import Permit, Senses
    from tools.services.skill_keeper import SkillKeeper
    from tools.terminal.terminals import Terminals

TodoStatus = Literal["pending", "in_progress", "completed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Todo:
    """One item of the task list. Order in the list is its priority."""

    id: str
    content: str
    status: TodoStatus


class TodoList(Protocol):
    """The live task list of one agent."""

    def items(self) -> tuple[Todo, ...]: ...

    def replace(self, items: Sequence[Todo]) -> None:
        """Set the whole list; surfaces are told, the reminder counter starts again."""

    def calls_since_update(self) -> int:
        """Tool calls finished since the list was last written or read."""
        ...

    def touch(self) -> None:
        """The model has just looked at the list: start the reminder counter again."""


@dataclass(frozen=True, slots=True)
class PersonAnswer:
    """How a question ended. `text` is set only when `outcome` is `answered`."""

    outcome: Literal["answered", "declined", "expired", "cancelled"]
    text: str = ""


class Asker(Protocol):
    """The way to a person."""

    async def ask(self, question: str, choices: Sequence[str], allow_freetext: bool) -> PersonAnswer: ...


@dataclass(frozen=True, slots=True)
class SeenFile:
    """What the agent knows of a file: SHA-256 of its content, and the lines the model was shown of it."""

    digest: str
    offset: int = 0
    """First line that was shown; 0: none was."""
    limit: int = 0
    repeats: int = 0
    """How often this very region was asked for again while unchanged."""


class FileMemory(Protocol):
    """What the agent has read and written, by resolved path, as one call may use it."""

    def seen_file(self, path: Path) -> SeenFile | None: ...

    def remember(self, path: Path, seen: SeenFile) -> None:
        """Note at once what the agent knows, because it wrote it."""

    def show(self, path: Path, seen: SeenFile) -> None:
        """Note lines in the result of this call, which count as shown once the model has that result."""

    def forget(self, path: Path) -> None: ...


class Folded(Protocol):
    """What of this conversation is no longer sent whole."""

    async def message(self, id: int) -> FoundMessage:
        """One message of the conversation in full. Raises `ToolError`."""
        ...

    async def search_messages(self, query: str, limit: int) -> tuple[int, Sequence[FoundMessage]]:
        """How many folded messages have all words of `query`, and the newest of them, oldest first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Something for another agent to do. `budget` names ceilings: turns, tokens, money, seconds."""

    goal: str
    context: str = ""
    toolsets: tuple[str, ...] = ()
    agent: str = ""
    """Name of a definition, or a word or two to tell it from others."""
    isolation: Literal["shared", "readonly", "copy"] = "shared"
    budget: Mapping[str, float] = field(default_factory=dict)
    model: str = ""
    """The model it asks, as settings name it; empty: that of the session."""
    prompt: str = ""
    """How it should work."""
    only_answers: bool = False
    """Whether it answers `goal` as a question, without any tools."""
    reads: int = 0
    """Answers of others that it reads besides, as far as that is known before they are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSaid:
    """What an agent said that was only asked something."""

    id: str
    outcome: str
    """`completed`, or how it ended instead."""
    text: str
    """In full; what there is of it, if it was not completed."""
    reason: str
    """Why it is not completed."""
    model: str
    tokens: int
    cost: float | None
    """US dollars; None: unknown."""


PermitMerge = Callable[[str, tuple[Path, ...], tuple[Path, ...]], Awaitable[None]]
"""Asks whether an agent's copy may be merged: the agent, what changes in the workspace, what goes away."""

Conflicts = Literal["keep", "take", "merge"]
"""What a merge makes of files that the workspace changed too: nothing, theirs, or both put together."""


class Delegates(Protocol):
    """The agents that this one has sent. Results are JSON-able; all methods raise `ToolError`."""

    async def agree(self, assignments: Sequence[Assignment]) -> bool:
        """Let the person see what agents may take, if that is much; True if they were asked and agreed."""
        ...

    async def run(self, assignments: Sequence[Assignment], background: bool) -> Mapping[str, Any]:
        """Send agents, and wait for their reports unless they work in the background."""
        ...

    async def ask(self, assignments: Sequence[Assignment]) -> Sequence[AgentSaid]:
        """Send agents, and wait for what each of them says, in their order."""
        ...

    async def list(self) -> Mapping[str, Any]: ...

    async def wait(self, id: str, seconds: float | None) -> Mapping[str, Any]:
        """The reports of one agent, or of all if `id` is empty, when they have ended or the time is over."""
        ...

    async def result(self, id: str) -> Mapping[str, Any]: ...

    async def send_input(self, id: str, text: str) -> Mapping[str, Any]: ...

    async def pause(self, id: str) -> Mapping[str, Any]: ...

    async def resume(self, id: str, text: str) -> Mapping[str, Any]:
        """Let one that is paused, or that ended, go on."""
        ...

    async def kill(self, id: str) -> Mapping[str, Any]: ...

    async def diff(self, id: str, paths: Sequence[str]) -> Mapping[str, Any]:
        """What an agent changed in its copy and nobody merged; all of it where no paths are named."""
        ...

    async def merge(
        self, id: str, paths: Sequence[str], conflicts: Conflicts, permit: PermitMerge
    ) -> Mapping[str, Any]:
        """Bring that into the workspace, after `permit` returned, as one step that can be undone."""
        ...

    async def discard(self, id: str) -> Mapping[str, Any]:
        """Throw an agent's copy away."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """One change of a memory: `add` with content, `replace` with both, `remove` with old_text."""

    action: str
    content: str = ""
    old_text: str = ""


@dataclass(frozen=True, slots=True)
class MemoryView:
    """A memory after a write."""

    target: str
    path: str
    """Where it is kept, as a person writes the path."""
    shown_in: str
    """Which sessions are shown it, in words."""
    entries: tuple[str, ...]
    usage: str
    """Characters used of those there are: `1,474/2,200`."""
    message: str
    note: str = ""
    """What a person should hear beside it."""


class MemoryKeeper(Protocol):
    """Notes that outlive the session."""

    async def write(
        self, target: str, changes: Sequence[MemoryChange], permit: Permit | None = None
    ) -> MemoryView:
        """Apply changes together, or none of them. Raises `ToolError` with `current_entries` and `usage`.

        `permit` is asked where the notes leave for a service.
        """
        ...


class InnerCaller(Protocol):
    """Calls that a tool makes for a script, each as governed as a call of the model itself."""

    def offered(self) -> tuple[Mapping[str, Any], ...]:
        """Definitions of the tools on offer: `name`, `description`, `parameters`, `for_scripts`."""
        ...

    def all_tools(self) -> frozenset[str]:
        """Names of all tools there are, on offer or not."""
        ...

    def confined(self) -> bool:
        """Whether the operating system confines scripts."""
        ...

    async def run(
        self, tool: str, arguments: dict[str, Any], waiting: Callable[[], AbstractContextManager[None]]
    ) -> str:
        """Carry out a call; its result as JSON text. `waiting` is entered while a person is asked."""
        ...

    async def resume(self, script: str) -> None:
        """Answer calls from the record of an earlier script, as long as they are the ones it made.

        Raises `ToolError` when there is no such record.
        """

    async def over(self, complete: bool) -> str:
        """The script has ended. If it was cut off: what to tell of its calls, and how to go on with it."""
        ...


class ToolContext(Protocol):
    """One call's view of the engine."""

    @property
    def task(self) -> str:
        """Id of the task whose terminal, folder and files this call shares."""
        ...

    @property
    def call(self) -> str:
        """Id of this call."""
        ...

    @property
    def workspace(self) -> Path:
        """The folder the session works in, resolved."""
        ...

    @property
    def scratch(self) -> Path:
        """A private folder (0700) for files too large for the conversation."""
        ...

    @property
    def todos(self) -> TodoList: ...

    @property
    def canvases(self) -> CanvasBoard: ...

    @property
    def asker(self) -> Asker: ...

    @property
    def files(self) -> FileMemory: ...

    @property
    def sessions(self) -> SessionSearch: ...

    @property
    def folded(self) -> Folded: ...

    @property
    def terminals(self) -> Terminals:
        """Shells and background processes of all tasks."""
        ...

    @property
    def browsers(self) -> Browsers:
        """Browsers of all tasks; starting one fails where there can be none."""
        ...

    @property
    def inner(self) -> InnerCaller: ...

    @property
    def scripts(self) -> CodeRunner:
        """What runs scripts, kept for the session."""
        ...

    @property
    def memory(self) -> MemoryKeeper:
        """Refuses everything where no notes are kept."""
        ...

    @property
    def learnings(self) -> LearningKeeper:
        """Refuses everything where nothing is learned."""
        ...

    @property
    def jobs(self) -> JobKeeper:
        """Refuses everything where no jobs are kept."""
        ...

    @property
    def training(self) -> TrainingKeeper:
        """Refuses everything where nothing is trained."""
        ...

    @property
    def skills(self) -> SkillKeeper:
        """Refuses everything where skills are switched off."""
        ...

    @property
    def web(self) -> WebReader:
        """Refuses everything where the web cannot be read."""
        ...

    @property
    def checkpoints(self) -> Checkpoints:
        """Refuses everything where what happens to files is not kept."""
        ...

    @property
    def delegates(self) -> Delegates:
        """Refuses everything where no other agents can be sent."""
        ...

    @property
    def editor(self) -> EditorSide:
        """The editor that the session works in; one that offers nothing where there is none."""
        ...

    @property
    def senses(self) -> Senses:
        """What sees, draws, speaks and hears; refuses everything where nothing of that is set up."""
        ...

    @property
    def diagnostics(self) -> Diagnostics:
        """What is newly wrong after an edit; finds nothing where no language server is used."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """Settings of tools from config.yaml (`tools.options`), such as `terminal.timeout`."""
        ...

    async def permit(self, action: Action) -> None:
        """Pass the gate, asking a person if need be. Raises `DeniedError` if the answer is no."""
        ...

    async def permit_agents(self, tool: str, assignments: Sequence[Assignment], act: str = "") -> None:
        """Pass the gate with agents that a tool sends, after the person has seen what they may take.

        With `act`, which says what all of them are for, they pass as one.
        Raises `ToolError` if the answer to either is no.
        """

    def progress(self, text: str) -> None:
        """Show the newest piece of live output. Cheap; may be called often."""
        ...

    def notify(self, text: str) -> None:
        """Tell person and model something that happened outside any call (a process ended)."""
        ...

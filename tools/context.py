"""The services a tool may use, as protocols. The engine implements them.

This module is the only connection of a tool to the rest of the program, so a tool can be tested with a few
small objects and moved to another process later.
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
    """One item of the task list. The order in the list is the priority."""

    id: str
    content: str
    status: TodoStatus


class TodoList(Protocol):
    """The live task list of one agent."""

    def items(self) -> tuple[Todo, ...]: ...

    def replace(self, items: Sequence[Todo]) -> None:
        """Replace the list, notify the user interfaces, and restart the reminder counter."""

    def calls_since_update(self) -> int:
        """Return the tool calls finished since the list was last written or read."""
        ...

    def touch(self) -> None:
        """Restart the reminder counter, because the model has just read the list."""


@dataclass(frozen=True, slots=True)
class PersonAnswer:
    """The end of a question. `text` is set only if `outcome` is `answered`."""

    outcome: Literal["answered", "declined", "expired", "cancelled"]
    text: str = ""


class Asker(Protocol):
    """The connection to the user."""

    async def ask(self, question: str, choices: Sequence[str], allow_freetext: bool) -> PersonAnswer: ...


@dataclass(frozen=True, slots=True)
class SeenFile:
    """The agent's knowledge of a file: SHA-256 of its content, and the lines shown to the model."""

    digest: str
    offset: int = 0
    """The first shown line; 0: none."""
    limit: int = 0
    repeats: int = 0
    """How often this region was requested again while unchanged."""


class FileMemory(Protocol):
    """The files the agent has read and written, by resolved path, for one call."""

    def seen_file(self, path: Path) -> SeenFile | None: ...

    def remember(self, path: Path, seen: SeenFile) -> None:
        """Record at once what the agent knows of a file because it wrote it."""

    def show(self, path: Path, seen: SeenFile) -> None:
        """Record lines in the result of this call; they count as shown once the model has the result."""

    def forget(self, path: Path) -> None: ...


class Folded(Protocol):
    """The part of this conversation that is no longer sent in full."""

    async def message(self, id: int) -> FoundMessage:
        """Return one message of the conversation in full. Raises `ToolError`."""
        ...

    async def search_messages(self, query: str, limit: int) -> tuple[int, Sequence[FoundMessage]]:
        """Return the number of folded messages with all words of `query`, and the newest, oldest first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A task for another agent. `budget` names limits: turns, tokens, money, seconds."""

    goal: str
    context: str = ""
    toolsets: tuple[str, ...] = ()
    agent: str = ""
    """The name of a definition, or a word or two to distinguish it."""
    isolation: Literal["shared", "readonly", "copy"] = "shared"
    budget: Mapping[str, float] = field(default_factory=dict)
    model: str = ""
    """Its model, as named in the settings; empty: the session's."""
    prompt: str = ""
    """Its instructions."""
    only_answers: bool = False
    """Whether it only answers `goal` as a question, without any tools."""
    reads: int = 0
    """Others' answers that it also reads, as far as known in advance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSaid:
    """The answer of an agent that was only asked a question."""

    id: str
    outcome: str
    """`completed`, or another end."""
    text: str
    """The full text, possibly incomplete."""
    reason: str
    """Why it is not complete."""
    model: str
    tokens: int
    cost: float | None
    """US dollars; None: unknown."""


PermitMerge = Callable[[str, tuple[Path, ...], tuple[Path, ...]], Awaitable[None]]
"""Asks whether an agent's copy may be merged: the agent, changed paths, and removed paths."""

Conflicts = Literal["keep", "take", "merge"]
"""The treatment of files also changed in the workspace: keep, take theirs, or merge both."""


class Delegates(Protocol):
    """The agents that this one has started. Results are JSON-able; all methods raise `ToolError`."""

    async def agree(self, assignments: Sequence[Assignment]) -> bool:
        """Show the user what agents may use, if that is much; True if the user was asked and agreed."""
        ...

    async def run(self, assignments: Sequence[Assignment], background: bool) -> Mapping[str, Any]:
        """Start agents, and wait for their reports unless they work in the background."""
        ...

    async def ask(self, assignments: Sequence[Assignment]) -> Sequence[AgentSaid]:
        """Start agents, and return the answer of each, in order."""
        ...

    async def list(self) -> Mapping[str, Any]: ...

    async def wait(self, id: str, seconds: float | None) -> Mapping[str, Any]:
        """Wait for the reports of one agent, or of all if `id` is empty, up to a time limit."""
        ...

    async def result(self, id: str) -> Mapping[str, Any]: ...

    async def send_input(self, id: str, text: str) -> Mapping[str, Any]: ...

    async def pause(self, id: str) -> Mapping[str, Any]: ...

    async def resume(self, id: str, text: str) -> Mapping[str, Any]:
        """Let a paused or ended agent continue."""
        ...

    async def kill(self, id: str) -> Mapping[str, Any]: ...

    async def diff(self, id: str, paths: Sequence[str]) -> Mapping[str, Any]:
        """Return an agent's unmerged changes in its copy; all of them if no paths are named."""
        ...

    async def merge(
        self, id: str, paths: Sequence[str], conflicts: Conflicts, permit: PermitMerge
    ) -> Mapping[str, Any]:
        """Merge those changes into the workspace, after `permit` returned, as one undoable step."""
        ...

    async def discard(self, id: str) -> Mapping[str, Any]:
        """Discard an agent's copy."""
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
    """Its location, as the user writes the path."""
    shown_in: str
    """The sessions that show it, in words."""
    entries: tuple[str, ...]
    usage: str
    """Used characters and limit: `1,474/2,200`."""
    message: str
    note: str = ""
    """A notice for the user."""


class MemoryKeeper(Protocol):
    """Notes that outlive the session."""

    async def write(
        self, target: str, changes: Sequence[MemoryChange], permit: Permit | None = None
    ) -> MemoryView:
        """Apply all changes, or none. Raises `ToolError` with `current_entries` and `usage`.

        `permit` is asked if the notes are sent to a service.
        """
        ...


class InnerCaller(Protocol):
    """Calls made by a script, each governed like a call of the model."""

    def offered(self) -> tuple[Mapping[str, Any], ...]:
        """Return definitions of the offered tools: `name`, `description`, `parameters`, `for_scripts`."""
        ...

    def all_tools(self) -> frozenset[str]:
        """Return the names of all tools, offered or not."""
        ...

    def confined(self) -> bool:
        """Return whether the operating system confines scripts."""
        ...

    async def run(
        self, tool: str, arguments: dict[str, Any], waiting: Callable[[], AbstractContextManager[None]]
    ) -> str:
        """Run a call; return its result as JSON text. `waiting` is entered while the user is asked."""
        ...

    async def resume(self, script: str) -> None:
        """Answer calls from the record of an earlier script, as long as they are the same.

        Raises `ToolError` if the record does not exist.
        """

    async def over(self, complete: bool) -> str:
        """End the script. If it was cut off, return a text on its calls and how to continue."""
        ...


class ToolContext(Protocol):
    """The engine as one call sees it."""

    @property
    def task(self) -> str:
        """The id of the task whose terminal, folder and files this call shares."""
        ...

    @property
    def call(self) -> str:
        """The id of this call."""
        ...

    @property
    def workspace(self) -> Path:
        """The resolved folder the session works in."""
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
        """Browsers of all tasks; starting one fails if there can be none."""
        ...

    @property
    def inner(self) -> InnerCaller: ...

    @property
    def scripts(self) -> CodeRunner:
        """The runner of scripts, kept for the session."""
        ...

    @property
    def memory(self) -> MemoryKeeper:
        """The notes; refuses everything if notes are off."""
        ...

    @property
    def learnings(self) -> LearningKeeper:
        """The learnings; refuses everything if learning is off."""
        ...

    @property
    def jobs(self) -> JobKeeper:
        """The jobs; refuses everything if there are none."""
        ...

    @property
    def training(self) -> TrainingKeeper:
        """The training runs; refuses everything if training is off."""
        ...

    @property
    def skills(self) -> SkillKeeper:
        """The skills; refuses everything if skills are off."""
        ...

    @property
    def web(self) -> WebReader:
        """The reader of web pages; refuses everything if the web cannot be read."""
        ...

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints; refuses everything if changes of files are not recorded."""
        ...

    @property
    def delegates(self) -> Delegates:
        """The other agents; refuses everything if none can be started."""
        ...

    @property
    def editor(self) -> EditorSide:
        """The editor of the session; an object that offers nothing if there is none."""
        ...

    @property
    def senses(self) -> Senses:
        """Vision, drawing, speech and hearing; refuses everything if none is configured."""
        ...

    @property
    def diagnostics(self) -> Diagnostics:
        """New problems after an edit; finds none if no language server is used."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """Settings of tools from config.yaml (`tools.options`), such as `terminal.timeout`."""
        ...

    async def permit(self, action: Action) -> None:
        """Pass the gate, asking the user if necessary. Raises `DeniedError` if the answer is no."""
        ...

    async def permit_agents(self, tool: str, assignments: Sequence[Assignment], act: str = "") -> None:
        """Pass the gate with the agents of a tool, after the user has seen what they may use.

        With `act`, a text on what all of them are for, they pass as one. Raises `ToolError` if either answer
        is no.
        """

    def progress(self, text: str) -> None:
        """Show the newest live output. Cheap; may be called often."""
        ...

    def notify(self, text: str) -> None:
        """Notify user and model of an event outside any call, such as the end of a process."""
        ...

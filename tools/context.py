"""The context of a call, and services that many tools use. The engine implements them.

This module is the only connection of a tool to the rest of the program, so a tool can be tested with a few
small objects and moved to another process later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from tools.services.actions import Action, Permit
from tools.services.service import S, Service


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """One stored message, as shown in search results."""

    id: int
    role: str
    time: float
    """Seconds since the epoch."""
    text: str
    is_match: bool = False


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A session with a hit: the snippet, and the messages around it."""

    session: str
    title: str
    started: float
    match: int
    snippet: str
    messages: tuple[FoundMessage, ...]
    ways: tuple[str, ...] = ()
    """How it was found: `exact`, `words`, `some words`, `nearby`, `date`, `meaning`."""


@dataclass(frozen=True, slots=True)
class FoundNote:
    """A hit that is not a message, such as a note in memory."""

    source: str
    title: str
    text: str
    time: float
    """Seconds since the epoch; 0: unknown."""
    ways: tuple[str, ...] = ()


class SessionSearch(Service, ABC):
    """Search over all stored messages and notes."""

    @abstractmethod
    async def search(
        self,
        query: str,
        *,
        roles: Sequence[str] = (),
        session: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 5,
        offset: int = 0,
        window: int = 3,
        mode: str = "auto",
    ) -> tuple[int, list[FoundSession | FoundNote]]:
        """Return the total number of hits (up to 500), and a page of hits, best first.

        There is one hit per session, unless `session` is given.

        Times are seconds since the epoch. `mode` is `auto`, `words` or `meaning`.
        """


TodoStatus = Literal["pending", "in_progress", "completed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Todo:
    """One item of the task list. The order in the list is the priority."""

    id: str
    content: str
    status: TodoStatus


class TodoList(Service):
    """The live task list of one agent. `changed` is called with each new list."""

    def __init__(self, items: Sequence[Todo], changed: Callable[[tuple[Todo, ...]], None]) -> None:
        self._items = tuple(items)
        self._changed = changed
        self._calls = 0

    def items(self) -> tuple[Todo, ...]:
        return self._items

    def replace(self, items: Sequence[Todo]) -> None:
        """Replace the list, and restart the reminder counter."""
        self._items = tuple(items)
        self._calls = 0
        self._changed(self._items)

    def calls_since_update(self) -> int:
        """Return the number of tool calls finished since the list was last written or read."""
        return self._calls

    def touch(self) -> None:
        """Restart the reminder counter, because the model has just read the list."""
        self._calls = 0

    def count_call(self) -> int:
        """Count a finished call; return the number of calls since the list was last written or read."""
        self._calls += 1
        return self._calls


@dataclass(frozen=True, slots=True)
class PersonAnswer:
    """The outcome of a question to the user. `text` is set only if `outcome` is `answered`."""

    outcome: Literal["answered", "declined", "expired", "cancelled"]
    text: str = ""


class Asker(Service, ABC):
    """The service that asks the user questions."""

    @abstractmethod
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


class FileMemory(Service, ABC):
    """The files the agent has read and written, by resolved path, for one call."""

    @abstractmethod
    def seen_file(self, path: Path) -> SeenFile | None: ...

    def remember(self, path: Path, seen: SeenFile) -> None:
        """Record at once what the agent knows about a file because it wrote it."""

    def show(self, path: Path, seen: SeenFile) -> None:
        """Record which lines of a file the result of this call contains.

        They count as shown once the model has the result.
        """

    @abstractmethod
    def forget(self, path: Path) -> None: ...


class Folded(Service, ABC):
    """The messages of this conversation that are no longer sent to the model in full."""

    @abstractmethod
    async def message(self, id: int) -> FoundMessage:
        """Return one message of the conversation with its whole text. Raises `ToolError`."""

    @abstractmethod
    async def search_messages(self, query: str, limit: int) -> tuple[int, Sequence[FoundMessage]]:
        """Search the folded messages for all words of `query`.

        Returns the number of hits, and the newest of them, oldest first.
        """


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
    """The agent's model, as named in the settings; empty means the session's."""
    prompt: str = ""
    """The agent's instructions."""
    only_answers: bool = False
    """Whether it only answers `goal` as a question, without any tools."""
    reads: int = 0
    """The number of other agents' answers that it also reads, as far as known in advance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAnswer:
    """The answer of an agent that was only asked a question."""

    id: str
    outcome: str
    """`completed`, or another way it ended."""
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


class Delegates(Service, ABC):
    """Access to the agents that an agent has started.

    Results can be written as JSON; all methods raise `ToolError`.
    """

    absent = "No other agents can be sent from here; do it yourself."

    @abstractmethod
    async def agree(self, assignments: Sequence[Assignment]) -> bool:
        """Ask the user if the agents may cost much; return True only if the user was asked and agreed."""

    @abstractmethod
    async def run(self, assignments: Sequence[Assignment], background: bool) -> Mapping[str, Any]:
        """Start agents, and wait for their reports unless they work in the background."""

    @abstractmethod
    async def ask(self, assignments: Sequence[Assignment]) -> Sequence[AgentAnswer]:
        """Start agents, and return the answer of each, in order."""

    @abstractmethod
    async def list(self) -> Mapping[str, Any]: ...

    @abstractmethod
    async def wait(self, id: str, seconds: float | None) -> Mapping[str, Any]:
        """Wait for the reports of one agent, or of all if `id` is empty, up to a time limit."""

    @abstractmethod
    async def result(self, id: str) -> Mapping[str, Any]: ...

    @abstractmethod
    async def send_input(self, id: str, text: str) -> Mapping[str, Any]: ...

    @abstractmethod
    async def pause(self, id: str) -> Mapping[str, Any]: ...

    @abstractmethod
    async def resume(self, id: str, text: str) -> Mapping[str, Any]:
        """Resume a paused or ended agent. `text` is a message for it."""

    @abstractmethod
    async def kill(self, id: str) -> Mapping[str, Any]: ...

    @abstractmethod
    async def diff(self, id: str, paths: Sequence[str]) -> Mapping[str, Any]:
        """Return an agent's unmerged changes in its copy; all of them if no paths are named."""

    @abstractmethod
    async def merge(
        self, id: str, paths: Sequence[str], conflicts: Conflicts, permit: PermitMerge
    ) -> Mapping[str, Any]:
        """Merge an agent's changes into the workspace as one undoable step, after `permit` returned."""

    @abstractmethod
    async def discard(self, id: str) -> Mapping[str, Any]:
        """Discard an agent's copy."""


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """One change to a memory: `add` has content, `remove` has old_text, `replace` has both."""

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


class MemoryKeeper(Service, ABC):
    """The service that reads and writes notes that outlive the session."""

    absent = "No notes are kept from here; tell the agent that sent you what should be remembered."

    @abstractmethod
    async def write(
        self, target: str, changes: Sequence[MemoryChange], permit: Permit | None = None
    ) -> MemoryView:
        """Apply all changes, or none. Raises `ToolError` with `current_entries` and `usage`.

        `permit` is asked if the notes are sent to a service.
        """


class InnerCaller(Service, ABC):
    """The service that runs a script's tool calls, under the same rules as the model's."""

    @abstractmethod
    def offered(self) -> tuple[Mapping[str, Any], ...]:
        """Return definitions of the offered tools: `name`, `description`, `parameters`, `for_scripts`."""

    @abstractmethod
    def all_tools(self) -> frozenset[str]:
        """Return the names of all tools, offered or not."""

    @abstractmethod
    def confined(self) -> bool:
        """Return whether the operating system confines scripts."""

    @abstractmethod
    async def run(
        self, tool: str, arguments: dict[str, Any], waiting: Callable[[], AbstractContextManager[None]]
    ) -> str:
        """Run a call; return its result as JSON text. `waiting` is entered while the user is asked."""

    async def resume(self, script: str) -> None:
        """Answer further calls from the record of an earlier script, as long as they are the same calls.

        Raises `ToolError` if the record does not exist.
        """

    @abstractmethod
    async def end_script(self, complete: bool) -> str:
        """End the script. If it was interrupted, return a text on its calls and how to continue."""


class ToolContext(Protocol):
    """The interface of the engine for one tool call."""

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
    def options(self) -> Mapping[str, Any]:
        """Settings of tools from config.yaml (`tools.options`), such as `terminal.timeout`."""
        ...

    def service(self, kind: type[S]) -> S:
        """Return the service of type `kind`, limited to what this call may use.

        Raises `ToolError` if the session has no such service.
        """
        ...

    async def permit(self, action: Action) -> None:
        """Request permission for an action; the user may be asked. Raises `DeniedError` if it is refused."""
        ...

    async def permit_agents(self, tool: str, assignments: Sequence[Assignment], act: str = "") -> None:
        """Request permission for the agents of a tool, after showing the user what they may use.

        `act` is a text on what all of the agents do; with it, one decision covers them all. Raises
        `ToolError` if permission is refused.
        """

    def progress(self, text: str) -> None:
        """Show the newest live output. Cheap; may be called often."""
        ...

    def notify(self, text: str) -> None:
        """Notify user and model of an event outside any call, such as the end of a process."""
        ...

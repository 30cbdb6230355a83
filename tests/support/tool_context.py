"""A small real `ToolContext` for tests of tools: what a tool does with its services is recorded.

Build one with `FakeContext(tmp_path)`, hand it to `registry.dispatch` or to a
handler, then look at `context.actions`, `context.files.memory` and the rest.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.events import Event
from agent.knowledge.canvas.documents import CanvasDocuments, LiveCanvases
from tools.browser.session import Browsers
from tools.code.runner import CodeRunner
from tools.context import (
    Asker,
    Assignment,
    Delegates,
    FileMemory,
    Folded,
    FoundNote,
    FoundSession,
    InnerCaller,
    MemoryKeeper,
    PersonAnswer,
    SeenFile,
    SessionSearch,
    Todo,
    TodoList,
)
from tools.results import DeniedError
from tools.senses.services import Senses
from tools.services.actions import Action, SpawnAgent
from tools.services.canvases import CanvasBoard
from tools.services.checkpoints import Checkpoints
from tools.services.diagnostics import Diagnostics
from tools.services.editor import EditorSide
from tools.services.job_keeper import JobKeeper
from tools.services.learning_notes import LearningKeeper
from tools.services.service import S
from tools.services.skill_keeper import SkillKeeper
from tools.services.training_keeper import TrainingKeeper
from tools.services.web_reader import WebReader
from tools.terminal.terminals import Terminals

SERVICES: Mapping[type, str] = {
    Asker: "asker",
    TodoList: "todos",
    CanvasBoard: "canvases",
    FileMemory: "files",
    SessionSearch: "sessions",
    Folded: "folded",
    Terminals: "terminals",
    Browsers: "browsers",
    InnerCaller: "inner",
    CodeRunner: "scripts",
    MemoryKeeper: "memory",
    LearningKeeper: "learnings",
    JobKeeper: "jobs",
    TrainingKeeper: "training",
    SkillKeeper: "skills",
    WebReader: "web",
    Checkpoints: "checkpoints",
    Delegates: "delegates",
    EditorSide: "editor",
    Senses: "senses",
    Diagnostics: "diagnostics",
}
"""The attribute by which a test sets each service; one that is not set the session does not have."""

Verdict = Callable[[Action], bool]


def allow_all(_: Action) -> bool:
    """A gate that lets everything pass."""
    return True


def deny_all(_: Action) -> bool:
    """A gate that stops everything."""
    return False


def deny_kinds(*kinds: type[Action]) -> Verdict:
    """A gate that stops only actions of these classes."""
    return lambda action: not isinstance(action, kinds)


@dataclass
class FakeTodos:
    """A task list in memory. `calls` is what `calls_since_update` answers; `writes` counts `replace`."""

    todos: tuple[Todo, ...] = ()
    calls: int = 0
    writes: int = 0

    def items(self) -> tuple[Todo, ...]:
        return self.todos

    def replace(self, items: Sequence[Todo]) -> None:
        self.todos = tuple(items)
        self.calls = 0
        self.writes += 1

    def calls_since_update(self) -> int:
        return self.calls

    def touch(self) -> None:
        self.calls = 0


@dataclass
class FakeAsker:
    """Answers from a queue, in order; an empty queue declines. `asked` records every question."""

    answers: deque[PersonAnswer] = field(default_factory=deque)
    asked: list[tuple[str, tuple[str, ...], bool]] = field(default_factory=list)

    def will_answer(self, *answers: PersonAnswer | str) -> None:
        """Queue answers; a plain text means `answered` with that text."""
        for answer in answers:
            self.answers.append(PersonAnswer("answered", answer) if isinstance(answer, str) else answer)

    async def ask(self, question: str, choices: Sequence[str], allow_freetext: bool) -> PersonAnswer:
        self.asked.append((question, tuple(choices), allow_freetext))
        return self.answers.popleft() if self.answers else PersonAnswer("declined")


@dataclass
class FakeFiles:
    """What was seen of files, in a dict by resolved path."""

    memory: dict[Path, SeenFile] = field(default_factory=dict)

    def seen_file(self, path: Path) -> SeenFile | None:
        return self.memory.get(path)

    def remember(self, path: Path, seen: SeenFile) -> None:
        self.memory[path] = seen

    def show(self, path: Path, seen: SeenFile) -> None:
        self.memory[path] = seen

    def forget(self, path: Path) -> None:
        self.memory.pop(path, None)


@dataclass
class FakeSessions:
    """Returns the `found` it was given and records the queries."""

    found: list[FoundSession | FoundNote] = field(default_factory=list)
    queries: list[dict[str, Any]] = field(default_factory=list)

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
        self.queries.append(
            {
                "query": query,
                "roles": tuple(roles),
                "session": session,
                "since": since,
                "until": until,
                "limit": limit,
                "offset": offset,
                "window": window,
                "mode": mode,
            }
        )
        return len(self.found), self.found[offset : offset + limit]


class FakeContext:
    """One call's view of a small engine that lives in memory.

    `verdict` decides at the gate; `actions` holds every action asked for, in
    order, allowed or not. `on_permit` runs before the verdict: a test can
    change the disk there, between check and use.
    """

    def __init__(
        self,
        workspace: Path,
        *,
        verdict: Verdict = allow_all,
        options: Mapping[str, Any] | None = None,
        answers: Iterable[PersonAnswer | str] = (),
        task: str = "task-1",
        call: str = "call-1",
    ) -> None:
        self.workspace = workspace.resolve()
        self.task = task
        self.call = call
        self.verdict = verdict
        self.on_permit: Callable[[Action], None] | None = None
        self.options: Mapping[str, Any] = dict(options or {})
        self.todos = FakeTodos()
        self.shown: list[Event] = []
        documents = CanvasDocuments(self.workspace.parent / "canvas")
        self.canvases = LiveCanvases(documents, "session-1", (), self.shown.append)
        self.asker = FakeAsker()
        self.asker.will_answer(*answers)
        self.files = FakeFiles()
        self.sessions = FakeSessions()
        self.terminals = Terminals()
        self.browsers = Browsers(None)
        self.editor = EditorSide()
        self.diagnostics = Diagnostics()
        self.actions: list[Action] = []
        self.progressed: list[str] = []
        self.notices: list[str] = []
        self._scratch: Path | None = None

    @property
    def scratch(self) -> Path:
        """A private folder, made when first asked for and removed with the context."""
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="scratch-")).resolve()
            weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
            # A shell or browser that ends later writes there again.
            atexit.register(shutil.rmtree, self._scratch, ignore_errors=True)
        return self._scratch

    def service(self, kind: type[S]) -> S:
        found = getattr(self, SERVICES.get(kind, ""), None)
        return kind.open(self) if found is None else found

    async def permit(self, action: Action) -> None:
        self.actions.append(action)
        if self.on_permit is not None:
            self.on_permit(action)
        if not self.verdict(action):
            raise DeniedError(f"Not allowed: {action.headline()}", status="blocked", reasons=["test"])

    async def permit_agents(self, tool: str, assignments: Sequence[Assignment], act: str = "") -> None:
        for each in assignments:
            await self.permit(SpawnAgent(tool=tool, goal=each.goal))

    def progress(self, text: str) -> None:
        self.progressed.append(text)

    def notify(self, text: str) -> None:
        self.notices.append(text)

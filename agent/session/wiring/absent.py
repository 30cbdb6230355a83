"""Stand-ins for services that an agent or a session does not have.

Each does nothing, or says in one sentence why it cannot, so that code that uses a service need not check that
it exists.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from agent.core.messages import ToolCall
from agent.errors import HermesError
from tools.context import Delegates, Folded, MemoryKeeper
from tools.results import ToolError
from tools.senses.services import Senses
from tools.services.actions import Action
from tools.services.checkpoints import Checkpoints
from tools.services.diagnostics import Diagnostics, FileEdit
from tools.services.job_keeper import JobKeeper
from tools.services.learning_notes import LearningKeeper
from tools.services.skill_keeper import SkillKeeper
from tools.services.training_keeper import TrainingKeeper
from tools.services.web_reader import WebReader

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from agent.workspace.checkpoints.entries import Step

NOT_KEPT = "What happens to files is not kept in this session, so there are no checkpoints."
NOT_REMEMBERED = "No notes are kept from here; tell the agent that sent you what should be remembered."
NO_TRAINING_HERE = "Nothing is trained from here."
NO_JOBS_HERE = "No jobs are kept here; work on it now."
NOT_LEARNED = "Nothing is learned here: learnings are switched off (learnings.enabled)."
NO_SKILLS_HERE = "Skills are switched off here; see the setting skills.enabled."
NO_WEB_HERE = "The web cannot be read from here."
NOT_SENT = "No other agents can be sent from here; do it yourself."
NO_SENSES_HERE = "Nothing that sees, draws or speaks is set up here."
NOT_FOLDED = "Nothing of this conversation is folded."
NOT_WATCHED = "The project is watched only where a person works beside Hermes."


class Kept(Protocol):
    """The record of a call's changes; `step` is set when the call has ended, None without changes."""

    step: Step | None


class FileSteps(Protocol):
    """Records the file changes of calls as steps of the session's line."""

    @property
    def position(self) -> int:
        """The number of the last step."""
        ...

    def during(self, call: str, label: str, session: str) -> AbstractAsyncContextManager[Kept]:
        """Record the changes made inside this context and announced by `acting` as one step."""
        ...

    async def acting(self, call: str, action: Action, session: str = "") -> None:
        """Announce an action of a call. Raises `ToolError` if it could not be undone."""
        ...

    async def restored_after(self, position: int) -> Step | None:
        """Return the newest restore after a position."""
        ...

    async def move_to(self, position: int, paths: Sequence[str], label: str) -> Step | None:
        """Restore these paths to a position, even if others changed them since; None if nothing changed."""
        ...


class _Nothing:
    step: Step | None = None


class NoSteps:
    """Stand-in for a session that does not record file changes."""

    position = 0

    @asynccontextmanager
    async def during(self, call: str, label: str, session: str) -> AsyncIterator[Kept]:
        yield _Nothing()

    async def acting(self, call: str, action: Action, session: str = "") -> None:
        pass

    async def restored_after(self, position: int) -> Step | None:
        return None

    async def move_to(self, position: int, paths: Sequence[str], label: str) -> Step | None:
        return None


class Around(Protocol):
    """A context around calls that may change something."""

    def during(self, call: str) -> AbstractAsyncContextManager[None]: ...


class ProjectWatch(Around, Protocol):
    """Notices changes in the project by others."""

    @property
    def enabled(self) -> bool: ...

    async def switch(self, on: bool) -> str:
        """Switch the watch; return a sentence about its state. Raises `HermesError`."""
        ...


class NoWatch:
    """Stand-in for a session without a watch: nothing is noticed."""

    enabled = False

    @asynccontextmanager
    async def during(self, call: str) -> AsyncIterator[None]:
        yield

    async def switch(self, on: bool) -> str:
        raise HermesError(NOT_WATCHED)


class AtCalls(Protocol):
    """Receives each call before and after it runs, and knows earlier failures."""

    def turn_began(self) -> None: ...

    async def before(self, call: ToolCall, arguments: Mapping[str, Any]) -> str:
        """Return the result of a call that is not run; empty for a call that is to run."""
        ...

    async def after(self, call: ToolCall, result: Mapping[str, Any]) -> str:
        """Return a note to add to the result; usually empty."""
        ...


class NothingLearned:
    """Stand-in for an agent that learns nothing from calls."""

    def turn_began(self) -> None:
        pass

    async def before(self, call: ToolCall, arguments: Mapping[str, Any]) -> str:
        return ""

    async def after(self, call: ToolCall, result: Mapping[str, Any]) -> str:
        return ""


class _Refusing:
    """Refuses every call with one sentence."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse

    async def _refuse(self, *_given: Any, **_named: Any) -> NoReturn:
        raise ToolError(self._sentence)


NO_MEMORY: MemoryKeeper = _Refusing(NOT_REMEMBERED)  # pyright: ignore[reportAssignmentType]
NO_LEARNINGS: LearningKeeper = _Refusing(NOT_LEARNED)  # pyright: ignore[reportAssignmentType]
NO_JOBS: JobKeeper = _Refusing(NO_JOBS_HERE)  # pyright: ignore[reportAssignmentType]
NO_TRAINING: TrainingKeeper = _Refusing(NO_TRAINING_HERE)  # pyright: ignore[reportAssignmentType]
NO_FOLDED: Folded = _Refusing(NOT_FOLDED)  # pyright: ignore[reportAssignmentType]
NO_SKILLS: SkillKeeper = _Refusing(NO_SKILLS_HERE)  # pyright: ignore[reportAssignmentType]
NO_WEB: WebReader = _Refusing(NO_WEB_HERE)  # pyright: ignore[reportAssignmentType]
NO_CHECKPOINTS: Checkpoints = _Refusing(NOT_KEPT)  # pyright: ignore[reportAssignmentType]
NO_SENSES: Senses = _Refusing(NO_SENSES_HERE)  # pyright: ignore[reportAssignmentType]
NO_DELEGATES: Delegates = _Refusing(NOT_SENT)  # pyright: ignore[reportAssignmentType]


async def no_more_steps() -> int:
    """Return 0: a turn that has used up its steps gets no further ones."""
    return 0


async def nothing_meant(_text: str) -> str:
    """Return an empty text: a message needs no explanation."""
    return ""


def nothing_refused(_tool: str) -> str:
    """Return an empty text: every tool on offer may be called."""
    return ""


def nothing_begins() -> None:
    """Do nothing at the beginning of a turn."""


def no_step(_call: str) -> Step | None:
    """Return None: no call lets other code change files."""
    return None


class _NoDiagnostics:
    async def after(self, edits: Sequence[FileEdit]) -> None:
        return None


NO_DIAGNOSTICS: Diagnostics = _NoDiagnostics()

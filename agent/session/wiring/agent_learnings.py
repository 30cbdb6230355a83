"""Learnings of an agent: opened with it, over the store of the session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.knowledge.learnings.at_calls import CallLearnings
from agent.knowledge.learnings.environment import LearningEnvironment
from agent.knowledge.learnings.keeper import SessionLearnings
from agent.knowledge.learnings.store import LearningStore
from agent.knowledge.memory.scopes import project_id, project_root
from agent.session.conversation.live_session import LiveSession
from agent.session.wiring.absent import NO_LEARNINGS, AtCalls, NothingLearned
from agent.session.wiring.agent_workspace import AgentWorkspace
from tools.registry import Registry
from tools.services.learning_notes import LearningKeeper

if TYPE_CHECKING:
    from agent.core.config.schema import LearningSettings


@dataclass(frozen=True, slots=True)
class AgentLearnings:
    """Learnings of one agent: at its calls, and for its tools."""

    at_calls: AtCalls = NothingLearned()  # noqa: RUF009 - has no state
    keeper: LearningKeeper = NO_LEARNINGS


@dataclass(frozen=True, slots=True)
class _ShellCaller:
    """Whose shell tells the folder of the next command."""

    task: str
    workspace: Path
    scratch: Path
    options: Mapping[str, Any]


def open_learnings(
    settings: LearningSettings,
    session: LiveSession,
    place: AgentWorkspace,
    scratch: Path,
    registry: Registry,
    options: Mapping[str, Any],
    search: str,
) -> AgentLearnings:
    """Those of an agent that works at `place`. Reads where the root of its project is.

    `search` is the path along which programs are looked for on this machine.
    """
    if not settings.enabled:
        return AgentLearnings()
    reach = place.reach
    root = project_root(place.origin or reach.workspace)
    caller = _ShellCaller(session.id, reach.workspace, scratch, options)

    def cwd() -> Path:
        return reach.terminals.shell(caller).cwd

    around = LearningEnvironment(
        workspace=reach.workspace,
        root=root,
        cwd=cwd,
        search=None if reach.terminals.elsewhere else search,
    )
    store = LearningStore(
        session.store.database,
        project_id(root),
        promote_after=settings.promote_after,
        most_candidates=settings.candidates,
    )
    at_calls = CallLearnings(
        store,
        around,
        session.id,
        _newest(session),
        without_lessons(registry),
        holds_back=settings.hold_back,
        secrets=reach.secrets,
    )
    return AgentLearnings(
        at_calls, SessionLearnings(store, at_calls, around, session.id, _newest(session), reach.secrets)
    )


def without_lessons(registry: Registry) -> frozenset[str]:
    """Tools of whose failures nothing is learned: they act on the session, or ask somebody."""
    own = frozenset(entry.name for entry in registry.entries() if entry.toolset == "learnings")
    return own.union(
        registry.with_trait("asks_person"),
        registry.with_trait("sends_agents"),
        registry.with_trait("keeps_notes"),
        registry.with_trait("whole_session"),
    )


def _newest(session: LiveSession) -> Callable[[], int | None]:
    """The message at which a session stands."""
    return lambda: session.path[-1].id if session.path else None

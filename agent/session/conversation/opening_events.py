"""Events that a surface receives when a session has been opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.core.messages import Mode
from agent.events import ModeChanged, Noticed, PrefixBroken, SessionOpened, TodosChanged, WorkspaceMoved
from agent.integrations.plugins.shelf import catalog_for
from agent.knowledge.canvas.documents import CanvasChanged
from agent.safety.gate import Gate
from agent.safety.permissions.policy import PermissionPolicy
from agent.session.conversation.live_session import LiveSession
from agent.session.conversation.session_prompt import tone_of
from agent.session.stream import EventStream
from agent.session.wiring.routes import RoutePlan
from tools.discovery import discover

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings
    from agent.model.transport.reply import ModelRoute
    from agent.session.conversation.opening import OpenedSession


def announce(
    stream: EventStream,
    session: LiveSession,
    opened: OpenedSession,
    route: ModelRoute,
    approvals: Mode,
    sandbox: str,
    changed: bool,
    problems: Sequence[str],
    effort: str,
    left: str = "",
) -> None:
    """Emit the events of an opened session. `left` is the folder from which the session has just moved, if
    any.
    """
    record = session.record
    stream.emit(
        SessionOpened(
            session=record.id,
            title=record.title,
            model=route.name,
            workspace=record.workspace,
            nodes=len(opened.path),
            approvals=approvals,
            sandbox=sandbox,
            effort=effort,
        )
    )
    if left:
        stream.emit(WorkspaceMoved(left=left, to=record.workspace))
    for problem in problems:
        stream.emit(Noticed(kind="warning", text=problem))
    if opened.recovered:
        stream.emit(Noticed(kind="recovery", text=opened.recovered))
    if changed:
        stream.emit(PrefixBroken(reason="prompt or tools changed since this session was last open"))
    if session.todos():
        stream.emit(TodosChanged(items=session.todos()))
    for canvas in session.canvases():
        stream.emit(CanvasChanged(name=canvas.name, versions=canvas.versions))


def permission_problems(policy: PermissionPolicy) -> list[str]:
    """Return sentences about problems in the permission files."""
    problems = [str(problem) for problem in policy.problems]
    if problems:
        problems.append(
            "Until that is fixed nothing in the file allows anything; what it denies and asks still counts."
        )
    if policy.project == "untrusted":
        problems.append(
            "This project brings permissions; it is not trusted, so only what they deny or ask counts. "
            "See `hermes config trust`."
        )
    return problems


def policy_publisher(stream: EventStream, gate: Gate) -> Callable[[PermissionPolicy], None]:
    """Return a callback that reports reloaded permissions and their problems to the user."""
    told = _Told(gate.policy, gate.mode)

    def tell(policy: PermissionPolicy) -> None:
        if policy is told.policy:
            return
        known, told.policy = permission_problems(told.policy), policy
        for problem in permission_problems(policy):
            if problem not in known:
                stream.emit(Noticed(kind="warning", text=problem))
        if gate.mode != told.mode:
            told.mode = gate.mode
            stream.emit(ModeChanged(mode=told.mode))

    return tell


@dataclass(slots=True)
class _Told:
    """The state of the permissions that was last reported to the user."""

    policy: PermissionPolicy
    mode: Mode


def problems_of(loaded: LoadedSettings, plan: RoutePlan, home: Home, workspace: Path) -> list[str]:
    """Return the problems in the settings that do not prevent work. Reads files."""
    problems = [str(problem) for problem in loaded.problems]
    if wrong := tone_of(loaded.settings)[1]:
        problems.append(wrong)
    if loaded.project == "untrusted":
        problems.append(
            "This project brings settings of its own, which were not read; see `hermes config trust`."
        )
    problems += [plan.problem] if plan.problem else []
    if loaded.settings.context.file_chars:
        from agent.knowledge.context.context_files import unread

        problems += unread(home.soul, workspace)
    if (skills := catalog_for(home, workspace, loaded.settings, ())) is not None:
        problems += skills.load().troubles()
    return problems + [f"The tools of {each.module} are missing: {each.reason}" for each in discover()]

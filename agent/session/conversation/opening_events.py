"""The first events of a session that has just been opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.core.messages import Mode
from agent.events import Noticed, PrefixBroken, SessionOpened, TodosChanged, WorkspaceMoved
from agent.knowledge.canvas.documents import CanvasChanged
from agent.session.conversation.live_session import LiveSession
from agent.session.stream import EventStream

if TYPE_CHECKING:
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
    """Tell of it; `left` is the folder from which the session moved just now, if it did."""
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

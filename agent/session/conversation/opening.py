"""Opening of the session that a surface (a user interface) requested, with repairs after a killed process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.core.home import Home
from agent.core.store.connection import NoSession
from agent.core.store.locks import SessionLock
from agent.core.store.nodes import MAIN, Node, Session
from agent.core.store.store import Store
from agent.session.conversation.attempt_marks import settle
from agent.session.conversation.event_numbers import BLOCK
from agent.session.conversation.script_journal import ScriptJournals
from agent.session.options import PREVIEWED, Options
from tools.results import ToolError
from tools.services.actions import Action, DeletePath, WritePath
from tools.text.words import plural


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A session that was found or created, with the repairs that were made."""

    record: Session
    path: Sequence[Node]
    lock: SessionLock
    head: str
    """The branch that was used last."""
    used: float
    """The time when it was last used, in seconds since the epoch."""
    owned: bool
    """True if this process holds the lock; if not, another process is working on the session."""
    recovered: str = ""
    interrupted: tuple[Node, ...] = ()
    """Results that were written for calls that an earlier process left unfinished."""

    is_new: bool = False
    """True if it was just created."""

    async def release(self) -> None:
        """Release the session's lock, so that another process can open the session."""
        self.lock.release()


async def open_session(options: Options, home: Home, store: Store, model: str) -> OpenedSession:
    """Return the session that a surface requested, new or found, and repair what a killed process left.

    Raises a `HermesError` when the session does not exist.
    """
    record: Session | None = None
    if options.resume is not None:
        record = await store.find_session(options.resume)
    if record is None:
        record = await store.create_session(workspace=str(options.workspace), model=model, events=BLOCK)
        lock = SessionLock(home.run, record.id)
        return OpenedSession(record, [], lock, MAIN, record.updated, lock.acquire(), is_new=True)
    if record.model != model:
        record = await store.set_model(record.id, model)
    lock = SessionLock(home.run, record.id)
    recovered, interrupted = "", ()
    owned = lock.acquire()
    cut = await settle(store, record.id) if owned else ()
    last = (await store.heads(record.id))[0]
    head = last.name
    if owned:
        known = await ScriptJournals(home.scripts / record.id).left_by_all(
            await store.unfinished_branches(record.id)
        )
        recovery = await store.recover(record.id, head, known.get(head))
        interrupted = recovery.results
        if recovery.has_changes:
            count = len(recovery.results)
            what = f"{plural(count, 'call')} {'was' if count == 1 else 'were'}" if count else "an answer was"
            recovered = f"The program ended while this session was at work; {what} cut off."
    if cut:
        recovered = f"{recovered} Attempts that were cut off: {', '.join(cut)}.".strip()
    if options.preview is not None:
        tail = await store.tail(record.id, head, PREVIEWED)
        options.preview(tail if owned else finished_turns(tail))
    path = await store.stored_path(record.id, head)
    if not owned:
        path = finished_turns(path)
    return OpenedSession(record, path, lock, head, last.updated, owned, recovered, interrupted)


def finished_turns(path: Sequence[Node]) -> Sequence[Node]:
    """Return a path without the unfinished turn at its end, on which another process works.

    A session that continued with this turn would do the same work a second time.
    """
    for at in range(len(path), 0, -1):
        if path[at - 1].is_whole_answer:
            return path[:at]
    return path[: next((at for at, node in enumerate(path) if node.kind == "user"), len(path))] or path


def apart(origin: Path, copy: Path) -> Callable[[str, Action], Awaitable[None]]:
    """Return a check that raises `ToolError` if file tools of an agent in `copy` would change files in
    `origin`.
    """

    async def acting(_call: str, action: Action) -> None:
        if not isinstance(action, (WritePath, DeletePath)) or action.path.is_relative_to(copy):
            return
        if action.path.is_relative_to(origin):
            place = copy / action.path.relative_to(origin)
            raise ToolError(f"{action.path} is in the project itself. You work in a copy of it: use {place}.")

    return acting


def start_sweep(copies: Path, store: Store) -> Callable[[], Awaitable[None]]:
    """Start to remove copies left by killed processes; return a function that waits until this is done.

    A copy is kept as long as its agent's session exists.
    """
    if not copies.is_dir():
        return _nothing

    async def clear() -> None:
        from agent.workspace.isolated_copies.copy_folders import holders, sweep

        forsaken: set[str] = set()
        for id, holder in (await asyncio.to_thread(holders, copies)).items():
            try:
                await store.session(holder.session)
            except NoSession:
                forsaken.add(id)
        await asyncio.to_thread(sweep, copies, forsaken)

    task = asyncio.create_task(clear(), name="sweep copies")

    async def wait() -> None:
        await asyncio.gather(task, return_exceptions=True)

    return wait


async def _nothing() -> None:
    pass

"""From what a surface asked for to a session that is open and in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.errors import ConfigError
from agent.home import Home
from agent.script_journal import Journals
from agent.store.locks import SessionLock
from agent.store.nodes import MAIN, Node, Session
from agent.store.store import Store

if TYPE_CHECKING:
    from agent.runtime import Options

PREVIEWED = 100
"""Nodes at the end of a session that are shown while the others are read."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A session as it was found or made."""

    record: Session
    path: list[Node]
    lock: SessionLock
    head: str
    """The branch that was used last."""
    owned: bool
    """Whether this process holds the lock; if not, another one works on the session right now."""
    recovered: str = ""
    interrupted: tuple[Node, ...] = ()
    """Results that were written for calls an earlier process left open."""

    async def release(self) -> None:
        """Let another process have the session."""
        self.lock.release()


async def open_session(options: Options, home: Home, store: Store, model: str) -> Opened:
    """Find or make the session that a surface asked for; what a killed process left is put in order.

    Raises a `HermesError` when there is no such session.
    """
    record: Session | None = None
    if options.resume is not None:
        record = await store.find_session(options.resume)
    elif options.resume_last:
        record = await store.latest_session(str(options.workspace))
        if record is None:
            raise ConfigError(
                f"There is no session in {options.workspace} yet; start one without --continue."
            )
    if record is None:
        record = await store.create_session(workspace=str(options.workspace), model=model)
        lock = SessionLock(home.run, record.id)
        return Opened(record, [], lock, MAIN, lock.acquire())
    if record.model != model:
        record = await store.set_model(record.id, model)
    lock = SessionLock(home.run, record.id)
    recovered, interrupted = "", ()
    owned = lock.acquire()
    head = (await store.heads(record.id))[0].name
    if owned:
        known = await Journals(home.scripts / record.id).left_by_all(await store.unfinished(record.id))
        recovery = await store.recover(record.id, head, known.get(head))
        interrupted = recovery.results
        if recovery.changed:
            count = len(recovery.results)
            what = (
                f"{count} interrupted call{'s' if count != 1 else ''}" if count else "an interrupted answer"
            )
            recovered = f"This session ended without notice; {what} marked as interrupted."
    if options.preview is not None:
        options.preview(await store.tail(record.id, head, PREVIEWED))
    return Opened(record, await store.path(record.id, head), lock, head, owned, recovered, interrupted)

"""The folder of a session. Each session has one, and keeps it when it is resumed from another folder.

A session moves only on request (`--here`), or when the folder is found again under another name.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.core.store.connection import Database
from agent.core.store.nodes import Session
from agent.core.store.store import Store
from agent.errors import ConfigError, StoreError
from agent.session.conversation.live_session import LiveSession
from agent.session.options import Options
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.workspace.checkpoints.entries import Step

_LOOKED_AT = 200
"""The number of newest sessions that are searched for one whose folder was renamed."""


@dataclass(frozen=True, slots=True)
class SessionFolder:
    """The folder in which a session works."""

    options: Options
    """The options with the session's folder as the workspace and, if it is resumed, its id."""
    left: str = ""
    """The folder from which it moves; empty if it does not move."""
    told: str = ""
    """A sentence about the folder for the user; empty if there is nothing to report."""


async def session_folder(options: Options, home: Home, database: Database | None) -> SessionFolder:
    """Return the folder of the session that `options` request. Raises `HermesError` if it cannot be
    determined.
    """
    if options.resume is None and not options.resume_last:
        return SessionFolder(options)
    async with await Store.open(home.database, shared=database) as store:
        here = str(options.workspace)
        if options.resume is not None:
            record = await store.find_session(options.resume)
        else:
            record = await store.latest_session(here) or await renamed_session(store, home, options.workspace)
    if record is None:
        raise ConfigError(f"There is no session in {options.workspace} yet; start one without --continue.")
    chosen = replace(options, resume=record.id, resume_last=False)
    there = record.workspace
    if there == "" or (there == here and options.here):
        return SessionFolder(chosen)
    if options.here:
        return SessionFolder(chosen, there, f"The session moved from {clean(there)} to this folder.")
    exists = await asyncio.to_thread(Path(there).is_dir)
    is_other = exists and await asyncio.to_thread(_is_stranger, home, record.id, Path(there))
    if there == here:
        told = "Another folder had this name when the session worked in it. /undo leaves the one here alone."
        return SessionFolder(chosen, there, told) if is_other else SessionFolder(chosen)
    if exists and not is_other:
        told = (
            f"This session works in {clean(there)}, as before, not in {clean(here)}; "
            "--here with --resume moves it to the current folder."
        )
        return SessionFolder(replace(chosen, workspace=Path(there)), told=told)
    if await asyncio.to_thread(worked_in, home, record.id, options.workspace, newest=True):
        return SessionFolder(chosen, there, f"The folder {clean(there)} is {clean(here)} now.")
    gone = "has been replaced by another one" if is_other else "is gone"
    raise ConfigError(
        f"The folder {clean(there)}, where the session worked, {gone}. To continue in another one, change "
        f"to it and say so: hermes --resume {record.id} --here"
    )


async def renamed_session(store: Store, home: Home, folder: Path) -> Session | None:
    """Return the newest session whose folder was renamed to `folder`; None if there is none among the newest
    `_LOOKED_AT` sessions.
    """
    for each in await store.list_sessions(_LOOKED_AT):
        if await asyncio.to_thread(_is_gone_and_was, home, each, folder):
            return each
    return None


def worked_in(home: Home, session: str, folder: Path, *, newest: bool = False) -> bool:
    """Return whether the session recorded a step in this folder, even if the folder had another name then.

    With `newest`, only the session's last step counts. Blocking.
    """
    from agent.workspace.checkpoints.root_identity import strangers

    steps = _steps(home, session)
    steps = steps[-1:] if newest else steps
    return len(strangers(steps, folder)) < len(steps)


def _is_stranger(home: Home, session: str, folder: Path) -> bool:
    """Return whether the newest step of a session was made in a folder other than this one."""
    from agent.workspace.checkpoints.root_identity import strangers

    return bool(strangers(_steps(home, session)[-1:], folder))


async def move(session: LiveSession, left: str, workspace: Path, *, owned: bool) -> None:
    """Record that a session works in another folder from now on, also for the model. Raises `HermesError`."""
    if not owned:
        raise ConfigError("The session is open in another window; close it there before it moves.")
    session.record = await session.store.set_workspace(session.id, str(workspace))
    moved = f"The session moved: its workspace was {left} and is {workspace} from now on."
    if left == str(workspace):
        moved = f"The workspace {workspace} is another folder now than when you worked there."
    text = (
        f"[{moved} Paths and contents of files that you saw before are those of the old folder; look at "
        "files again before you rely on them.]"
    )
    data = {"kind": "workspace", "to_model": True, "from": left, "to": str(workspace)}
    await session.add("notice", clean(text), data)


def _is_gone_and_was(home: Home, session: Session, folder: Path) -> bool:
    return not Path(session.workspace).is_dir() and worked_in(home, session.id, folder, newest=True)


def _steps(home: Home, session: str) -> tuple[Step, ...]:
    from agent.workspace.checkpoints.store import CheckpointStore

    if not home.checkpoints.exists():
        return ()
    try:
        return CheckpointStore(home.checkpoints).line(session).steps()
    except StoreError:
        return ()

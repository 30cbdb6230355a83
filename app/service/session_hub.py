"""All sessions that the service hosts: opened when a head asks for one, kept until the service ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from agent.core.config.known_secrets import secrets_of_home
from agent.core.home import Home
from agent.errors import HermesError, StoreError
from agent.integrations.gateways.people import surface_of
from agent.session.options import Options
from app.service.doors import TurnedAwayError
from app.service.hosted_session import HostedSession
from tools.text.safe_text import clean

log = logging.getLogger(__name__)

Mover = Callable[[HostedSession, str], Awaitable[str]]

SURFACE = "serve"
"""How permissions and the audit log call what begins here."""
NOT_YET = "The messengers of the service are not there yet."
LISTED = 200
"""Sessions of one list."""


class SessionHub:
    """The sessions, by id."""

    def __init__(self, home: Home, model: str | None) -> None:
        self._home = home
        self._model = model
        self.workspace = str(Path.cwd())
        """Where sessions begin for which no folder is named."""
        self._open: dict[str, asyncio.Future[HostedSession]] = {}
        self._closing = False
        self.opened: Callable[[HostedSession], None] = lambda _session: None
        """Hears of each session that is open from now on."""
        self.mover: Mover | None = None
        """Lets a chat go on with a session; there once the messengers run."""
        self.move_checker: Callable[[str], Awaitable[None]] | None = None
        """Says whether a session can move somewhere; there once the messengers run."""

    @property
    def sessions(self) -> tuple[HostedSession, ...]:
        """Those that are open."""
        done = [each for each in self._open.values() if each.done() and not each.cancelled()]
        return tuple(each.result() for each in done if each.exception() is None)

    async def session(self, id: str, surface: str = "", model: str | None = None) -> HostedSession:
        """A stored session, opened, with `model` if one is named, if it is not. Raises `TurnedAwayError`.

        One that a chat talks to has the surface of that chat, whoever opens it.
        """
        while (opening := self._open.get(id)) is None:
            workspace, chat = await self._stored(id)
            if id not in self._open:
                self._begin(
                    id,
                    Options(
                        workspace=workspace,
                        resume=id,
                        surface=surface or chat or SURFACE,
                        attended=True,
                        model=model or self._model,
                    ),
                )
        try:
            return await asyncio.shield(opening)
        except HermesError as error:
            raise TurnedAwayError(409, str(error)) from error

    async def create(self, workspace: str, model: str | None = None, surface: str = SURFACE) -> HostedSession:
        """A new session in a folder. Raises `TurnedAwayError`."""
        folder = await asyncio.to_thread(_folder, workspace)
        options = Options(workspace=folder, surface=surface, attended=True, model=model or self._model)
        self._stay_open()
        try:
            session = await HostedSession.open(options, self.folder)
        except HermesError as error:
            raise TurnedAwayError(409, str(error)) from error
        future = asyncio.get_running_loop().create_future()
        future.set_result(session)
        self._open[session.id] = future
        self.opened(session)
        return session

    async def move(self, session: HostedSession, where: str) -> str:
        """Let your chat at a messenger go on with a session; in words. Raises `TurnedAwayError`."""
        if self.mover is None:
            raise TurnedAwayError(503, NOT_YET)
        return await self.mover(session, where)

    async def check_move(self, where: str) -> None:
        """See whether a session can move there, before it is handed over. Raises `TurnedAwayError`."""
        if self.move_checker is None:
            raise TurnedAwayError(503, NOT_YET)
        await self.move_checker(where)

    async def found(self, text: str, model: str | None = None) -> HostedSession:
        """A stored session by id, beginning of an id, or title; `model` answers in it if it is not open yet.

        Raises `TurnedAwayError`.
        """
        from agent.core.store.store import Store

        try:
            async with await Store.open(self._home.database) as store:
                record = await store.find_session(text)
        except HermesError as error:
            raise TurnedAwayError(404, str(error)) from error
        return await self.session(record.id, model=model)

    async def listed(self) -> list[dict[str, Any]]:
        """Stored sessions, those used last first. Raises `TurnedAwayError`."""
        from agent.core.store.store import Store

        if not self._home.keeps_sessions():
            return []
        try:
            async with await Store.open(self._home.database, secrets=secrets_of_home()) as store:
                rows = await store.list_sessions(LISTED)
        except HermesError as error:
            raise TurnedAwayError(503, str(error)) from error
        opened = {each.id: each for each in self.sessions}
        return [
            {
                "id": each.id,
                "title": clean(each.title),
                "workspace": each.workspace,
                "updated": each.updated,
                "open": each.id in opened,
                "busy": each.id in opened and opened[each.id].client.busy,
                "waits": each.id in opened and bool(opened[each.id].pending),
            }
            for each in rows
        ]

    @property
    def folder(self) -> Path:
        """Where the logs of events lie."""
        return self._home.root / "serve" / "events"

    async def close(self, id: str) -> None:
        """Let go of a session, so that another program may have it."""
        opening = self._open.get(id)
        if opening is not None:
            session = await asyncio.shield(opening)
            self._open.pop(id, None)
            await session.aclose()

    async def reopen(self, id: str, model: str, surface: str = "") -> HostedSession:
        """A session that is open, opened once more with another model; those who stay with it go along.

        Raises `TurnedAwayError`; where the model cannot be had, the session goes on with the one before.
        """
        before = await self.session(id, surface)
        if before.client.busy:
            raise TurnedAwayError(409, "A turn is running; stop it first, then choose another model.")
        old = before.client.model
        await self.close(id)
        try:
            opened = await self.session(id, surface, model)
        except TurnedAwayError:
            before.replace_by(await self.session(id, surface, old))
            raise
        before.replace_by(opened)
        return opened

    async def aclose(self) -> None:
        """Close every session. Never raises."""
        self._closing = True
        opening, self._open = list(self._open.values()), {}
        found = await asyncio.gather(*opening, return_exceptions=True)
        sessions: Sequence[HostedSession] = [each for each in found if isinstance(each, HostedSession)]
        for failed in await asyncio.gather(*(each.aclose() for each in sessions), return_exceptions=True):
            if isinstance(failed, Exception):
                log.warning("a session could not be closed in order: %s", failed)

    def _begin(self, id: str, options: Options) -> None:
        self._stay_open()
        task = asyncio.create_task(HostedSession.open(options, self.folder), name=f"open {id}")
        self._open[id] = task
        task.add_done_callback(lambda done: self._opened(id, done))

    def _opened(self, id: str, done: asyncio.Task[HostedSession]) -> None:
        if done.cancelled() or done.exception() is not None:
            # The next one who asks may have more luck.
            self._open.pop(id, None)
            return
        self.opened(done.result())

    def _stay_open(self) -> None:
        if self._closing:
            raise TurnedAwayError(503, "The service is about to end.")

    async def _stored(self, id: str) -> tuple[Path, str]:
        """The folder of a session that nobody else has open, and the surface of its chat if it has one.

        Raises `TurnedAwayError`.
        """
        from agent.core.store.locks import SessionLock
        from agent.core.store.store import Store

        if not self._home.keeps_sessions():
            raise TurnedAwayError(404, "There is no such session.")
        try:
            async with await Store.open(self._home.database) as store:
                record = await store.session(id)
                chat = await store.database.read(lambda c: surface_of(c, record.id))
            with SessionLock(self._home.run, record.id):
                return Path(record.workspace), chat
        except StoreError as error:
            missing = type(error).__name__ == "NoSession"
            raise TurnedAwayError(404 if missing else 409, str(error)) from error


def _folder(path: str) -> Path:
    """A folder that is there. Raises `TurnedAwayError`."""
    try:
        folder = Path(path).expanduser()
        if not folder.is_absolute():
            raise TurnedAwayError(400, "`workspace` is to be a full path.")
        folder = folder.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise TurnedAwayError(404, "There is no such folder on the machine of the service.") from None
    if not folder.is_dir():
        raise TurnedAwayError(400, "`workspace` is no folder.")
    return folder

"""One session hosted by the service: its engine, its event log, and the answers of its clients ("heads")."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agent.api.opening import open_here
from agent.core.config.known_secrets import secrets_of_home
from agent.core.home import PRIVATE_FILE, Home, private_folder
from agent.core.messages import Attachment
from agent.core.store.received import handed_texts
from agent.core.store.stored_path import position_of
from agent.errors import HermesError, StoreError
from agent.events import (
    Asked,
    Event,
    QueueChanged,
    RequestResolved,
    SessionOpened,
    TodosChanged,
    TurnEnded,
    UsageChanged,
    UserMessageAdded,
)
from agent.integrations.gateways.people import surface_of
from agent.knowledge.canvas.documents import CanvasChanged
from agent.session.options import Options
from app.service.doors import ClientIdentity, RequestRefusedError, reply_of, scope_of
from app.service.retelling import closing_events, last_node, past_events, still_waiting, waiting_of
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.events import Reply

LARGE = 16_000_000
"""The size in bytes from which a log is shortened between turns."""
KEPT = 8_000_000
"""The number of bytes to which a log is shortened."""
PIECES = frozenset({"text", "reasoning", "call_drafted", "tool_progress", "agent_progress", "queue_changed"})
"""Events that later ones replace; the old ones among them are dropped when a log is shortened."""


class EventLog:
    """The log file of one session, with the position of each event in the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1
        self._numbers = array("Q")
        self._starts = array("Q")
        self._size = 0
        self._news: asyncio.Future[None] | None = None
        self._rewriting = asyncio.Lock()
        self.closed = False
        self.gone = 0
        """The number of the last event that was dropped from the beginning; 0 if none was."""

    @classmethod
    async def open(cls, path: Path) -> EventLog:
        """Open the log file and remove an incomplete last line. Raises `StoreError`."""
        log = cls(path)
        await asyncio.to_thread(log._open)
        return log

    @property
    def first(self) -> int:
        """The number of the first stored event; 0 if there is none."""
        return self._numbers[0] if self._numbers else 0

    @property
    def last(self) -> int:
        """The number of the last event; 0 if there is none."""
        return self._numbers[-1] if self._numbers else 0

    def append(self, event: Mapping[str, Any]) -> None:
        """Write an event, then wake the waiting clients. Raises `StoreError`."""
        if self.closed:
            return
        line = json.dumps(event, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            written = os.write(self._file, line)
            if written != len(line):
                os.ftruncate(self._file, self._size)
                raise OSError(28, "No space left on device")
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {error.strerror}.") from error
        self._numbers.append(int(event["seq"]))
        self._starts.append(self._size)
        self._size += len(line)
        self._wake()

    def read(self, after: int, most: int = 256_000, count: int = 2_000) -> list[tuple[int, str]]:
        """Return the events after the number `after`, oldest first, as pairs of number and line.

        At most `count` events and about `most` bytes are returned.
        """
        at = bisect_right(self._numbers, after)
        end = min(at + count, len(self._numbers))
        if at >= end:
            return []
        start = self._starts[at]
        if (size := self._start(end) - start) > most:
            end = max(at + 1, bisect_right(self._starts, start + most) - 1)
            size = self._start(end) - start
        lines = os.pread(self._file, size, start).decode("ascii").split("\n")[:-1]
        return list(zip(self._numbers[at:end], lines, strict=True))

    async def wait_for_events(self, after: int) -> None:
        """Wait until the log has an event after the number `after`, or is closed."""
        while self.last <= after and not self.closed:
            if self._news is None or self._news.done():
                self._news = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._news)

    async def make_smaller(self) -> None:
        """Drop old events that later ones replace, and the oldest events, if the file is larger than `LARGE`.

        Raises `OSError`; then the file is unchanged.
        """
        async with self._rewriting:
            if self._size > LARGE and not self.closed:
                await self._rewrite()

    async def _rewrite(self) -> None:
        until, old = len(self._numbers), self._file
        numbers, starts, size = await asyncio.to_thread(self._write_smaller, os.dup(old), until)
        if self.closed:
            return
        # Events added during the rewrite are only in the old file. No await from here on.
        begin = self._start(until)
        rest = os.pread(old, self._size - begin, begin)
        with self._new_path.open("ab") as new:
            new.write(rest)
        file = os.open(self._new_path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
        self._new_path.replace(self._path)
        numbers.extend(self._numbers[until:])
        starts.extend(array("Q", (each - begin + size for each in self._starts[until:])))
        self.gone = max(self.gone, (numbers[0] if numbers else self.last + 1) - 1)
        self._numbers, self._starts, self._file, self._size = numbers, starts, file, size + len(rest)
        os.close(old)

    def close(self) -> None:
        """Close the file and wake all waiting clients."""
        self.closed = True
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._wake()

    @property
    def _new_path(self) -> Path:
        return self._path.with_name(f".{self._path.name}.new")

    def _start(self, at: int) -> int:
        return self._starts[at] if at < len(self._starts) else self._size

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _open(self) -> None:
        try:
            private_folder(self._path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            self._file = os.open(self._path, flags, PRIVATE_FILE)
            with os.fdopen(os.dup(self._file), "rb") as file:
                for line in file:
                    number = _number(line)
                    if number <= self.last:
                        break
                    self._numbers.append(number)
                    self._starts.append(self._size)
                    self._size += len(line)
            os.ftruncate(self._file, self._size)
        except OSError as error:
            raise StoreError(f"{self._path} cannot be used: {error.strerror}.") from error

    def _write_smaller(self, old: int, until: int) -> tuple[array[int], array[int], int]:
        """Write a new file with the events to keep among the first `until`. Runs in a thread.

        `old` is a separate descriptor of the old file, closed here, because the log may be closed meanwhile.
        Returns the numbers and positions of the kept events, and the size of the new file.
        """
        numbers, starts, size = array("Q"), array("Q"), 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        lines: list[tuple[int, bytes]] = []
        recent = max(0, until - 2_000)
        with os.fdopen(old, "rb"):
            for at in range(until):
                start, end = self._starts[at], self._start(at + 1)
                line = os.pread(old, end - start, start)
                if at >= recent or json.loads(line)["type"] not in PIECES:
                    lines.append((self._numbers[at], line))
        total = sum(len(line) for _, line in lines)
        first = 0
        while first < len(lines) and total > KEPT:
            total -= len(lines[first][1])
            first += 1
        with os.fdopen(os.open(self._new_path, flags, PRIVATE_FILE), "wb") as file:
            for number, line in lines[first:]:
                numbers.append(number)
                starts.append(size)
                size += file.write(line)
        return numbers, starts, size


def _number(line: bytes) -> int:
    """Return the number of the event on a line; 0 for an incomplete or invalid line."""
    if not line.endswith(b"\n"):
        return 0
    try:
        number = json.loads(line)["seq"]
    except (ValueError, KeyError, TypeError):
        return 0
    return number if isinstance(number, int) else 0


log = logging.getLogger(__name__)

How = Literal["prompt", "queue", "steer"]
LOOKED_BACK = 20_000
"""The number of last events in a log that are read when a session is opened again."""
DECIDED = 200
"""The number of answered requests that are remembered, to tell later clients who decided."""
STORING = 10.0
"""The longest time in seconds that a client waits until its message is stored."""
QUEUED = 50
"""The largest number of messages that may be queued in a session."""


class HostedSession:
    """A session that logs every event of its engine. Clients read the log, never the engine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.client: SessionClient
        self.log: EventLog
        self.title = ""
        self.used = 0.0
        """The time of the session's last event, on the monotonic clock; 0 if there was none."""
        self.opened: SessionOpened
        """The event with which the session was opened in this process."""
        self.newest: dict[str, Event] = {}
        """The last events about tasks, usage and queue, by type, for clients that connect."""
        self._early: list[Event] | None = []
        self._asked: dict[str, Asked] = {}
        self._canvases: dict[str, CanvasChanged] = {}
        self._decided: OrderedDict[str, str] = OrderedDict()
        self._listeners: tuple[Callable[[Event], None], ...] = ()
        self.followers: list[Callable[[HostedSession], None]] = []
        """Called with the reopened session, if it is opened again with another model."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._to_be_kept: list[tuple[str, asyncio.Future[None]]] = []
        """Texts of messages, and futures that are completed once they are stored."""

    @classmethod
    async def open(cls, options: Options, folder: Path) -> HostedSession:
        """Open a session and its log, then log the events that a killed process could not log.

        Raises `HermesError`.
        """
        session = cls(folder)
        client = await open_here(options, session._handle)
        try:
            session.client = client
            session.log = await EventLog.open(folder / f"{client.id}.jsonl")
            try:
                await session._catch_up(fresh=options.resume is None)
            except BaseException:
                session.log.close()
                raise
        except BaseException:
            await client.aclose()
            raise
        return session

    @property
    def id(self) -> str:
        return self.client.id

    @property
    def pending(self) -> tuple[Asked, ...]:
        """The requests that wait for the user, oldest first."""
        return tuple(self._asked.values())

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` with every event after it is logged; return a function that unsubscribes."""
        self._listeners = (*self._listeners, listener)

        def unsubscribe() -> None:
            self._listeners = tuple(each for each in self._listeners if each is not listener)

        return unsubscribe

    def replace_by(self, heir: HostedSession) -> None:
        """Move the attached clients to `heir`, the reopened session."""
        for follow in tuple(self.followers):
            follow(heir)

    def state(self) -> dict[str, Any]:
        """Return the state of the session for clients, as of the last logged event."""
        client = self.client
        return {
            "session": client.id,
            "title": self.title,
            "workspace": str(client.workspace),
            "model": client.model,
            "mode": client.mode,
            "effort": client.effort,
            "branch": client.branch,
            "busy": client.busy,
            "queued": list(client.queue),
            "canvases": [each.to_json() for each in self._canvases.values()],
            "requests": [each.to_json() for each in self._asked.values()],
            "seq": self.log.last,
        }

    # Commands from clients

    def message(self, text: str, how: How, attachments: Sequence[Attachment] = (), received: int = 0) -> bool:
        """Start a turn with a message, queue it, or pass it to the running turn, as `how` says; return
        whether the session was busy. Raises `RequestRefusedError`.
        """
        if not text.strip() and not attachments:
            raise RequestRefusedError(400, "The message is empty.")
        if len(self.client.queue) >= QUEUED:
            raise RequestRefusedError(429, "Too many messages wait in this session.", 5)
        waits = self.client.busy
        if how == "steer":
            self.client.steer(text, attachments, received)
        else:
            self.client.submit(text, attachments, received)
        return waits

    async def store_message(self, text: str, how: How, attachments: Sequence[Attachment] = ()) -> bool:
        """Send a message as `message` does, and wait until it is stored, for at most `STORING` seconds."""
        waits = self.message(text, how, attachments)
        if not waits:
            kept = asyncio.get_running_loop().create_future()
            self._to_be_kept.append((clean(text), kept))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STORING):
                    await kept
        return waits

    def take_back(self, text: str) -> None:
        """Remove a message from the queue. Raises `RequestRefusedError` if none has this text."""
        queue = list(self.client.queue)
        if text not in queue:
            raise RequestRefusedError(409, "This message does not wait any more.")
        queue.remove(text)
        self.client.set_queue(queue)

    def answer(self, request: str, answer: Any, feedback: str, caller: ClientIdentity) -> None:
        """Answer a request. Raises `RequestRefusedError`; if it was answered before, with status 409 and who
        decided.
        """
        asked = self._asked.get(request)
        if asked is None or asked.reply.done():
            by = self._decided.get(request)
            if by is None and asked is None:
                raise RequestRefusedError(404, "There is no such request.")
            # A request cancelled by a stop is over before its event arrives.
            raise RequestRefusedError(409, f"This was decided already, by {by or 'nobody (cancelled)'}.")
        if not caller.has_scope(scope_of(asked)):
            raise RequestRefusedError(403, f"This device may not {scope_of(asked)}.")
        self.decide(request, reply_of(asked, answer, feedback, str(caller)), str(caller))

    def decide(self, request: str, reply: Reply, by: str) -> bool:
        """Resolve a request with a reply; return False if it was already resolved or is unknown."""
        asked = self._asked.get(request)
        if asked is None or asked.reply.done():
            return False
        self._remember(request, by)
        self.client.answer(request, reply)
        return True

    async def aclose(self) -> None:
        """Stop the turn and close the session. Clients notice the end of the log."""
        for task in self._tasks:
            task.cancel()
        try:
            await self.client.aclose()
        finally:
            self.log.close()
            for _, kept in self._to_be_kept:
                if not kept.done():
                    kept.set_exception(RequestRefusedError(503, "The session was closed before it had this."))

    # Events

    def _handle(self, event: Event) -> None:
        if self._early is not None:
            self._early.append(event)
            return
        self._keep(event)

    def _keep(self, event: Event) -> None:
        match event:
            case Asked():
                self._asked[event.id] = event
            case RequestResolved():
                self._asked.pop(event.id, None)
                if event.id not in self._decided:
                    self._remember(event.id, event.by or f"nobody ({event.outcome})")
            case CanvasChanged():
                self._canvases.pop(event.name, None)
                if event.versions:
                    self._canvases[event.name] = event
            case SessionOpened() if event.agent == "main":
                self.title, self.opened = event.title, event
            case TodosChanged() | UsageChanged() | QueueChanged() if event.agent == "main":
                self.newest[event.type] = event
            case UserMessageAdded() if event.agent == "main" and not self.title:
                self.title = " ".join(event.text.split())[:60]
            case TurnEnded() if event.agent == "main":
                task = asyncio.create_task(self._tidy())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case _:
                pass
        self.used = time.monotonic()
        try:
            self.log.append(event.to_json())
        finally:
            # On a full disk too: a terminal or a chat would wait for the end of the turn for good.
            self._release(event)
            for listener in self._listeners:
                try:
                    listener(event)
                except Exception:
                    log.exception("a client failed on %s", event.type)

    def _release(self, event: Event) -> None:
        """Wake the callers that wait until their message is stored or queued."""
        if not self._to_be_kept or event.agent != "main":
            return
        match event:
            case UserMessageAdded():
                texts = {event.text}
            case QueueChanged():
                texts = {clean(each) for each in (*event.queued, *event.steering)}
            case _:
                return
        for text, kept in self._to_be_kept:
            if text in texts and not kept.done():
                kept.set_result(None)
        self._to_be_kept = [each for each in self._to_be_kept if not each[1].done()]

    def _remember(self, request: str, by: str) -> None:
        self._decided[request] = by
        while len(self._decided) > DECIDED:
            self._decided.popitem(last=False)

    async def _tidy(self) -> None:
        with contextlib.suppress(OSError):
            await self.log.make_smaller()

    async def _catch_up(self, *, fresh: bool) -> None:
        """Log the events that a killed process could not log, and queue its waiting messages again."""
        sent_events: list[Mapping[str, Any]] = []
        missed: Sequence[Event] = ()
        if not fresh and self.log.last:
            sent_events = await asyncio.to_thread(self._logged_events)
            missed = await self._missed_events(sent_events)
        early, self._early = self._early or [], None
        for event in early:
            self._keep(event)
        for event in missed:
            self._keep(self.client.stream.number_event(event))
        waiting = still_waiting(waiting_of(sent_events), missed)
        if waiting:
            database = self.client.session.store.database
            for text in await database.read(lambda c: handed_texts(c, self.id)):
                # The messenger delivers it again, with its receipt.
                if text in waiting:
                    waiting.remove(text)
        if waiting:
            self.client.set_queue([*waiting, *self.client.queue])

    def _logged_events(self) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        after = max(0, self.log.last - LOOKED_BACK)
        while lines := self.log.read(after, 4_000_000, LOOKED_BACK):
            found += [json.loads(line) for _, line in lines]
            after = lines[-1][0]
        return found

    async def _missed_events(self, sent_events: Sequence[Mapping[str, Any]]) -> list[Event]:
        from tools.discovery import discover
        from tools.registry import registry

        await asyncio.to_thread(discover)
        seen, path = last_node(sent_events), self.client.path
        # If the session was only opened, clients read the conversation up to here by themselves.
        opened = [int(each.get("nodes", 0)) for each in sent_events if each.get("type") == "session_opened"]
        begin = position_of(path, seen + 1) if seen else min([len(path), *opened[-1:]])
        asked = begin
        while asked > 0 and path[asked - 1].kind == "tool":
            asked -= 1
        new = past_events(path[max(0, asked - 1) :], registry) if begin < len(path) else ()
        nodes = {node.id for node in path[begin:]}
        missed = [event for event in new if getattr(event, "node", 0) in nodes]
        return [*closing_events(sent_events, self.client.id), *missed]


Mover = Callable[[HostedSession, str], Awaitable[str]]

SURFACE = "serve"
"""The surface, in permissions and the audit log, of sessions that are created through the service."""
NOT_YET = "The messengers of the service are not there yet."
LISTED = 200
"""The largest number of sessions in a list."""


class SessionHub:
    """Opens, finds and closes the sessions that the service hosts, by id."""

    def __init__(self, home: Home, model: str | None) -> None:
        self._home = home
        self._model = model
        self.workspace = str(Path.cwd())
        """The folder of new sessions for which no folder is given."""
        self._open: dict[str, asyncio.Future[HostedSession]] = {}
        self._closing = False
        self.opened: Callable[[HostedSession], None] = lambda _session: None
        """Called with each session that is opened."""
        self.mover: Mover | None = None
        """Moves a session to a chat; None until the messengers run."""
        self.move_checker: Callable[[str], Awaitable[None]] | None = None
        """Raises if no session can move to the named chat; None until the messengers run."""

    @property
    def sessions(self) -> tuple[HostedSession, ...]:
        """The sessions that are completely open."""
        done = [each for each in self._open.values() if each.done() and not each.cancelled()]
        return tuple(each.result() for each in done if each.exception() is None)

    async def session(self, id: str, surface: str = "", model: str | None = None) -> HostedSession:
        """Return a stored session, opened if necessary, with `model` if given. Raises `RequestRefusedError`.

        A session that belongs to a chat always gets that chat's surface.
        """
        while (opening := self._open.get(id)) is None:
            workspace, chat = await self._stored_folder(id)
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
            raise RequestRefusedError(409, str(error)) from error

    async def create(self, workspace: str, model: str | None = None, surface: str = SURFACE) -> HostedSession:
        """Create a session in a folder. Raises `RequestRefusedError`."""
        folder = await asyncio.to_thread(_folder, workspace)
        options = Options(workspace=folder, surface=surface, attended=True, model=model or self._model)
        self._stay_open()
        try:
            session = await HostedSession.open(options, self.folder)
        except HermesError as error:
            raise RequestRefusedError(409, str(error)) from error
        future = asyncio.get_running_loop().create_future()
        future.set_result(session)
        self._open[session.id] = future
        self.opened(session)
        return session

    async def move(self, session: HostedSession, where: str) -> str:
        """Move a session to the user's chat at a messenger; return the name of its new place. Raises
        `RequestRefusedError`.
        """
        if self.mover is None:
            raise RequestRefusedError(503, NOT_YET)
        return await self.mover(session, where)

    async def check_move(self, where: str) -> None:
        """Check, before a session is handed over, that it can move there. Raises `RequestRefusedError`."""
        if self.move_checker is None:
            raise RequestRefusedError(503, NOT_YET)
        await self.move_checker(where)

    async def find_session(self, text: str, model: str | None = None) -> HostedSession:
        """Return a stored session by id, start of the id, or title; it is opened with `model` if it is not
        open.

        Raises `RequestRefusedError`.
        """
        from agent.core.store.store import Store

        try:
            async with await Store.open(self._home.database) as store:
                record = await store.find_session(text)
        except HermesError as error:
            raise RequestRefusedError(404, str(error)) from error
        return await self.session(record.id, model=model)

    async def list_sessions(self) -> list[dict[str, Any]]:
        """Return up to `LISTED` stored sessions as data, last used first. Raises `RequestRefusedError`."""
        from agent.core.store.store import Store

        if not self._home.keeps_sessions():
            return []
        try:
            async with await Store.open(self._home.database, secrets=secrets_of_home()) as store:
                rows = await store.list_sessions(LISTED)
        except HermesError as error:
            raise RequestRefusedError(503, str(error)) from error
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
        """The folder of the event logs."""
        return self._home.root / "serve" / "events"

    async def close(self, id: str) -> None:
        """Close a session if it is open, so that another program can open it."""
        opening = self._open.get(id)
        if opening is not None:
            session = await asyncio.shield(opening)
            self._open.pop(id, None)
            await session.aclose()

    async def reopen(self, id: str, model: str, surface: str = "") -> HostedSession:
        """Close an open session and open it with another model; attached clients stay attached.

        Raises `RequestRefusedError` during a turn, or if the model is unavailable; then the session continues
        with the previous one.
        """
        before = await self.session(id, surface)
        if before.client.busy:
            raise RequestRefusedError(409, "A turn is running; stop it first, then choose another model.")
        old = before.client.model
        await self.close(id)
        try:
            opened = await self.session(id, surface, model)
        except RequestRefusedError:
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
        task.add_done_callback(lambda done: self._finish_open(id, done))

    def _finish_open(self, id: str, done: asyncio.Task[HostedSession]) -> None:
        if done.cancelled() or done.exception() is not None:
            # The next attempt may succeed.
            self._open.pop(id, None)
            return
        self.opened(done.result())

    def _stay_open(self) -> None:
        if self._closing:
            raise RequestRefusedError(503, "The service is about to end.")

    async def _stored_folder(self, id: str) -> tuple[Path, str]:
        """Return the folder of a stored session that no other program uses, and its chat's surface or "".

        Raises `RequestRefusedError`.
        """
        from agent.core.store.locks import SessionLock
        from agent.core.store.store import Store

        if not self._home.keeps_sessions():
            raise RequestRefusedError(404, "There is no such session.")
        try:
            async with await Store.open(self._home.database) as store:
                record = await store.session(id)
                chat = await store.database.read(lambda c: surface_of(c, record.id))
            with SessionLock(self._home.run, record.id):
                return Path(record.workspace), chat
        except StoreError as error:
            missing = type(error).__name__ == "NoSession"
            raise RequestRefusedError(404 if missing else 409, str(error)) from error


def _folder(path: str) -> Path:
    """Return the resolved path of an existing folder. Raises `RequestRefusedError` for any other path."""
    try:
        folder = Path(path).expanduser()
        if not folder.is_absolute():
            raise RequestRefusedError(400, "`workspace` must be a full path.")
        folder = folder.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise RequestRefusedError(404, "There is no such folder on the machine of the service.") from None
    if not folder.is_dir():
        raise RequestRefusedError(400, "`workspace` is not a folder.")
    return folder

"""An open session whose engine works in a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agent.api.link import Link
from agent.api.wire import CALLS, decode, encode
from agent.events import (
    Asked,
    Event,
    Noticed,
    QueueChanged,
    Reply,
    RequestResolved,
    TurnEnded,
    UserMessageAdded,
)
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.core.messages import Attachment
    from agent.core.store.nodes import Node
    from agent.session.options import Options

Listener = Callable[[Event], None]
GO_ON = "What was said is kept; /resume {} goes on with it."


class _Port:
    """The coroutines of one port: each call is carried out by the engine."""

    def __init__(self, link: Link, port: str) -> None:
        self._link = link
        self._port = port

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method not in CALLS[self._port].split():
            raise AttributeError(method)

        async def called(*arguments: Any, **named: Any) -> Any:
            return decode(await self._link.call(self._port, method, arguments, named))

        return called


class RemoteSession:
    """The signatures of `SessionClient` over a socket. The view follows the events, in their order."""

    def __init__(
        self, listeners: Sequence[Listener], preview: Callable[[Sequence[Node]], None] | None
    ) -> None:
        self._listeners = tuple(listeners)
        self._preview = preview
        self._link = Link(self._hear, self._died)
        self._asked: dict[str, Asked] = {}
        """Requests that wait for a person, by id."""
        self._sent: list[str] = []
        """Messages of which nobody has said yet that they are stored or wait."""
        self._path: list[Node] = []
        self._view: dict[str, Any] = {"busy": False, "queue": ()}
        self.id = ""
        self.workspace = Path()
        for port, methods in CALLS.items():
            calls = _Port(self._link, port)
            if port:
                setattr(self, port, calls)
            else:
                vars(self).update({method: getattr(calls, method) for method in methods.split()})

    @classmethod
    async def open(
        cls,
        options: Options,
        listeners: Sequence[Listener],
        environ: Mapping[str, str] | None,
        service: Path | None = None,
    ) -> SessionClient:
        """Start an engine and let it open a session, or ask a `service` for one by its socket.

        Raises `HermesError`; then no process is left.
        """
        session = cls(listeners, options.preview)
        frame = {
            "open": encode(replace(options, preview=None, editor=None)),
            "environ": None if environ is None else dict(environ),
            "preview": options.preview is not None,
        }
        try:
            if service is None:
                await session._link.start()
            else:
                await session._link.connect(service)
            opened = await session._link.ask(lambda _number: frame)
        except BaseException:
            await session._link.close()
            raise
        session.id, session.workspace = opened["id"], Path(opened["workspace"])
        return cast("SessionClient", session)

    # What is known without asking

    @property
    def model(self) -> str:
        return self._view["model"]

    @property
    def branch(self) -> str:
        return self._view["branch"]

    @property
    def path(self) -> Sequence[Node]:
        return self._path

    @property
    def busy(self) -> bool:
        return self._view["busy"]

    @property
    def queue(self) -> tuple[str, ...]:
        return self._view["queue"]

    @property
    def watches(self) -> bool:
        return self._view["watches"]

    @property
    def keeps_files(self) -> bool:
        return self._view["keeps_files"]

    @property
    def mode(self) -> str:
        return self._view["mode"]

    @property
    def effort(self) -> str:
        return self._view["effort"]

    @property
    def lost(self) -> bool:
        return bool(self._link.dead)

    @property
    def pid(self) -> int:
        """The number of the engine's process."""
        return self._link.pid

    # Commands without an answer

    def submit(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        self._link.cast("submit", text, tuple(attachments))
        self._sent.append(text)
        self._view["busy"] = True

    def steer(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        self._link.cast("steer", text, tuple(attachments))
        self._sent.append(text)
        self._view["busy"] = True

    def set_queue(self, texts: Sequence[str]) -> None:
        self._link.cast("set_queue", tuple(texts))

    def send_queue(self) -> None:
        self._link.cast("send_queue")

    def interrupt(self) -> None:
        if not self._link.dead:
            self._link.cast("interrupt")

    def answer(self, request: str, reply: Reply) -> None:
        if not self._link.dead:
            self._link.cast("answer", request, reply)

    async def aclose(self) -> None:
        """Let the engine close the session; one that has died has nothing to close."""
        await self._link.close()

    # What comes in

    def _hear(self, frame: Mapping[str, Any]) -> None:
        if (view := frame.get("view")) is not None:
            self._take_view(view)
        if (event := frame.get("event")) is not None:
            self._emit(decode(event))
        elif (nodes := frame.get("preview")) is not None and self._preview is not None:
            self._preview(decode(nodes))

    def _take_view(self, view: Mapping[str, Any]) -> None:
        for name, value in view.items():
            if name == "path":
                kept, nodes = value
                # A list of its own: whoever looks at the one before goes on with that.
                self._path = [*self._path[:kept], *decode(nodes)]
            else:
                self._view[name] = decode(value)

    def _emit(self, event: Event) -> None:
        self._confirm(event)
        if isinstance(event, Asked):
            self._asked[event.id] = event
            reply: asyncio.Future[Any] = event.reply
            reply.add_done_callback(lambda done, id=event.id: self._answered(id, done))
        elif isinstance(event, RequestResolved) and (asked := self._asked.pop(event.id, None)) is not None:
            reply = asked.reply
            if not reply.done():
                reply.set_result(asked.cancelled)
        for listener in self._listeners:
            listener(event)

    def _confirm(self, event: Event) -> None:
        """Take note of messages that have arrived."""
        match event:
            case UserMessageAdded():
                arrived = [event.text]
            case QueueChanged():
                arrived = [clean(each) for each in (*event.queued, *event.steering)]
            case _:
                return
        self._sent = [each for each in self._sent if clean(each) not in arrived]

    def _answered(self, request: str, done: asyncio.Future[Any]) -> None:
        """The surface answered, unless the engine was first."""
        if request in self._asked and not done.cancelled():
            self.answer(request, done.result())

    def _died(self, how: str) -> None:
        """Say once that the engine is gone; whatever waited for it is over."""
        busy, self._view["busy"] = self.busy, False
        # Whoever opens another session gets them back.
        self._view["queue"] = (*self.queue, *self._sent)
        for request in list(self._asked):
            self._emit(RequestResolved(agent=self._asked[request].agent, id=request, outcome="cancelled"))
        words = f"{how} {GO_ON.format(self.id)}" if self.id else how
        if busy:
            self._emit(
                TurnEnded(outcome="failed", text="", session=self.id, usage={}, error=words, exit_code=1)
            )
        elif self.id:
            self._emit(Noticed(kind="warning", text=words))

"""One session open in an editor: its updates, questions and turns."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from acp import schema

from agent.core.messages import Attachment
from agent.errors import HermesError
from agent.events import (
    ApprovalAsked,
    Asked,
    Event,
    QuestionAsked,
    Reply,
    RequestResolved,
    StepTaken,
    ToolFinished,
    TurnEnded,
)
from agent.integrations.server_events import FormAsked
from app.editor import event_updates as calls
from app.editor.editor_side import EditorOffer, SessionEditor
from app.editor.event_updates import EventUpdates, agent_words
from app.editor.live_terminal import LiveTerminal, exit_code_of
from app.editor.questions import answer_of, fields_of, filled_of, form_of, question_of
from tools.services.editor import Screen
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.api.session import SessionClient

log = logging.getLogger(__name__)

MOST_DIFFS = 30
"""Files of one call whose changes are sent."""
LARGEST_DIFF = 400_000
"""Bytes of a file whose change is sent."""


class Editor(Protocol):
    """The part of the editor's interface that a session uses."""

    @property
    def offer(self) -> EditorOffer:
        """The capabilities that the editor announced."""
        ...

    @property
    def connection(self) -> Any:
        """The connection to the editor."""
        ...

    @property
    def has_forms(self) -> bool:
        """True if the editor shows forms."""
        ...

    async def update(self, session: str, update: Any) -> None:
        """Send an update. Raises `ConnectionError`."""
        ...

    async def permission(
        self, session: str, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> str | None:
        """Ask for a permission; return the id of the chosen option, or None if the question was cancelled."""
        ...

    async def form(self, session: str, message: str, fields: schema.ElicitationSchema) -> Any:
        """Show a form in the editor and return the person's answer."""
        ...

    def tell_mode(self, session: str) -> None:
        """Report a changed mode, model or effort of a session."""
        ...


class EditorSession:
    """One session of the editor. Events that arrive before the session is open are buffered, so that none is
    lost.
    """

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self.client: SessionClient
        """Set once it is open."""
        self._updates: EventUpdates | None = None
        self._early: list[Event] = []
        self._unsent: asyncio.Queue[Any] = asyncio.Queue()
        self._sender: asyncio.Task[None] | None = None
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._looking: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self._terminals: dict[str, LiveTerminal] = {}
        self.id = ""
        self._closed = False
        self.cancels = 0
        """The number of cancels of the session so far."""
        self.servers: tuple[tuple[str, dict[str, Any]], ...] = ()
        """MCP servers that the editor passed on."""
        self.side = SessionEditor(
            editor.offer, lambda: self._editor.connection, lambda: self.id, self._terminal_of
        )

    def attach(self, client: SessionClient) -> None:
        """Attach the open session and send the events buffered so far."""
        self.client, self.id = client, client.id
        self._updates = EventUpdates(client.workspace)
        if self._sender is None:
            self._sender = asyncio.create_task(self._send())
        early, self._early = self._early, []
        for event in early:
            self.hear(event)

    @property
    def ids(self) -> calls.EditorCallIds:
        """The ids of its calls for the editor."""
        return self._updates.ids if self._updates is not None else calls.EditorCallIds()

    def hear(self, event: Event) -> None:
        """Handle an event of the session."""
        if self._updates is None:
            self._early.append(event)
            return
        for update in self._updates.of(event):
            self.queue_update(update)
        match event:
            case Asked():
                self._ask(event)
            case RequestResolved():
                if (task := self._asking.pop(event.id, None)) is not None:
                    task.cancel()
            case ToolFinished() if (id := self.ids.of(event.call)) in self._terminals:
                self._ends(self._terminals.pop(id), exit_code_of(event.result))
            case StepTaken() if event.agent == "main":
                self._look(self._changes(self.ids.of(event.call), event))
            case _ if event.type in ("mode_changed", "effort_changed"):
                self._editor.tell_mode(self.id)
            case _:
                pass

    def _look(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task that is awaited before the turn is reported as ended."""
        task = asyncio.create_task(work)
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    def queue_update(self, update: Any) -> None:
        """Queue an update for sending."""
        if not self._closed:
            self._unsent.put_nowait(update)

    async def flush(self) -> None:
        """Wait until all queued updates are sent."""
        while self._looking:
            await asyncio.wait(self._looking)
        await self._unsent.join()

    def cancel(self) -> None:
        """Stop the running turn and drop every waiting message."""
        self.cancels += 1
        self.client.interrupt()

    async def prompt(self, text: str, images: Sequence[Attachment], cancels: int) -> TurnEnded | None:
        """Run a message after the earlier ones; return when its turn has ended and all its updates are sent.

        Returns None if it was cancelled before it began. `cancels` is the number of cancels when the message
        arrived.
        """
        async with self._turn:
            if self._closed or self.cancels != cancels:
                return None
            ended = await self.client.run(text, images)
            await self.flush()
            return ended

    async def say(self, text: str) -> None:
        """Show a message of Hermes in the conversation."""
        self.queue_update(agent_words(text))
        await self.flush()

    async def close(self) -> None:
        """Stop the turn and close the session after sending all updates. Never raises."""
        self.cancels += 1
        for task in [*self._asking.values(), *self._looking]:
            task.cancel()
        for terminal in self._terminals.values():
            self._ends(terminal, None)
        self._terminals.clear()
        try:
            await self.client.aclose()
        except HermesError:
            log.warning("a session could not be closed in order", exc_info=True)
        self._closed = True
        if self._sender is not None:
            self._sender.cancel()
        # Nobody sends these any more, so nobody may wait for them.
        while not self._unsent.empty():
            self._unsent.get_nowait()
            self._unsent.task_done()

    # Terminals

    def _terminal_of(self, call: str) -> Screen | None:
        """Return an editor terminal for a call; None for calls that a script makes."""
        call = self.ids.of(call)
        if self._updates is None or call not in self._updates.running:
            return None
        terminal = LiveTerminal(
            self._editor.connection, self.id, self.client.workspace, lambda id: self._tell_terminal(call, id)
        )
        self._terminals[call] = terminal
        return terminal.write

    def _tell_terminal(self, call: str, terminal: str) -> None:
        if self._updates is not None:
            for update in self._updates.show_terminal(call, terminal):
                self.queue_update(update)

    def _ends(self, terminal: LiveTerminal, code: int | None) -> None:
        self._look(terminal.end(code))

    # Sending

    async def _send(self) -> None:
        while True:
            update = await self._unsent.get()
            try:
                await self._editor.update(self.id, update)
            except ConnectionError:
                log.debug("an update found nobody")
            except Exception:
                log.exception("an update could not be sent")
            finally:
                self._unsent.task_done()

    async def _changes(self, call: str, step: StepTaken) -> None:
        """Send the file changes of a call."""
        try:
            diffs = await self._diffs(step)
        except HermesError:
            log.warning("the changes of a step could not be read", exc_info=True)
            return
        if diffs and self._updates is not None:
            for update in self._updates.show_changes(call, diffs):
                self.queue_update(update)

    async def _diffs(self, step: StepTaken) -> list[Any]:
        history = self.client.history
        taken = next((each for each in await history.steps() if each.number == step.step), None)
        found: list[Any] = []
        for change in (taken.changes if taken is not None else ())[:MOST_DIFFS]:
            before = await self._text(change.before)
            after = await self._text(change.after)
            if before is None and after is None:
                continue
            path = str(self.client.workspace / change.path)
            found.append(calls.diff(path, before, after or ""))
        return found

    async def _text(self, entry: Any) -> str | None:
        if entry is None or entry.digest is None or entry.size > LARGEST_DIFF:
            return None
        data = await self.client.history.contents(entry.digest)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return None

    # Questions

    def _ask(self, request: Asked) -> None:
        task = asyncio.create_task(self._answer_request(request))
        self._asking[request.id] = task
        task.add_done_callback(lambda _: self._asking.pop(request.id, None))

    async def _answer_request(self, request: Asked) -> None:
        reply: Reply = request.cancelled
        try:
            # Send the updates that led to the question before it.
            await self._unsent.join()
            reply = await self._ask_person(request)
        except ConnectionError:
            log.info("a question found nobody")
        except asyncio.CancelledError:
            return
        except Exception:
            log.exception("a question could not be asked")
        with contextlib.suppress(HermesError):
            self.client.answer(request.id, reply)

    async def _ask_person(self, request: Asked) -> Reply:
        if isinstance(request, FormAsked) and self._editor.has_forms:
            return await self._form(request)
        question = question_of(request)
        if question is None:
            return request.unattended
        if isinstance(request, QuestionAsked) and question.form:
            if self._editor.has_forms:
                return await self._fill_question(request)
            if not request.choices:
                await self.say(clean(request.question))
                return request.unattended
        chosen = await self._editor.permission(
            self.id,
            schema.ToolCallUpdate(
                tool_call_id=self._call_of(request),
                title=question.title,
                status="pending",
                content=[calls.text(question.text)] if question.text else [],
            ),
            question.options,
        )
        reply = None if chosen is None else question.reply(chosen)
        return request.cancelled if reply is None else reply

    async def _form(self, request: FormAsked) -> Reply:
        message = f"The MCP server {request.server} asks: {request.message}"
        answer = await self._editor.form(self.id, clean(message), fields_of(request))
        match getattr(answer, "action", ""):
            case "accept":
                return filled_of(request, answer.content)
            case "decline":
                return request.unattended
            case _:
                return request.cancelled

    async def _fill_question(self, request: QuestionAsked) -> Reply:
        answer = await self._editor.form(self.id, clean(request.question), form_of(request))
        match getattr(answer, "action", ""):
            case "accept":
                return answer_of(answer.content)
            case "decline":
                return request.unattended
            case _:
                return request.cancelled

    def _call_of(self, request: Asked) -> str:
        """Return the id of the call that a request concerns; if unknown, an id made from the request's."""
        if self._updates is not None and request.agent == "main" and isinstance(request, ApprovalAsked):
            same = [id for id, each in self._updates.running.items() if each.tool == request.tool]
            if same:
                return same[-1]
        return f"request-{request.id}"

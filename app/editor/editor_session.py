"""One session open in an editor: its updates, questions, terminals and turns."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from acp import schema

from agent.core.event_data import FormReply
from agent.core.messages import Attachment
from agent.errors import HermesError
from agent.events import (
    ApprovalAsked,
    Asked,
    CeilingAsked,
    CeilingReply,
    Decision,
    Event,
    ForecastAsked,
    QuestionAsked,
    Reply,
    RequestResolved,
    StepTaken,
    ToolFinished,
    TurnEnded,
)
from agent.integrations.mcp.server_requests import filled_form
from agent.integrations.server_events import FormAsked
from app.editor import event_updates as calls
from app.editor.editor_side import EditorOffer, SessionEditor
from app.editor.event_updates import EventUpdates, agent_words
from app.tui.questions import budget_words as budget
from app.tui.questions.approval_words import lasting_text, one_line, place_text, reach_text, reasons
from tools.context import PersonAnswer
from tools.kit.private_folders import PrivateFolder
from tools.services.editor import Screen
from tools.text.safe_text import clean
from tools.text.words import brief

if TYPE_CHECKING:
    from agent.api.session import SessionClient

log = logging.getLogger(__name__)

SHOWS = 'cat "$1"; exit "$(cat "$1.code" 2>/dev/null || echo 0)"'
MOST_WAITING = 4_000_000
"""The number of bytes that may wait for a terminal; further output is left out there."""
RETAINED = 1_000_000
"""The number of bytes of output that the editor is asked to keep for a terminal."""
PATIENCE = 10.0
"""Seconds that the editor has to start or to end a terminal."""


class LiveTerminal:
    """A terminal in the editor that shows the output of a command.

    `write` may be called in any thread, all other methods on the event loop.
    """

    def __init__(
        self,
        connection: Any,
        session: str,
        workspace: Path,
        shown: Callable[[str], None],
    ) -> None:
        """`shown` is called with the terminal's id once it exists."""
        self._connection = connection
        self._session = session
        self._workspace = workspace
        self._shown = shown
        self._loop = asyncio.get_running_loop()
        self._waiting: list[bytes] = []
        self._size = 0
        self._news = asyncio.Event()
        self._code: int | None = None
        self._ended = False
        self._task = asyncio.create_task(self._run())

    def write(self, text: str) -> None:
        """Append output of the command to the terminal."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._take, text)

    async def end(self, code: int | None) -> None:
        """End the terminal with the exit code of the command, and release it. Never raises."""
        self._ended, self._code = True, code
        self._news.set()
        await asyncio.wait({self._task}, timeout=3 * PATIENCE)
        self._task.cancel()

    def _take(self, text: str) -> None:
        data = text.replace("\n", "\r\n").encode("utf-8", "replace") if text else b""
        if data and self._size <= MOST_WAITING:
            self._waiting.append(data)
            self._size += len(data)
            self._news.set()

    async def _run(self) -> None:
        try:
            with PrivateFolder("acp-terminal") as folder:
                await self._show(folder / "output")
        except (TimeoutError, OSError):
            log.info("a terminal of the editor could not be used", exc_info=True)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.warning("the editor refused a terminal", exc_info=True)

    async def _show(self, pipe: Path) -> None:
        os.mkfifo(pipe, 0o600)
        async with asyncio.timeout(PATIENCE):
            made = await self._connection.create_terminal(
                session_id=self._session,
                command="/bin/sh",
                args=["-c", SHOWS, "output", str(pipe)],
                cwd=str(self._workspace),
                output_byte_limit=RETAINED,
            )
        terminal = made.terminal_id
        self._shown(terminal)
        try:
            await self._feed(pipe)
            await self._patient(self._connection.wait_for_terminal_exit, terminal)
        finally:
            await self._patient(self._connection.release_terminal, terminal)

    async def _patient(self, ask: Callable[..., Awaitable[Any]], terminal: str) -> None:
        async with asyncio.timeout(PATIENCE):
            await ask(session_id=self._session, terminal_id=terminal)

    async def _feed(self, pipe: Path) -> None:
        transport, protocol = await self._loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(self._loop), await _open_pipe(pipe)
        )
        writer = asyncio.StreamWriter(transport, protocol, None, self._loop)
        try:
            while not (self._ended and not self._waiting):
                await self._news.wait()
                self._news.clear()
                pieces, self._waiting = self._waiting, []
                self._size = 0
                writer.write(b"".join(pieces))
                await writer.drain()
            pipe.with_name("output.code").write_text(str((self._code or 0) & 0xFF))
        except OSError:
            log.debug("a terminal of the editor was closed")
        finally:
            writer.close()


def exit_code_of(result: str) -> int | None:
    """Return the exit code in the JSON result of a command; None if there is none. Pure."""
    try:
        code = json.loads(result).get("exit_code")
    except (ValueError, AttributeError, RecursionError):
        return None
    return code if isinstance(code, int) else None


async def _open_pipe(pipe: Path) -> Any:
    """Open a named pipe for writing once it has a reader. Raises `OSError`, also after `PATIENCE`."""
    for _ in range(int(PATIENCE / 0.02)):
        try:
            return os.fdopen(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC), "wb", buffering=0)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        await asyncio.sleep(0.02)
    raise TimeoutError(f"nobody reads {pipe}")


Kind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class EditorChoice:
    """One possible answer to a question, with the reply that it stands for."""

    id: str
    name: str
    kind: Kind
    reply: Reply


@dataclass(frozen=True, slots=True)
class EditorQuestion:
    """A question as the editor shows it, with its possible answers."""

    title: str
    text: str
    """The complete text of the question."""
    choices: tuple[EditorChoice, ...]
    form: bool = False
    """True if the user can answer with free text, which needs a form."""

    @property
    def options(self) -> list[schema.PermissionOption]:
        """The answers as permission options of the protocol."""
        return [
            schema.PermissionOption(option_id=each.id, name=each.name, kind=each.kind)
            for each in self.choices
        ]

    def reply(self, option: str) -> Reply | None:
        """Return the reply for an option id; None for an unknown id."""
        return next((each.reply for each in self.choices if each.id == option), None)


def question_of(request: Asked) -> EditorQuestion | None:
    """Return a request as a question for the editor; None for kinds that are not shown as questions."""
    match request:
        case ApprovalAsked():
            return _approval(request)
        case ForecastAsked():
            return _forecast(request)
        case CeilingAsked():
            return _ceiling(request)
        case QuestionAsked():
            return _question(request)
        case _:
            return None


def _approval(request: ApprovalAsked) -> EditorQuestion:
    facts = [request.sentence, place_text(request), reach_text(request), *reasons(request)]
    facts = [one_line(each) for each in facts if each]
    facts.append(lasting_text(request))
    choices = [EditorChoice("once", "Allow once", "allow_once", Decision("once"))]
    if request.rule:
        choices += [
            EditorChoice("session", "Allow for this session", "allow_always", Decision("session")),
            EditorChoice("always", "Always allow", "allow_always", Decision("always")),
        ]
    choices.append(EditorChoice("deny", "Deny", "reject_once", Decision("deny")))
    return EditorQuestion(
        title=brief(f"{request.tool}: {request.headline}", LONGEST_NAME),
        text="\n".join([_fence(request.headline), "", *facts]),
        choices=tuple(choices),
    )


def _forecast(request: ForecastAsked) -> EditorQuestion:
    goals = [f"- {one_line(goal)}" for goal in request.forecast.goals]
    return EditorQuestion(
        title=brief(budget.heading(request), LONGEST_NAME),
        text="\n".join([*goals, "", _fence(budget.align_lines(list(budget.figures(request))))]),
        choices=(
            EditorChoice("once", "Send them", "allow_once", Decision("once")),
            EditorChoice(
                "session", "Send, and do not ask again in this session", "allow_always", Decision("session")
            ),
            EditorChoice("deny", "Do not send", "reject_once", Decision("deny")),
        ),
    )


def _ceiling(request: CeilingAsked) -> EditorQuestion:
    raised = CeilingReply("raised", request.again)
    return EditorQuestion(
        title=brief(f"{budget.asker(request)} cannot continue. {budget.ceiling_text(request)}", LONGEST_NAME),
        text="\n".join(f"· {note}" for note in budget.answer_effects(request)),
        choices=(
            EditorChoice(
                "raise", brief(budget.raise_label(request).capitalize(), LONGEST_NAME), "allow_once", raised
            ),
            EditorChoice("stop", "Stop here", "reject_once", CeilingReply("stopped")),
        ),
    )


def _question(request: QuestionAsked) -> EditorQuestion:
    choices = [
        EditorChoice(
            f"choice-{at}", brief(choice, LONGEST_NAME), "allow_once", PersonAnswer("answered", choice)
        )
        for at, choice in enumerate(request.choices, 1)
    ]
    choices.append(EditorChoice("decline", "No answer", "reject_once", PersonAnswer("declined")))
    return EditorQuestion(
        title=brief(request.question, LONGEST_NAME),
        text=clean(request.question),
        choices=tuple(choices),
        form=request.allow_freetext or not request.choices,
    )


ANSWER = "answer"
"""The name of the field in a form for a free-text answer."""


def form_of(request: QuestionAsked) -> schema.ElicitationSchema:
    """Return the form for a question from the model with a free-text answer."""
    hint = f"Suggested: {', '.join(map(one_line, request.choices))}" if request.choices else None
    field = schema.ElicitationStringPropertySchema(type="string", title="Answer", description=hint)
    return schema.ElicitationSchema(type="object", properties={ANSWER: field}, required=[ANSWER])


def fields_of(request: FormAsked) -> schema.ElicitationSchema:
    """Return a tool server's form for the editor. Every field is a text field; values are validated later."""
    shown = {}
    for each in request.fields:
        choices = ", ".join(label for _, label in each.choices)
        shown[each.name] = schema.ElicitationStringPropertySchema(
            type="string",
            title=brief(each.title, LONGEST_NAME),
            description=one_line(each.label + (f" [{choices}]" if choices else "")),
            default=each.default_text or None,
        )
    needed = [each.name for each in request.fields if each.required]
    return schema.ElicitationSchema(type="object", properties=shown, required=needed)


def filled_of(request: FormAsked, content: Mapping[str, object] | None) -> FormReply:
    """Return the reply to a tool server's form; `cancelled` if a value is invalid."""
    texts = {name: str(value) for name, value in (content or {}).items()}
    values, wrong = filled_form(request.fields, texts)
    return FormReply("cancelled") if wrong else FormReply("answered", values)


def answer_of(content: Mapping[str, object] | None) -> PersonAnswer:
    """Return the user's answer from a submitted form; an empty one declines."""
    said = str((content or {}).get(ANSWER) or "").strip()
    return PersonAnswer("answered", said) if said else PersonAnswer("declined")


def _fence(text: str) -> str:
    shown = clean(text)
    fence = "```"
    while fence in shown:
        fence += "`"
    return f"{fence}\n{shown}\n{fence}"


MOST_DIFFS = 30
"""The number of files of one call whose changes are sent."""
LARGEST_DIFF = 400_000
"""The largest size in bytes of a file whose changes are sent."""


class Editor(Protocol):
    """The connection to the editor, as far as a session uses it."""

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
        """Send an update of a session. Raises `ConnectionError`."""
        ...

    async def permission(
        self, session: str, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> str | None:
        """Ask the user for a permission; return the chosen option's id, or None if it was cancelled."""
        ...

    async def form(self, session: str, message: str, fields: schema.ElicitationSchema) -> Any:
        """Show a form in the editor and return the user's answer as the protocol has it."""
        ...

    def send_mode(self, session: str) -> None:
        """Send a session's changed mode, model or effort to the editor."""
        ...


class EditorSession:
    """One session of the editor. Events that arrive before it is fully open are kept and sent later."""

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self.client: SessionClient
        """The client of the session; set once it is open."""
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
        """The MCP servers that the editor passed on, as pairs of name and settings."""
        self.side = SessionEditor(
            editor.offer, lambda: self._editor.connection, lambda: self.id, self._terminal_of
        )

    def attach(self, client: SessionClient) -> None:
        """Set the client of the opened session, and send the events kept so far."""
        self.client, self.id = client, client.id
        self._updates = EventUpdates(client.workspace)
        if self._sender is None:
            self._sender = asyncio.create_task(self._send())
        early, self._early = self._early, []
        for event in early:
            self.handle(event)

    @property
    def ids(self) -> calls.EditorCallIds:
        """The ids of the session's calls for the editor."""
        return self._updates.ids if self._updates is not None else calls.EditorCallIds()

    def handle(self, event: Event) -> None:
        """Handle an event of the session: send its updates, and ask the user if it is a request."""
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
                self._editor.send_mode(self.id)
            case _:
                pass

    def _look(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task that must be done before the turn is reported as ended."""
        task = asyncio.create_task(work)
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    def queue_update(self, update: Any) -> None:
        """Queue an update for sending."""
        if not self._closed:
            self._unsent.put_nowait(update)

    async def flush(self) -> None:
        """Wait until all queued updates are sent, including those of started tasks."""
        while self._looking:
            await asyncio.wait(self._looking)
        await self._unsent.join()

    def cancel(self) -> None:
        """Stop the running turn, and drop every message that waits for its turn."""
        self.cancels += 1
        self.client.interrupt()

    async def prompt(self, text: str, images: Sequence[Attachment], cancels: int) -> TurnEnded | None:
        """Run a message after the earlier ones; return when its turn has ended and all its updates are sent.

        Returns None if it was cancelled before it began. `cancels` is the value of `self.cancels` when the
        message arrived.
        """
        async with self._turn:
            if self._closed or self.cancels != cancels:
                return None
            ended = await self.client.run(text, images)
            await self.flush()
            return ended

    async def say(self, text: str) -> None:
        """Show a text from Hermes in the conversation."""
        self.queue_update(agent_words(text))
        await self.flush()

    async def close(self) -> None:
        """Stop the turn, cancel questions and close the session; unsent updates are dropped. Never raises."""
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
        """Return a function that writes to a new editor terminal for a call; None for calls by scripts."""
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
        """Send the file changes of a call as diffs; a failure is only logged."""
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

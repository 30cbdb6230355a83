"""One chat and its session: its messages are passed on exactly once, and it receives the session's output."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from agent.core.store.connection import NoSession
from agent.core.store.nodes import Node
from agent.core.store.received import RECEIVED
from agent.core.store.recovery import NOT_STARTED
from agent.errors import HermesError, StoreError
from agent.events import (
    Asked,
    AssistantMessageAdded,
    Event,
    RequestResolved,
    TurnEnded,
    TurnStarted,
    UserMessageAdded,
)
from agent.integrations.gateways import book
from agent.integrations.gateways.adapter import Incoming, Place
from agent.integrations.gateways.book import BoundPlace, ReceivedMessage
from agent.integrations.gateways.chat_questions import ChatQuestions, quote_text
from agent.integrations.gateways.incoming_files import prepare_message
from agent.integrations.gateways.markup import chunks
from agent.integrations.gateways.outgoing import HERE_WORDS, LiveMessage, move
from agent.integrations.gateways.people import ChatScope, home_of, may
from agent.integrations.gateways.ports import ChatPlace, ChatSession, Gateway
from themes.states import glyph
from tools.text.safe_text import clean
from tools.text.words import plural


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """One command that people can use in a chat."""

    name: str
    help: str
    scope: ChatScope = "talk"
    at_once: bool = False
    """Whether it is carried out during a turn, before waiting messages."""


COMMANDS = {
    each.name: each
    for each in (
        ChatCommand("help", "what can be written here", "look", at_once=True),
        ChatCommand("new", "begin a new session here"),
        ChatCommand("stop", "stop what runs", at_once=True),
        ChatCommand("steer", "TEXT: be read before the next request of the running turn", at_once=True),
        ChatCommand("status", "session, model, what runs and what waits", "look", at_once=True),
        ChatCommand("model", "[NAME]: the model, or continue with another one"),
        ChatCommand("sessions", "the sessions used last", "look"),
        ChatCommand("resume", "ID: continue with one of them here"),
        ChatCommand("undo", "take back the last turn, with what it did to files"),
        ChatCommand("redo", "redo what was undone"),
        ChatCommand("compact", "compact the conversation"),
        ChatCommand("move", "GATEWAY | terminal: continue in another messenger, or only in the terminal"),
        ChatCommand("id", "your id and that of this chat, for the settings", "look", at_once=True),
    )
}
_WORD = re.compile(r"/([A-Za-z][\w.:-]{0,63})(?:\s+(.*))?", re.DOTALL)
_ESCAPED = re.compile(r"\s*//[A-Za-z][\w.:-]*(?:\s|$)")
ALIASES = {"start": "help", "reset": "new", "clear": "new", "cancel": "stop", "whoami": "id"}


def command_of(text: str) -> tuple[ChatCommand, str] | None:
    """Return the command in a message and the text after it; None if the message is not a command.

    Some messenger apps handle messages that begin with `/` themselves, so `!` works as well.
    """
    said = text.strip()
    if not said.startswith(("/", "!")):
        return None
    # In a mail, what its program signs with stands on later lines.
    name = re.split(r"\s", said[1:], maxsplit=1)[0]
    rest = said[1 + len(name) :]
    found = COMMANDS.get(ALIASES.get(name.lower(), name.lower()))
    return None if found is None else (found, rest.strip())


def word_of(text: str) -> tuple[str, str] | None:
    """Return the name of the command or skill that a message begins with, and the text after it.

    Returns None for an ordinary message, a path, and a message that begins with two slashes.
    """
    found = _WORD.fullmatch(text.strip())
    return (found[1], (found[2] or "").strip()) if found else None


def plain(text: str) -> str:
    """Return a message without the extra slash that keeps it from being read as a command."""
    return text.replace("//", "/", 1) if _ESCAPED.match(text) else text


def no_command(name: str) -> str:
    """Return a sentence saying that a command does not exist."""
    near = get_close_matches(name.lower(), [*COMMANDS, *ALIASES], n=1, cutoff=0.6)
    offer = f"; did you mean /{near[0]}?" if near else "."
    return f"There is no command /{name}{offer} /help lists them; //{name} begins a message with a slash."


def help_text() -> str:
    """Return the list of all commands, one per line."""
    return "\n".join(f"/{each.name}: {each.help}" for each in COMMANDS.values())


LISTED = 10


class ChatActions:
    """The commands that users send from one chat or thread."""

    def __init__(self, head: ChatHandler) -> None:
        self._head = head

    async def run(self, name: str, rest: str, row: ReceivedMessage) -> None:
        """Carry out the command `name` with its text `rest`. Raises `HermesError`."""
        await getattr(self, f"_{name}")(rest, row)

    async def _help(self, _rest: str, _row: ReceivedMessage) -> None:
        await self._head.say(f"Write what should be done.\n\n{help_text()}")

    async def _id(self, _rest: str, row: ReceivedMessage) -> None:
        incoming = row.incoming
        await self._head.say(f"You are `{incoming.sender.id}`, this chat is `{incoming.place}`.")

    async def _new(self, _rest: str, row: ReceivedMessage) -> None:
        session = await self._head.start_session(row.incoming.group)
        await self._head.say(f"A new session with {session.client.model}.")

    async def _stop(self, _rest: str, _row: ReceivedMessage) -> None:
        session = self._head.session
        if session is None or not session.client.busy:
            await self._head.say("Nothing runs.")
            return
        session.client.interrupt()

    async def _steer(self, rest: str, row: ReceivedMessage) -> None:
        if not rest:
            raise HermesError("Write the message after /steer.")
        await self._head.session_for(row.incoming)
        await self._head.pass_message(row, rest, how="steer")

    async def _status(self, _rest: str, _row: ReceivedMessage) -> None:
        head, session = self._head, self._head.session
        if session is None:
            await head.say("There is no session here yet; write what should be done.")
            return
        name, place = head.gateway.name, head.place
        waiting = await head.read(lambda c: book.waiting(c, name, place))
        state = "works" if session.client.busy else "waits for you"
        more = f", {plural(len(waiting), 'message')} waiting" if waiting else ""
        title = f"**{session.title}**\n" if session.title else ""
        await head.say(f"{title}`{session.id}` · {session.client.model} · {state}{more}")

    async def _model(self, rest: str, row: ReceivedMessage) -> None:
        head = self._head
        session = await head.session_for(row.incoming)
        if not rest:
            await head.say(f"The model is {session.client.model}; `/model NAME` continues with another one.")
            return
        id, gateway = session.id, head.gateway
        name, place = gateway.name, head.place
        bound = await head.read(lambda c: book.find_bound_place(c, name, place))
        head.detach()
        surface = f"{head.surface}.group" if bound.is_group else head.surface
        try:
            opened = await gateway.host.reopen(id, surface, rest)
        finally:
            await head.attach(bound)
        await head.say(f"Continuing with {opened.client.model}.")

    async def _sessions(self, _rest: str, row: ReceivedMessage) -> None:
        if row.incoming.group:
            raise HermesError("Sessions are listed in a chat of your own, not where others read along.")
        rows = (await self._head.gateway.host.list_sessions())[:LISTED]
        lines = [f"`{each['id']}` {each['title'] or 'without a title'}" for each in rows]
        await self._head.say("\n".join(lines) or "There are none yet.")

    async def _resume(self, rest: str, row: ReceivedMessage) -> None:
        if row.incoming.group:
            raise HermesError("Other sessions are opened in a chat of your own, not where others read along.")
        rows = await self._head.gateway.host.list_sessions()
        found = [each for each in rows if rest and str(each["id"]).startswith(rest)]
        if len(found) != 1:
            raise HermesError("Write /resume and the id of one session; /sessions shows them.")
        session = await self._head.gateway.host.session(str(found[0]["id"]), self._head.surface)
        await self._head.bind(session.id, await _last_node(session), False)
        await self._head.say(f"Continuing here: {session.title or session.id}")

    async def _undo(self, _rest: str, row: ReceivedMessage) -> None:
        session = await self._head.session_for(row.incoming)
        operation, _ = await session.client.history.undo()
        await self._head.say(f"Undone: {clean(operation.label)[:200]}")

    async def _redo(self, _rest: str, row: ReceivedMessage) -> None:
        session = await self._head.session_for(row.incoming)
        operation, _ = await session.client.history.redo()
        await self._head.say(f"Redone: {clean(operation.label)[:200]}")

    async def _compact(self, rest: str, row: ReceivedMessage) -> None:
        session = await self._head.session_for(row.incoming)
        await self._head.say(await session.client.compact(rest))

    async def _move(self, rest: str, row: ReceivedMessage) -> None:
        head = self._head
        session, name, place = await head.session_for(row.incoming), head.gateway.name, head.place
        target = rest.strip().lower()
        if row.incoming.group:
            raise HermesError("A session of a group stays there.")
        if target in HERE_WORDS:
            head.detach()
            await head.write(lambda c: move(c, session.id, session.title, 0, None))
            head.gateway.wake_sender()
            return
        there = await head.read(lambda c: home_of(c, target, head.gateway.home_of(target)))
        if there is None or (target == name and there == place):
            raise HermesError(
                f"There is no other chat of yours at {target[:40] or 'nowhere'}; write there once."
            )
        end = await _last_node(session)

        def rebind(c: Any) -> None:
            book.bind(c, target, there, session.id, end, False, _now())
            book.unbind(c, name, place)

        head.detach()
        await head.write(rebind)
        await head.say(f"Continuing at {target}.")

        def announce(c: Any) -> None:
            body = {"text": f"Continuing here: {session.title or session.id}"}
            book.queue_delivery(c, target, there, "text", body, _now())

        await head.write(announce)
        head.gateway.wake_place(target, there)


async def _last_node(session: ChatSession) -> int:
    """Return the id of a session's last node, or 0.

    A user who moves the session has seen everything up to it.
    """
    path = await session.client.whole_path()
    return path[-1].id if path else 0


def _now() -> float:
    return time.time()


log = logging.getLogger(__name__)

LONGEST_PAUSE = 10.0
"""The longest pause between tries, in seconds, if the store or session is unavailable; the first is 1 s."""
INTERRUPTED = (
    "⚠ Hermes was stopped while a tool ran, and what came of that is not known. Nothing was done again; "
    "look, then write what is to happen."
)

DELETED = "The session of this chat was deleted. What you write next begins a new one."


class ChatHandler(ChatPlace):
    """A handler of one chat's messages, in order, that sends the chat the output of its session."""

    def __init__(self, gateway: Gateway, place: Place) -> None:
        super().__init__(gateway, place)
        self._wake = asyncio.Event()
        self._events: asyncio.Queue[tuple[str, Event]] = asyncio.Queue()
        """The events of sessions, each with the id of its session."""
        self._telling = asyncio.Lock()
        """Held while messages are sent to the chat, so that missed ones come before those of new events."""
        self._leave: Callable[[], None] = lambda: None
        self._actions = ChatActions(self)
        self._live = LiveMessage(self)
        self._questions = ChatQuestions(self)
        self._others: set[asyncio.Task[Any]] = set()
        self._resuming = False
        """Whether an interrupted turn is about to continue; waiting messages come after it."""
        self._heard = 0
        """The last node of the session of which the chat was notified by events."""
        self._until_idle: asyncio.Task[Any] | None = None
        self._tasks = [
            asyncio.create_task(self._work(), name=f"{gateway.name} {place}"),
            asyncio.create_task(self._listen(), name=f"{gateway.name} {place} listens"),
        ]

    @property
    def is_working(self) -> bool:
        """Whether a turn of its session is running."""
        return self.session is not None and self.session.client.busy

    def wake(self) -> None:
        """Request a check for new messages and changes."""
        self._wake.set()

    async def aclose(self) -> None:
        """Stop handling messages; the session is left unchanged."""
        self._leave()
        self._live.stop()
        self._questions.stop()
        tasks = [*self._tasks, *self._others]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # What people wrote

    async def _work(self) -> None:
        pause = 1.0
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._handle_messages()
            except Exception as error:
                if isinstance(error, HermesError):
                    log.warning("%s %s: %s", self.gateway.name, self.place, error)
                else:
                    log.exception("%s %s failed", self.gateway.name, self.place)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                self._wake.set()
            else:
                pause = 1.0

    async def _handle_messages(self) -> None:
        """Handle all messages that can be handled now.

        Those that need not wait for the turn come first, then the others in order.
        """
        name, place = self.gateway.name, self.place
        # At one moment: what was written after a move of the session is for the one that it moved to.
        bound: BoundPlace | None
        rows: list[ReceivedMessage]
        bound, rows = await self.read(
            lambda c: (book.find_bound_place(c, name, place), book.waiting(c, name, place))
        )
        if bound is not None:
            await self.attach(bound)
            await self._requeue_unsaved()
        later: list[ReceivedMessage] = []
        for row in rows:
            if not await self._handle_at_once(row):
                later.append(row)
        for row in later:
            if self._resuming:
                return
            if self.session is not None and self.session.client.busy:
                self._wake_when_idle(self.session)
                return
            await self._handle_in_order(row)

    async def _requeue_unsaved(self) -> None:
        """Reset to waiting those messages that the session received but could not store."""
        session, name, place = self.session, self.gateway.name, self.place
        if session is None or session.client.busy:
            return
        id = session.id
        unsaved: list[tuple[int, str]] = await self.read(lambda c: book.handed_messages(c, name, place, id))
        if not unsaved:
            return
        # The turn that has just ended may be about to begin one of them.
        await asyncio.sleep(0)
        if session.client.busy:
            return
        queue = list(session.client.queue)
        for _, text in unsaved:
            if text in queue:
                queue.remove(text)
        session.client.set_queue(queue)
        await self.write(lambda c: book.requeue_messages(c, [row for row, _ in unsaved]))
        self.wake()

    def _wake_when_idle(self, session: ChatSession) -> None:
        """Schedule a new check of the messages for when the session is idle."""

        async def wake_when_idle() -> None:
            await session.client.idle()
            self.wake()

        if self._until_idle is None or self._until_idle.done():
            self._until_idle = self._run_in_background(wake_when_idle())

    async def _handle_at_once(self, row: ReceivedMessage) -> bool:
        """Handle a button press, an answer, or a command that need not wait.

        Returns whether it was one of these.
        """
        incoming = row.incoming
        if incoming.kind == "button":
            await self.mark_done(row)
            await self._questions.take_press(incoming)
            return True
        if (found := command_of(incoming.text)) is not None:
            command, rest = found
            if not command.at_once:
                return False
            await self._carry_out(row, command.name, command.scope, rest)
            return True
        if (word := word_of(incoming.text)) is not None:
            # Never the answer to a question: that would reach the model.
            return self.session is not None and await self._is_refused(row, self.session, word[0])
        return not incoming.files and await self._questions.take_answer(row)

    async def _is_refused(self, row: ReceivedMessage, session: ChatSession, name: str) -> bool:
        """Reply that `/name` is unknown if nothing has that name. Returns whether it replied."""
        if await session.kind_of_word(name):
            return False
        await self.mark_done(row)
        await self.say(no_command(clean(name)[:40]))
        return True

    async def _carry_out(self, row: ReceivedMessage, name: str, scope: ChatScope, rest: str) -> None:
        if name != "steer":
            # Before it is done: a command that was cut off is not done twice.
            await self.mark_done(row)
        if not may(await self.scope_of(row.incoming), scope):
            await self.mark_done(row)
            await self.say("You may only look here.")
            return
        try:
            await self._actions.run(name, rest, row)
        except HermesError as error:
            await self.mark_done(row)
            await self.say(f"⚠ {error}")

    async def _handle_in_order(self, row: ReceivedMessage) -> None:
        incoming = row.incoming
        if (found := command_of(incoming.text)) is not None:
            await self._carry_out(row, found[0].name, found[0].scope, found[1])
            return
        if not may(await self.scope_of(incoming), "talk"):
            await self.mark_done(row)
            await self.say("You may only look here.")
            return
        try:
            session = await self.session_for(incoming)
            if (word := word_of(incoming.text)) is not None:
                if await self._is_refused(row, session, word[0]):
                    return
                if await session.kind_of_word(word[0]) == "plugin":
                    await self.mark_done(row)
                    await self.say(await session.run_plugin(*word))
                    return
            text, attachments = await prepare_message(self.gateway, session, incoming)
        except StoreError:
            # It waits until the store can be had.
            raise
        except HermesError as error:
            await self.mark_done(row)
            await self.say(f"⚠ {error}")
            return
        await self.pass_message(row, plain(text), attachments)

    async def pass_message(
        self, row: ReceivedMessage, text: str, attachments: Any = (), how: Any = "prompt"
    ) -> None:
        """Pass a message to the session, which stores it when its turn begins."""
        session = self.session
        assert session is not None
        await self.write(lambda c: book.mark_handed(c, row.id, session.id, text))
        try:
            session.message(text, how, attachments, row.id)
        except HermesError as error:
            await self.mark_done(row)
            await self.say(f"⚠ {error}")

    # The session

    @property
    def surface(self) -> str:
        """The name that permission rules use for sessions started here."""
        return f"gateway.{self.gateway.name}"

    async def session_for(self, incoming: Incoming) -> ChatSession:
        """Return the session of the chat, starting one if there is none. Raises `HermesError`."""
        if self.session is None:
            await self.start_session(incoming.group)
        assert self.session is not None
        return self.session

    async def start_session(self, group: bool, model: str | None = None) -> ChatSession:
        """Start a new session, connect it to this chat and return it. Raises `HermesError`."""
        surface = f"{self.surface}.group" if group else self.surface
        session = await self.gateway.host.create(self.gateway.workspace, surface, model)
        await self.bind(session.id, 0, group)
        return session

    async def bind(self, id: str, told: int, group: bool) -> None:
        """Connect the chat to a session.

        `told` is the last node that the chat has been sent. Raises `HermesError`.
        """
        name, place, now = self.gateway.name, self.place, time.time()
        self.detach()
        await self.write(lambda c: book.bind(c, name, place, id, told, group, now))
        await self.attach(BoundPlace(place, id, told, group))

    def detach(self) -> None:
        """Stop listening to the session and release it."""
        self._leave()
        self._leave = lambda: None
        self._live.stop()
        self._until_idle = None
        self.session = None

    async def attach(self, bound: BoundPlace) -> None:
        """Send the session's output since `bound.told`, then follow its events. Raises `HermesError`."""
        if self.session is not None and self.session.id == bound.session:
            return
        self.detach()
        surface = f"{self.surface}.group" if bound.is_group else self.surface
        name, place = self.gateway.name, self.place
        try:
            session = await self.gateway.host.session(bound.session, surface)
        except NoSession:
            await self.write(lambda c: book.unbind(c, name, place))
            await self.say(DELETED)
            return
        id = session.id
        async with self._telling:
            self.session = session
            self._leave = session.subscribe(lambda event: self._events.put_nowait((id, event)))
            try:
                await self._send_missed(session, bound.told)
                if not session.client.busy and await self.read(lambda c: book.has_taken_message(c, name, id)):
                    await self._go_on(session)
            except BaseException:
                # Half of it would keep the next look from telling the rest.
                self.detach()
                raise

    async def _send_missed(self, session: ChatSession, told: int) -> None:
        """Send the output of a session after node `told`, before any new event is handled."""
        self._heard = path[-1].id if (path := session.client.path) else 0
        for node in await session.client.whole_path():
            if node.id <= told:
                continue
            if node.kind == "user" and node.data.get("origin") in ("prompt", "queue", "steer"):
                await self._queue_user_message(node.id, node.content, node.data.get(RECEIVED, 0))
            elif node.kind == "assistant":
                # One that was cut off too: what goes on with it does not repeat it.
                await self._queue_node(node.id, node.content)
        await self._questions.settle(session)

    async def _go_on(self, session: ChatSession) -> None:
        """Continue a turn that was interrupted, unless it is unknown whether a tool call took effect."""
        path, heard = await session.client.whole_path(), self._heard
        if _was_call_interrupted(path):
            await self._mark_turn_done(session, heard)
            await self.say(INTERRUPTED)
            return

        async def rest() -> None:
            try:
                if await session.client.go_on() is None and not session.client.busy:
                    # It was complete; only the note about that was missing.
                    await self._mark_turn_done(session, heard)
            except HermesError as error:
                await self.say(f"⚠ {error}")
            finally:
                self._resuming = False
            self.wake()

        self._resuming = True
        self._run_in_background(rest())

    async def _mark_turn_done(self, session: ChatSession, node: int) -> None:
        name, place = self.gateway.name, self.place

        def over(c: Any) -> None:
            book.mark_turn_done(c, session.id, node)
            book.drop_drafts(c, name, place, session.id)

        await self.write(over)

    def _run_in_background(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)
        return task

    # What the session says

    async def _listen(self) -> None:
        while True:
            session, event = await self._events.get()
            pause = 1.0
            while not await self._try_handle_event(session, event):
                # What comes after it would mark it as known to the place.
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _try_handle_event(self, session: str, event: Event) -> bool:
        """Handle an event if this chat still has the session; return False if the store is unavailable."""
        async with self._telling:
            if self.session is None or self.session.id != session:
                return True
            try:
                await self._handle_event(event)
            except StoreError as error:
                log.warning("%s %s: %s", self.gateway.name, self.place, error)
                return False
            except Exception:  # noqa: BLE001, RUF100 - the answer is complete; only the connection is lost
                log.exception("%s %s failed on %s", self.gateway.name, self.place, event.type)
            return True

    async def _handle_event(self, event: Event) -> None:
        if isinstance(event, Asked):
            await self._questions.ask(event)
            return
        if isinstance(event, RequestResolved):
            await self._questions.show_resolution(event)
            return
        if event.agent != "main":
            return
        match event:
            case TurnStarted():
                self._live.begin()
            case UserMessageAdded():
                self._heard = max(self._heard, event.node)
                await self._queue_user_message(event.node, event.text, None)
            case AssistantMessageAdded():
                self._heard = max(self._heard, event.node)
                async with self.gateway.lock(self.place):
                    await self._queue_node(event.node, event.text)
                    self._live.forget_progress()
                self.gateway.wake_sender()
            case TurnEnded():
                await self._turn_ended(event)
            case _:
                self._live.handle_event(event)

    async def _queue_node(self, node: int, text: str, quiet: bool = False) -> None:
        """Queue the text of a node for delivery, once only."""
        session = self.session
        if session is None:
            return
        limits, name, now = self.gateway.adapter.limits, self.gateway.name, time.time()
        room = max(limits.text * 9 // 10, 20)
        bodies = [{"text": each, "quiet": quiet} for each in chunks(text, room, limits.unit)]
        bound = BoundPlace(self.place, session.id, 0, False)
        if await self.write(lambda c: book.queue_node(c, name, bound, node, bodies, now)):
            self.gateway.wake_sender()

    async def _queue_user_message(self, node: int, text: str, received: int | None) -> None:
        """Show a message of the user as a quotation if it was written elsewhere."""
        name, place = self.gateway.name, self.place
        own = await self.read(lambda c: book.is_from(c, name, place, node)) if received != 0 else False
        await self._queue_node(node, "" if own else quote_text(text), quiet=True)

    async def _turn_ended(self, event: TurnEnded) -> None:
        self._live.stop()
        session = self.session
        if session is None:
            return
        words = f"⚠ {event.error[:1_000]}" if event.error else ""
        if event.outcome == "interrupted":
            words = f"{glyph('stopped')} Stopped."
        name, place, heard = self.gateway.name, self.place, self._heard

        def over(c: Any) -> None:
            book.mark_turn_done(c, session.id, heard)
            # What was shown while it ran says how it ended.
            draft = book.draft_of(c, name, place, session.id) if words else 0
            if draft:
                book.edit_delivery(c, draft, {"text": words})
            elif words:
                book.queue_delivery(c, name, place, "text", {"text": words}, time.time())
            book.drop_drafts(c, name, place, session.id)

        await self.write(over)
        self.gateway.wake_sender()
        self._wake_when_idle(session)


def _was_call_interrupted(path: Sequence[Node]) -> bool:
    """Return whether a tool call of the last turn was interrupted while it ran."""
    for node in reversed(path):
        if node.kind == "user" and node.data.get("origin") in ("prompt", "queue"):
            return False
        if (
            node.kind == "tool"
            and node.data.get("outcome") == "interrupted"
            and NOT_STARTED not in node.content
        ):
            return True
    return False

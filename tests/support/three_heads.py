"""A terminal, a page and a messenger on one session of a service, which act in any order."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Callable, Coroutine
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from agent.api.opening import open_session
from agent.errors import HermesError
from agent.events import Decision, Event
from agent.session.options import Options
from tests.support.chat_stage import ChatStage
from tests.support.service import Head
from tests.support.telegram_server import TelegramServer
from tools.context import PersonAnswer

SCRIPT = """
import re

def script(request):
    asked = [e for e in request.messages if e.get("role") == "user" and "m" in str(e["content"])]
    texts = [text for e in asked if re.search(r"m\\d+", text := str(e["content"]))]
    last = texts[-1] if texts else "m0"
    name = re.findall(r"m\\d+", last)[-1]
    if "The program ended while" in str(request.messages[-1]["content"]):
        return say(f"Went on with {name}.")
    steps = 0
    for each in reversed(request.messages):
        if each.get("role") == "user" and name in str(each["content"]):
            break
        steps += each.get("role") == "assistant"
    if "push" in last and not steps:
        return call("terminal", command="git push origin main")
    if "which" in last and not steps:
        return call("clarify", question="Which?", choices=["red", "blue"], allow_freetext=False)
    if "slow" in last:
        return say("word " * 60 + f"end of {name}.", pace=0.01, piece=8)
    return say(f"Answer to {name}.")
"""
KINDS = ("push", "push", "which", "slow", "say")
PATIENCE = 120
DECIDABLE = ("approval", "question")


async def until(true: Callable[[], object], what: str) -> None:
    """Wait until a condition holds. Raises `AssertionError` saying what never happened."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not true():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"it never happened: {what}") from None


class TerminalHead:
    """`hermes --attach` without its screen."""

    name = "terminal"

    def __init__(self, stage: ChatStage, session: str) -> None:
        self._stage = stage
        self._session = session
        self.events: list[Event] = []
        self.client: Any = None
        self.given_back: list[str] = []
        """Messages that came back because the service died under them."""

    @property
    def is_there(self) -> bool:
        return self.client is not None and not self.client.is_lost

    async def attach(self) -> None:
        """Come in, after leaving in whatever way."""
        await self.leave()
        options = Options(
            workspace=self._stage.folder / "here", resume=self._session, surface="tui", attended=True
        )
        self.events.clear()
        socket = self._stage.home / "run" / "service.sock"
        self.client = await open_session(options, self.events.append, service=socket)

    async def leave(self) -> None:
        """As with `/detach`, or as a terminal notices that the service has ended."""
        client, self.client = self.client, None
        if client is not None:
            if client.is_lost:
                self.given_back += client.queue
            await client.aclose()
            # Killed while the terminal left: nobody said that these have arrived.
            self.given_back += client._sent

    async def say(self, text: str, how: str) -> bool:
        """Send a message; whether it has surely arrived, which a terminal is not told."""
        try:
            (self.client.steer if how == "steer" else self.client.submit)(text)
        except (HermesError, AttributeError):
            # Dead, or it is leaving at this moment.
            self.given_back.append(text)
        return False

    async def stop(self) -> None:
        if self.is_there:
            self.client.interrupt()

    async def answer(self, asked: dict[str, Any], yes: bool) -> None:
        reply: Any = Decision("once" if yes else "deny")
        if asked["type"] == "question":
            reply = PersonAnswer("answered", "red" if yes else "blue")
        if self.is_there:
            self.client.answer(asked["id"], reply)


class PageHead:
    """The page's own way: one socket that continues behind the last number it heard."""

    name = "page"

    def __init__(self, device: Head, session: str) -> None:
        self.device = device
        self._session = session
        self.events: list[dict[str, Any]] = []
        self.told: list[tuple[dict[str, Any], dict[str, Any]]] = []
        """Frames that were sent, and what the service said to them."""
        self._socket: ClientConnection | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._refs = itertools.count(1)
        self._task: asyncio.Task[None] | None = None

    @property
    def is_there(self) -> bool:
        return self._socket is not None

    def attach(self) -> None:
        """Connect now, and again whenever the connection breaks off."""
        if self._task is None:
            self._task = asyncio.create_task(self._listen())

    async def leave(self) -> None:
        """Be without a network."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _listen(self) -> None:
        while True:
            after = self.events[-1]["seq"] if self.events else 0
            url = f"{self.device.service.url.replace('http', 'ws')}/api/sessions/{self._session}/ws"
            try:
                async with connect(
                    f"{url}?after={after}",
                    additional_headers={"Authorization": f"Bearer {self.device.token}"},
                    proxy=None,
                ) as self._socket:
                    async for text in self._socket:
                        self._take(json.loads(text))
            except (OSError, ConnectionClosed, InvalidHandshake, EOFError):
                pass
            finally:
                self._socket = None
                for each in self._waiting.values():
                    each.cancel()
                self._waiting.clear()
            await asyncio.sleep(0.05)

    def _take(self, frame: dict[str, Any]) -> None:
        if "seq" in frame:
            assert not self.events or frame["seq"] > self.events[-1]["seq"], "an event came twice"
            self.events.append(frame)
        elif (waiting := self._waiting.pop(int(frame.get("ref") or 0), None)) is not None:
            waiting.set_result(frame)
        else:
            raise AssertionError(f"nobody asked for {frame}")

    async def send(self, **frame: Any) -> dict[str, Any] | None:
        """What the service says to a frame; None where the connection broke off before."""
        ref = next(self._refs)
        future = self._waiting[ref] = asyncio.get_running_loop().create_future()
        try:
            if self._socket is None:
                return None
            await self._socket.send(json.dumps({**frame, "ref": ref}))
            answer = await asyncio.shield(future)
        except (OSError, ConnectionClosed, asyncio.CancelledError):
            if not future.cancelled():
                raise
            return None
        finally:
            self._waiting.pop(ref, None)
        self.told.append((frame, answer))
        return answer

    async def say(self, text: str, how: str) -> bool:
        """Send a message; whether the service said that it has it."""
        answer = await self.send(type="message", text=text, how=how)
        return answer is not None and answer["type"] == "ok"

    async def stop(self) -> None:
        await self.send(type="interrupt")

    async def answer(self, asked: dict[str, Any], yes: bool) -> None:
        words = ("red", "blue") if asked["type"] == "question" else ("once", "deny")
        await self.send(type="answer", request=asked["id"], answer=words[not yes])

    def pending(self) -> list[dict[str, Any]]:
        """What waits for a person, as far as the page knows."""
        over = {each["id"] for each in self.events if each["type"] == "request_resolved"}
        return [e for e in self.events if e["type"] in DECIDABLE and e["id"] not in over]


class ChatPerson:
    """The person at the messenger."""

    name = "chat"
    is_there = True

    def __init__(self, telegram: TelegramServer) -> None:
        self.telegram = telegram
        self._begin = len(telegram.shown)

    @property
    def shown(self) -> list[Any]:
        """What the chat says since this session is in it."""
        return self.telegram.shown[self._begin :]

    async def say(self, text: str, how: str) -> bool:
        """Write a message, which the platform keeps until it is taken."""
        self.telegram.write(f"/steer {text}" if how == "steer" else text)
        return True

    async def stop(self) -> None:
        self.telegram.write("/stop")

    async def answer(self, asked: dict[str, Any], yes: bool) -> None:
        """Press a button, if the chat was asked by now."""
        labels = ("red", "blue") if asked["type"] == "question" else ("Yes, once", "No")
        for message in reversed(self.shown):
            if message.buttons and labels[0] in [label for label, _ in message.buttons]:
                self.telegram.press(message, labels[not yes])
                return

    async def leave(self) -> None:
        """Break connections off."""
        self.telegram.cut(2)


class Interleaving:
    """One run in an order of its own."""

    def __init__(self, stage: ChatStage, telegram: TelegramServer, device: Head, seed: int) -> None:
        self._stage = stage
        self._chance = random.Random(seed)
        self._device = device
        self._seed = seed
        self._names = itertools.count(1)
        self.sure: set[str] = set()
        """Messages of which the service, or the messenger, said that it has them."""
        self.maybe: set[str] = set()
        self.kills = 0
        self.done: list[str] = []
        self._telegram = telegram
        self._unquiet: tuple[Any, ...] = ()
        """What was not at its end when it was looked at last, for whoever waits in vain."""

    async def begin(self) -> None:
        """A new session that all three have."""
        work = self._stage.folder / f"work{self._seed}"
        work.mkdir()
        self.session = await asyncio.to_thread(self._device.session, work)
        path = f"/api/sessions/{self.session}/move"
        status, told = await asyncio.to_thread(self._device.post, path, {"to": "telegram"})
        assert status == 200, told
        self.chat = ChatPerson(self._telegram)
        self.terminal = TerminalHead(self._stage, self.session)
        self.page = PageHead(self._device, self.session)
        self.page.attach()
        await self.terminal.attach()
        await until(lambda: self.page.events, "the page hears the session")

    async def go(self, acts: int) -> None:
        """Act so often, one after the other or at once."""
        kill_at = self._chance.randrange(acts) if self._chance.random() < 0.5 else -1
        for number in range(acts):
            if number == kill_at:
                await asyncio.gather(self._kill(), *self._some(self._chance.randrange(3)))
            elif self._chance.random() < 0.4:
                await asyncio.gather(*self._some(self._chance.randint(2, 3)))
            else:
                for act in self._some(1):
                    await act
            await asyncio.sleep(self._chance.choice((0, 0, 0.01, 0.05, 0.2)))

    def _some(self, count: int) -> list[Coroutine[Any, Any, None]]:
        return [self._one() for _ in range(count)]

    async def _one(self) -> None:
        heads = [each for each in (self.terminal, self.page, self.chat) if each.is_there]
        who: Any = self._chance.choice(heads)
        pending = self.page.pending()
        if pending and self._chance.random() < 0.6:
            await self._decide(pending[0], heads)
            return
        match self._chance.choices(("say", "steer", "stop", "leave"), (6, 2, 1, 2))[0]:
            case "say":
                await self._say(who, self._chance.choice(("prompt", "queue")))
            case "steer":
                await self._say(who, "steer")
            case "stop":
                self.done.append(f"{who.name} stops")
                await who.stop()
            case _:
                await self._leave(who)

    async def _say(self, who: Any, how: str) -> None:
        name = f"m{self._seed}{next(self._names):03}"
        self.done.append(f"{who.name} {how} {name}")
        self.maybe.add(name)
        if await who.say(f"{self._chance.choice(KINDS)} {name}", how):
            self.sure.add(name)

    async def _decide(self, asked: dict[str, Any], heads: list[Any]) -> None:
        """Several answer at once, in any order."""
        chosen = self._chance.sample(heads, self._chance.randint(1, len(heads)))
        self.done.append(f"{[each.name for each in chosen]} answer {asked['id']}")
        await asyncio.gather(*(each.answer(asked, self._chance.random() < 0.5) for each in chosen))

    async def _leave(self, who: Any) -> None:
        self.done.append(f"{who.name} leaves")
        await who.leave()
        await asyncio.sleep(self._chance.uniform(0, 0.1))
        await self._back(who)

    async def _back(self, who: Any) -> None:
        if who is self.page:
            self.page.attach()
        elif who is self.terminal:
            try:
                await self.terminal.attach()
            except HermesError:
                self.done.append("the terminal found no service")

    async def _kill(self) -> None:
        self.done.append("kill")
        self.kills += 1
        service = self._stage.service
        port = service.port
        await asyncio.sleep(self._chance.uniform(0, 0.1))
        await asyncio.to_thread(service.kill)
        await asyncio.to_thread(service.start, port)
        await self.terminal.attach()

    async def settle(self) -> None:
        """Let everything that waits come to its end."""
        self.page.attach()
        if not self.terminal.is_there:
            await self.terminal.attach()
        await until(lambda: self.page.is_there, "the page is connected")
        try:
            async with asyncio.timeout(2 * PATIENCE):
                while not await self._is_quiet():
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"it never was quiet: {self._unquiet}") from None
        newest = await asyncio.to_thread(self._device.events, self.session)
        await until(lambda: self.page.events[-1]["seq"] >= newest[-1]["seq"], "the page heard all")
        await until(lambda: self.terminal.events[-1].seq >= newest[-1]["seq"], "the terminal heard all")

    async def _is_quiet(self) -> bool:
        # First: what is confirmed a moment later is in the store by then.
        unconfirmed = self._telegram.unconfirmed
        _, state = await asyncio.to_thread(self._device.get, f"/api/sessions/{self.session}")
        received = self._stage.rows("SELECT id, state FROM received WHERE state != 'done'")
        owed = self._stage.rows("SELECT * FROM deliveries WHERE state = 'waiting'")
        self._unquiet = (unconfirmed, state, received, owed)
        for asked in self.page.pending():
            await self.page.answer(asked, yes=False)
        if state["busy"] or state["requests"]:
            return False
        if state["queued"]:
            # After a stop what waits is left alone until the next message.
            await self._say(self.page, "prompt")
            return False
        return not received and not owed and not unconfirmed

    async def end(self) -> None:
        """Let everybody go."""
        await self.page.leave()
        await self.terminal.leave()

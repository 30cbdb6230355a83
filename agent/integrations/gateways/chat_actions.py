"""Commands of a chat, carried out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from agent.errors import HermesError
from agent.integrations.gateways import message_rows
from agent.integrations.gateways.chat_commands import help_text
from agent.integrations.gateways.homes import home_of
from agent.integrations.gateways.moving import HERE, move
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.integrations.gateways.head_ports import Head
    from agent.integrations.gateways.message_rows import ReceivedMessage
    from agent.integrations.gateways.ports import ChatSession

LISTED = 10


class ChatActions:
    """The commands of one place."""

    def __init__(self, head: Head) -> None:
        self._head = head

    async def run(self, name: str, rest: str, row: ReceivedMessage) -> None:
        """Carry a command out. Raises `HermesError`."""
        await getattr(self, f"_{name}")(rest, row)

    async def _help(self, _rest: str, _row: ReceivedMessage) -> None:
        await self._head.say(f"Write what is to be done.\n\n{help_text()}")

    async def _id(self, _rest: str, row: ReceivedMessage) -> None:
        incoming = row.incoming
        await self._head.say(f"You are `{incoming.sender.id}`, this chat is `{incoming.place}`.")

    async def _new(self, _rest: str, row: ReceivedMessage) -> None:
        session = await self._head.begin(row.incoming.group)
        await self._head.say(f"A new session with {session.client.model}.")

    async def _stop(self, _rest: str, _row: ReceivedMessage) -> None:
        session = self._head.session
        if session is None or not session.client.busy:
            await self._head.say("Nothing runs.")
            return
        session.client.interrupt()

    async def _steer(self, rest: str, row: ReceivedMessage) -> None:
        if not rest:
            raise HermesError("Write what is to be read behind /steer.")
        await self._head.session_for(row.incoming)
        await self._head.hand_over(row, rest, how="steer")

    async def _status(self, _rest: str, _row: ReceivedMessage) -> None:
        head, session = self._head, self._head.session
        if session is None:
            await head.say("There is no session here yet; write what is to be done.")
            return
        name, place = head.gateway.name, head.place
        waiting = await head.read(lambda c: message_rows.waiting(c, name, place))
        state = "works" if session.client.busy else "waits for you"
        more = f", {len(waiting)} messages wait" if waiting else ""
        title = f"**{session.title}**\n" if session.title else ""
        await head.say(f"{title}`{session.id}` · {session.client.model} · {state}{more}")

    async def _model(self, rest: str, row: ReceivedMessage) -> None:
        head = self._head
        session = await head.session_for(row.incoming)
        if not rest:
            await head.say(f"The model is {session.client.model}; `/model NAME` goes on with another one.")
            return
        id, gateway = session.id, head.gateway
        name, place = gateway.name, head.place
        bound = await head.read(lambda c: message_rows.bound(c, name, place))
        head.detach()
        surface = f"{head.surface}.group" if bound.is_group else head.surface
        try:
            opened = await gateway.host.reopen(id, surface, rest)
        finally:
            await head.attach(bound)
        await head.say(f"It goes on with {opened.client.model}.")

    async def _sessions(self, _rest: str, row: ReceivedMessage) -> None:
        if row.incoming.group:
            raise HermesError("Sessions are listed in a chat of your own, not where others read along.")
        rows = (await self._head.gateway.host.listed())[:LISTED]
        lines = [f"`{each['id']}` {each['title'] or 'without a title'}" for each in rows]
        await self._head.say("\n".join(lines) or "There are none yet.")

    async def _resume(self, rest: str, row: ReceivedMessage) -> None:
        if row.incoming.group:
            raise HermesError("Other sessions are opened in a chat of your own, not where others read along.")
        rows = await self._head.gateway.host.listed()
        found = [each for each in rows if rest and str(each["id"]).startswith(rest)]
        if len(found) != 1:
            raise HermesError("Write /resume and the id of one session; /sessions shows them.")
        session = await self._head.gateway.host.session(str(found[0]["id"]), self._head.surface)
        await self._head.bind(session.id, await _end(session), False)
        await self._head.say(f"Here goes on: {session.title or session.id}")

    async def _undo(self, _rest: str, row: ReceivedMessage) -> None:
        session = await self._head.session_for(row.incoming)
        operation, _ = await session.client.history.undo()
        await self._head.say(f"Taken back: {clean(operation.label)[:200]}")

    async def _redo(self, _rest: str, row: ReceivedMessage) -> None:
        session = await self._head.session_for(row.incoming)
        operation, _ = await session.client.history.redo()
        await self._head.say(f"Done again: {clean(operation.label)[:200]}")

    async def _compact(self, rest: str, row: ReceivedMessage) -> None:
        session = await self._head.session_for(row.incoming)
        await self._head.say(await session.client.compact(rest))

    async def _move(self, rest: str, row: ReceivedMessage) -> None:
        head = self._head
        session, name, place = await head.session_for(row.incoming), head.gateway.name, head.place
        target = rest.strip().lower()
        if row.incoming.group:
            raise HermesError("A session of a group stays there.")
        if target in HERE:
            head.detach()
            await head.write(lambda c: move(c, session.id, session.title, 0, None))
            head.gateway.owe()
            return
        there = await head.read(lambda c: home_of(c, target, head.gateway.house.home(target)))
        if there is None or (target == name and there == place):
            raise HermesError(
                f"There is no other chat of yours at {target[:40] or 'nowhere'}; write there once."
            )
        end = await _end(session)

        def moved(c: Any) -> None:
            message_rows.unbind(c, name, place)
            message_rows.bind(c, target, there, session.id, end, False, _now())

        head.detach()
        await head.write(moved)
        await head.say(f"It goes on at {target}.")

        def told(c: Any) -> None:
            body = {"text": f"Here goes on: {session.title or session.id}"}
            message_rows.deliver(c, target, there, "text", body, _now())

        await head.write(told)
        head.gateway.house.moved(target, there)


async def _end(session: ChatSession) -> int:
    """The last node of a session: everything before is known to who asks for it."""
    path = await session.client.whole_path()
    return path[-1].id if path else 0


def _now() -> float:
    return time.time()

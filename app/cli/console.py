"""Questions to the user on a plain terminal, one at a time."""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import replace
from typing import Any

from agent.events import AgentStarted, Asked, Event
from app.cli.frame import say
from app.tui.questions.approval_words import one_line
from app.tui.questions.question_kind import kind_of

log = logging.getLogger(__name__)


class Console:
    """A terminal that writes questions to stderr and reads answers from stdin, in a thread."""

    numbers = False

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.prompt = ""
        """The prompt in the cursor's row while a line is read; empty otherwise."""
        self._names: dict[str, str] = {}
        """The names of agents by id."""

    def handle(self, event: Event) -> bool:
        """If the event is a request, start asking the user; return whether it is one."""
        if isinstance(event, AgentStarted):
            self._names[event.agent] = event.name
        if not isinstance(event, Asked):
            return False
        self.answer(event)
        return True

    def answer(self, request: Asked) -> None:
        """Start a task that asks the user after all earlier questions are answered."""
        task = asyncio.get_running_loop().create_task(self._ask(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def read(self, prompt: str) -> str | None:
        """Read one line; return None at the end of input."""
        self.prompt = prompt
        try:
            return await asyncio.to_thread(_line, prompt)
        finally:
            self.prompt = ""

    async def _ask(self, request: Asked) -> None:
        async with self._turn:
            if request.reply.done():
                return
            answer = await self._answer(request)
            if not request.reply.done():
                request.reply.set_result(answer)

    async def _answer(self, request: Asked) -> Any:
        try:
            kind = kind_of(request)
        except LookupError:
            log.exception("a question could not be asked")
            return request.cancelled
        return await kind.plain(replace(request, agent=self._agent_label(request.agent)), self)

    def say(self, text: str) -> None:
        """Write a line on stderr."""
        say(text, sys.stderr)

    def _agent_label(self, agent: str) -> str:
        name = one_line(self._names.get(agent, agent))
        return agent if name == agent else f"{name} ({agent})"


def _line(prompt: str) -> str | None:
    print(prompt, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    return line.strip() if line else None

"""Asking a person on a plain terminal, one question at a time."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from textwrap import indent
from typing import Any

from agent.events import (
    AgentStarted,
    ApprovalAsked,
    Asked,
    CeilingAsked,
    CeilingReply,
    Decision,
    Event,
    ForecastAsked,
    QuestionAsked,
)
from app import budget_words as budget
from app.approval_words import one_line, reached, reasons
from app.cli.output import say
from tools.context import Answer

GOAL = 300
"""Characters of a goal that are shown."""


class Console:
    """Puts questions and approvals on stderr and reads answers from stdin, in a thread."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._names: dict[str, str] = {}
        """What agents are called, by id."""

    def hear(self, event: Event) -> bool:
        """Ask the person what this event asks; whether it does."""
        if isinstance(event, AgentStarted):
            self._names[event.agent] = event.name
        if not isinstance(event, Asked):
            return False
        self.answer(event)
        return True

    def answer(self, request: Asked) -> None:
        """Ask as soon as the questions before are answered."""
        task = asyncio.get_running_loop().create_task(self._ask(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def read(self, prompt: str) -> str | None:
        """One line, or None at the end of input."""
        return await asyncio.to_thread(_line, prompt)

    async def _ask(self, request: Asked) -> None:
        async with self._turn:
            if request.reply.done():
                return
            answer = await self._answer(request)
            reply: asyncio.Future[Any] = request.reply
            if not reply.done():
                reply.set_result(answer)

    async def _answer(self, request: Asked) -> Answer | Decision | CeilingReply:
        request = replace(request, agent=self._called(request.agent))
        match request:
            case QuestionAsked():
                return await self._question(request)
            case ApprovalAsked():
                return await self._approval(request)
            case ForecastAsked():
                return await self._forecast(request)
            case CeilingAsked():
                return await self._ceiling(request)

    def _called(self, agent: str) -> str:
        name = one_line(self._names.get(agent, agent))
        return agent if name == agent else f"{name} ({agent})"

    async def _forecast(self, request: ForecastAsked) -> Decision:
        say(f"\n◆ {budget.heading(request)}:\n", sys.stderr)
        for goal in request.forecast.goals:
            say(f"  - {one_line(goal)[:GOAL]}", sys.stderr)
        say("\n" + indent(budget.aligned(list(budget.figures(request))), "  ") + "\n", sys.stderr)
        text = await self.read("  [y] send  [s] send, and do not ask again  [N] do not, or say why not: ")
        return _decision(text, lasting="s")

    async def _ceiling(self, request: CeilingAsked) -> CeilingReply:
        say(f"\n◆ {request.agent} cannot go on. {budget.reached(request)}", sys.stderr)
        for note in budget.after(request):
            say(f"  · {note}", sys.stderr)
        hint = f"  [y] {budget.raised_once(request)}  [a number] by that much  [N] stop here: "
        while True:
            text = (await self.read(hint) or "").lower()
            if text in ("y", "yes"):
                return CeilingReply("raised", request.again)
            if text in ("", "n", "no"):
                return CeilingReply("stopped")
            ceiling, wrong = budget.more(text, request)
            if not wrong:
                return CeilingReply("raised", ceiling)
            say(f"  {wrong}", sys.stderr)

    async def _question(self, request: QuestionAsked) -> Answer:
        who = "" if request.agent == "main" else f"{request.agent} asks: "
        say(f"\n◆ {who}{request.question}", sys.stderr)
        for number, choice in enumerate(request.choices, 1):
            say(f"  {number}. {choice}", sys.stderr)
        hint = (
            "number" + (" or your own answer" if request.allow_freetext else "")
            if request.choices
            else "answer"
        )
        text = await self.read(f"  {hint}, empty to decline: ")
        if not text:
            return Answer("declined")
        if text.isascii() and text.isdigit() and 1 <= int(text) <= len(request.choices):
            return Answer("answered", request.choices[int(text) - 1])
        if request.choices and not request.allow_freetext:
            return Answer("declined")
        return Answer("answered", text)

    async def _approval(self, request: ApprovalAsked) -> Decision:
        who = "" if request.agent == "main" else f"{request.agent}: "
        say(f"\n◆ {who}{request.tool} wants to:\n\n{request.headline}\n", sys.stderr)
        if facts := reached(request):
            say(f"  {facts}", sys.stderr)
        for reason in reasons(request):
            say(f"  {reason}", sys.stderr)
        lasting = ""
        if request.rule:
            say(f"  · a yes for the session or always covers: {one_line(request.rule)}", sys.stderr)
            lasting = "  [s] for this session  [a] always"
        text = await self.read(f"  [y] once{lasting}  [N] deny, or say why not: ")
        return _decision(text, lasting="sa" if request.rule else "")


def _decision(text: str | None, lasting: str) -> Decision:
    """What was typed as a decision. `lasting` are the letters of yeses for more than once that count here."""
    match (text or "n").strip().lower():
        case "y" | "yes":
            return Decision("once")
        case "s" if "s" in lasting:
            return Decision("session")
        case "a" | "always" if "a" in lasting:
            return Decision("always")
        case "s" | "a" | "always" | "n" | "no" | "":
            return Decision("deny")
        case _:
            return Decision("deny", (text or "").strip())


def _line(prompt: str) -> str | None:
    print(prompt, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    return line.strip() if line else None

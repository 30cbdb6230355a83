"""Asking a person on a plain terminal, one question at a time."""

from __future__ import annotations

import asyncio
import sys

from agent.events import ApprovalAsked, Decision, QuestionAsked
from app.approval_words import one_line, reached, reasons
from app.cli.output import say
from tools.context import Answer


class Console:
    """Puts questions and approvals on stderr and reads answers from stdin, in a thread."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(self, request: QuestionAsked | ApprovalAsked) -> None:
        """Ask as soon as the questions before are answered."""
        task = asyncio.get_running_loop().create_task(self._ask(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def read(self, prompt: str) -> str | None:
        """One line, or None at the end of input."""
        return await asyncio.to_thread(_line, prompt)

    async def _ask(self, request: QuestionAsked | ApprovalAsked) -> None:
        async with self._turn:
            if request.reply.done():
                return
            if isinstance(request, QuestionAsked):
                answer = await self._question(request)
                if not request.reply.done():
                    request.reply.set_result(answer)
            else:
                decision = await self._approval(request)
                if not request.reply.done():
                    request.reply.set_result(decision)

    async def _question(self, request: QuestionAsked) -> Answer:
        say(f"\n◆ {request.question}", sys.stderr)
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
        say(f"\n◆ {request.tool} wants to:\n\n{request.headline}\n", sys.stderr)
        if facts := reached(request):
            say(f"  {facts}", sys.stderr)
        for reason in reasons(request):
            say(f"  {reason}", sys.stderr)
        lasting = ""
        if request.rule:
            say(f"  · a yes for the session or always covers: {one_line(request.rule)}", sys.stderr)
            lasting = "  [s] for this session  [a] always"
        text = await self.read(f"  [y] once{lasting}  [N] deny, or say why not: ")
        match (text or "n").strip().lower():
            case "y" | "yes":
                return Decision("once")
            case "s" if request.rule:
                return Decision("session")
            case "a" | "always" if request.rule:
                return Decision("always")
            case "s" | "a" | "always":
                return Decision("deny")
            case "n" | "no" | "":
                return Decision("deny")
            case _:
                return Decision("deny", (text or "").strip())


def _line(prompt: str) -> str | None:
    print(prompt, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    return line.strip() if line else None

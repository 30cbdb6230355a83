"""Asking the side model of the smart mode, within bounds of time, size and patience."""

from __future__ import annotations

import asyncio
import secrets as chance
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from agent.core.event_data import Usage
from agent.core.messages import Message
from agent.errors import HermesError
from agent.model.protocol import ModelClient, ModelRequest, ReplyEnd, TextDelta, UsageDelta
from agent.model.wire import Wire
from agent.safety.smart import LONGEST_ANSWER, SYSTEM, SideModelOpinion, matter, question, read_answer
from agent.safety.verdict import Verdict
from tools.services.actions import Action, ReadPath
from tools.text.safe_text import clean

MAX_OUTPUT = 2_000
"""Tokens of an answer; models that think first need most of them."""
KEPT = 256
"""Opinions that are kept, so that equal actions are asked about once."""
FAILURES = 3
REST = 60.0
"""After so many failures in a row it is not asked for so many seconds."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What the side model thinks, None if it said nothing usable, and a note for the audit log."""

    opinion: SideModelOpinion | None
    note: str


class Adviser:
    """The side model of one session. It never raises for what the model does.

    `name` is the model as a person knows it, `model` as the provider does. `count` takes the
    tokens of each request, `tell` a sentence for the person when it stops answering.
    """

    def __init__(
        self,
        client: ModelClient,
        wire: Wire,
        *,
        name: str,
        model: str,
        timeout: float,
        workspace: Path,
        secrets: Mapping[str, str],
        count: Callable[[Usage], None],
        tell: Callable[[str], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._wire = wire
        self._name = name
        self._model = model
        self._timeout = timeout
        self._workspace = workspace
        self._secrets = secrets
        self._count = count
        self._tell = tell
        self._now = now
        self._kept: OrderedDict[str, SideModelOpinion] = OrderedDict()
        self._asking: dict[str, asyncio.Lock] = {}
        self._failures = 0
        self._is_silent = False
        self._resting_until = 0.0

    async def advise(self, action: Action, verdict: Verdict) -> Advice | None:
        """What the side model thinks of an action; None when it is not one to ask about."""
        if isinstance(action, ReadPath) and verdict.kind == "allow" and self._is_inside(action.path):
            return None
        # A long command takes a while to mask.
        text = await asyncio.to_thread(matter, action, verdict, str(self._workspace), self._secrets)
        key = await asyncio.to_thread(_key, action, verdict)
        lock = self._asking.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                return await self._advice(key, text)
        finally:
            if not lock.locked():
                self._asking.pop(key, None)

    def _is_inside(self, path: Path) -> bool:
        return path.is_relative_to(self._workspace)

    async def _advice(self, key: str, text: str) -> Advice:
        if known := self._kept.get(key):
            self._kept.move_to_end(key)
            return self._said(known)
        if self._now() < self._resting_until:
            return Advice(None, f"{self._name} was not asked: it failed {FAILURES} times in a row")
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._ask(text)
        except TimeoutError:
            return self._failed(f"gave no answer within {self._timeout:g} s")
        except HermesError as error:
            return self._failed(f"could not be asked: {clean(str(error))[:200]}")
        opinion = read_answer(answer)
        if opinion is None:
            return self._failed("gave no answer that can be read")
        self._failures, self._is_silent = 0, False
        self._kept[key] = opinion
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return self._said(opinion)

    async def _ask(self, text: str) -> str:
        """The answer as text. Raises `ModelError`, or `BudgetReachedError`."""
        asked = Message("user", question(text, chance.token_hex(8)))
        request = ModelRequest(
            model=self._model,
            system=self._wire.system(SYSTEM, ()),
            frames=tuple(self._wire.framer().frames(asked)),
            max_output=MAX_OUTPUT,
        )
        stream = self._client.stream(request)
        pieces: list[str] = []
        length = 0
        usage: Usage | None = None
        try:
            async for delta in stream:
                match delta:
                    case TextDelta():
                        pieces.append(delta.text)
                        length += len(delta.text)
                    case UsageDelta():
                        usage = delta.usage
                    case ReplyEnd():
                        break
                    case _:
                        pass
                if length > LONGEST_ANSWER:
                    break
        finally:
            if usage is not None:
                self._count(usage)
            if (close := getattr(stream, "aclose", None)) is not None:
                await close()
        return "".join(pieces)

    def _said(self, opinion: SideModelOpinion) -> Advice:
        reasons = f" ({'; '.join(opinion.reasons)})" if opinion.reasons else ""
        return Advice(opinion, f"{self._name} said {opinion.kind}{reasons}")

    def _failed(self, what: str) -> Advice:
        self._failures += 1
        if not self._is_silent:
            self._is_silent = True
            self._tell(f"The side model {self._name} {what}; where it says nothing the rules decide alone.")
        if self._failures >= FAILURES:
            self._resting_until = self._now() + REST
            self._failures = 0
        return Advice(None, f"{self._name} {what}")


def _key(action: Action, verdict: Verdict) -> str:
    """What equal questions have in common: the whole action, of which only a part may be sent."""
    text = f"{verdict.kind}\0{verdict.reasons}\0{action!r}"
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

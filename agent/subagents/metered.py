"""A way to a model that asks the purse before each request and settles afterwards.

Every attempt is metered, retries and fallbacks too. The most a request can take
is what goes in, counted so that it cannot be too little, and the output limit
it is sent with, which is made to fit the purse. A request whose answer broke
off before the provider had counted it counts for the most it could take.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.errors import ModelError
from agent.model.catalog import ModelInfo
from agent.model.protocol import Delta, End, ModelClient, Request, Usage, UsageDelta
from agent.model.usage import LARGEST_RATIO, request_cost
from agent.spending.fitting import fitted
from agent.subagents.budget import BudgetReachedError, Charge, Purse, Reservation
from agent.subagents.pause import Pause, PausedError
from agent.subagents.throttle import Throttle

if TYPE_CHECKING:
    from agent.spending.account import Account, Entry

PER_MESSAGE = 16
"""Tokens that a chat template puts around one message, at most; and around the tools."""

PER_IMAGE = 4_000
"""Tokens of one image, at most, where its bytes are fewer: some providers count by tiles."""

LEAST_OUTPUT = 256
"""Output tokens below which a request is not worth sending: the budget counts as reached."""

USUAL_OUTPUT = 8_192
"""Output limit of a request inside a budget, where neither settings nor catalog know one."""

LARGEST_OUTPUT = 16_384
"""Output limit of a request inside a budget unless settings say otherwise: others want room too."""

BULK = 1_000_000
"""Bytes of messages from which on they are counted off the event loop."""

Reached = Callable[[BudgetReachedError], Awaitable[bool]]
"""Awaited when a ceiling stands in the way; True: it was raised, so try again."""

PASSED_ON = frozenset({408, 502, 504, 524})
"""HTTP statuses of a gateway that stopped waiting: somebody behind it may still be writing the answer."""


@dataclass(slots=True)
class Tally:
    """What one agent has used, as providers counted it. `assumed` tokens are those nobody counted."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    assumed: int = 0
    cost: float | None = 0.0
    """US dollars, of what was assumed too; None: unknown."""

    @property
    def tokens(self) -> int:
        return self.input + self.output + self.assumed

    def count(self, usage: Usage, charge: Charge) -> None:
        self.requests += 1
        self.input += max(usage.input or 0, 0)
        self.output += max(usage.output or 0, 0)
        self.cached += max(usage.cached or 0, 0)
        self._pay(charge)

    def assume(self, charge: Charge) -> None:
        self.requests += 1
        self.assumed += charge.tokens
        self._pay(charge)

    def _pay(self, charge: Charge) -> None:
        self.cost = None if self.cost is None or charge.money is None else self.cost + charge.money


@dataclass(frozen=True, slots=True)
class _Counted:
    """A request that the provider counted: `input` tokens for these messages and tools."""

    messages: tuple[bytes, ...]
    tools: bytes
    input: int


def most_tokens(messages: Sequence[bytes], tools: bytes = b"") -> int:
    """More tokens than these can be: each token is a byte at least, and templates add their marks."""
    images = sum(frame.count(b'"image_url"') for frame in messages)
    size = sum(map(len, messages)) + len(tools)
    return size + PER_MESSAGE * (len(messages) + bool(tools)) + PER_IMAGE * images


@dataclass(frozen=True, slots=True)
class _Room:
    """What is set aside for one request, in the purses and in the account."""

    reservation: Reservation
    entry: Entry | None


class MeteredClient:
    """A `ModelClient` for one agent and one model. `info` describes the model.

    Raises `BudgetReachedError` beside the errors of `client`. `told` hears after every request.
    `account` is where requests are written down for good, and may have a ceiling of its own. `reached`
    may raise a ceiling that stands in the way. Without `throttle` and `pause` nothing is held back.
    """

    def __init__(
        self,
        client: ModelClient,
        purse: Purse,
        info: ModelInfo,
        throttle: Throttle | None,
        pause: Pause | None,
        tally: Tally,
        told: Callable[[], None] = lambda: None,
        *,
        account: Account | None = None,
        reached: Reached | None = None,
    ) -> None:
        self._client = client
        self._purse = purse
        self._info = info
        self._throttle = throttle
        self._pause = pause
        self._tally = tally
        self._told = told
        self._account = account
        self._reached = reached
        self._counted: _Counted | None = None

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Send a request when pause, throttle and purse allow it, and read the answer."""
        admitted, request, room = await self._allowed(request)
        usage, begun, complete, free = Usage(), False, False, False
        deltas = aiter(self._client.stream(request))
        try:
            while (delta := await self._next(deltas)) is not None:
                begun = True
                if isinstance(delta, UsageDelta):
                    usage = _merged(usage, delta.usage)
                elif isinstance(delta, End):
                    complete = True
                    if self._throttle is not None:
                        self._throttle.answered()
                yield delta
        except ModelError as error:
            free = not begun and is_free(error)
            if error.kind == "rate_limit" and self._throttle is not None:
                self._throttle.refused(admitted, error.retry_after)
            raise
        finally:
            # Settled first: closing may take a while, or be cancelled.
            self._settle(request, room, usage if complete else Usage(), free=free)
            close = getattr(deltas, "aclose", None)
            if close is not None:
                await close()

    async def aclose(self) -> None:
        """Nothing: the client belongs to the session, and others use it too."""

    async def _next(self, deltas: AsyncIterator[Delta]) -> Delta | None:
        try:
            return await (anext(deltas) if self._pause is None else self._pause.next(deltas))
        except StopAsyncIteration:
            return None

    async def _allowed(self, request: Request) -> tuple[float, Request, _Room]:
        """When the request was admitted, as it is sent, and the room for it."""
        while True:
            if self._pause is not None:
                await self._pause.over()
            admitted = 0.0 if self._throttle is None else await self._throttle.admit()
            if self._pause is not None and self._pause.on:
                continue
            try:
                made, room = await self._reserved(request)
            except BudgetReachedError as reached:
                if reached.may_pass:
                    await (reached.stands or self._purse).given_back()
                elif self._reached is None or not await self._reached(reached):
                    raise
                continue
            if self._pause is None or not self._pause.on:
                return admitted, made, room
            self._give_back(room)

    async def _reserved(self, request: Request) -> tuple[Request, _Room]:
        """The request with an output limit that fits purse and account, and the room for it."""
        most_input = await self._most_input(request)
        wanted = request.max_output or min(self._info.max_output or USUAL_OUTPUT, LARGEST_OUTPUT)
        least = min(LEAST_OUTPUT, wanted)
        room, funds = self._purse.room(), self._purse.funds()
        output = max(fitted(self._info, most_input, wanted, room, funds), least)
        reservation = self._purse.reserve(self._charge(most_input, output))
        entry: Entry | None = None
        if self._account is not None:
            try:
                entry = await self._account.open(most_input, output, least)
            except BaseException:
                reservation.settle(Charge())
                raise
            output = entry.output
            reservation.narrow(self._charge(most_input, output))
        kept = _Room(reservation, entry)
        bounded = room is not None or funds is not None or (entry is not None and entry.bounded)
        if not bounded and request.max_output is None:
            return request, kept
        return replace(request, max_output=output), kept

    def _charge(self, most_input: int, output: int) -> Charge:
        cost = request_cost(Usage(input=most_input, output=output), self._info)
        return Charge(1, most_input + output, cost)

    async def _most_input(self, request: Request) -> int:
        """Tokens of the request at most. What the provider has counted once is known."""
        known, settings = self._counted, len(json.dumps(request.extra)) if request.extra else 0
        fresh, tools = request.messages, request.tools
        if known is not None and known.tools == tools:
            prefix = request.messages[: len(known.messages)]
            if prefix == known.messages:
                fresh, tools, settings = fresh[len(prefix) :], b"", settings + known.input
        if sum(map(len, fresh)) > BULK:
            return await asyncio.to_thread(most_tokens, fresh, tools) + settings
        return most_tokens(fresh, tools) + settings

    def _give_back(self, room: _Room) -> None:
        """The request took nothing."""
        room.reservation.settle(Charge())
        if self._account is not None and room.entry is not None:
            self._account.cancel(room.entry)

    def _settle(self, request: Request, room: _Room, usage: Usage, *, free: bool) -> None:
        """Note what became of a request."""
        reservation, entry, account = room.reservation, room.entry, self._account
        if free:
            self._give_back(room)
        elif usage.input is None or usage.output is None:
            self._tally.assume(reservation.most)
            reservation.settle(None)
            if account is not None and entry is not None:
                account.lose(entry)
        else:
            taken = max(usage.input, 0) + max(usage.output, 0)
            charge = Charge(1, taken, request_cost(usage, self._info))
            self._tally.count(usage, charge)
            reservation.settle(charge)
            if account is not None and entry is not None:
                account.close(entry, usage)
            # Beyond that ratio a count says more about the server than about the text.
            size = sum(map(len, request.messages)) + len(request.tools)
            least = int(size / LARGEST_RATIO)
            self._counted = _Counted(request.messages, request.tools, max(usage.input, least))
        self._told()


def is_free(error: ModelError) -> bool:
    """Whether a request that failed so was never worked on."""
    if isinstance(error, PausedError):
        return False
    if error.kind == "unreachable":
        return True
    return error.status is not None and error.status >= 300 and error.status not in PASSED_ON


def _merged(known: Usage, newer: Usage) -> Usage:
    """The newest count wins, field by field."""
    said = {name: value for name in Usage.__slots__ if (value := getattr(newer, name)) is not None}
    return replace(known, **said)

"""Metering of one session: its account, metered clients for models and services, and reached ceilings."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.core.event_data import Usage
from agent.errors import ModelError
from agent.model.catalog import ModelInfo
from agent.model.protocol import Delta, Frame, ModelClient, ModelRequest, ReplyEnd, UsageDelta
from agent.model.transport.waits import NoPause, NoThrottle, Pause, PausedError, Throttle
from agent.model.usage import LARGEST_RATIO, most_cost, request_cost
from agent.session.spending.answer_limit import fit_output
from agent.session.spending.budget import Budget, BudgetAccount, BudgetReachedError, Charge, Reservation
from agent.session.spending.request_log import RequestLog, request_log_of
from agent.session.spending.request_table import MAIN, SIDE, Payer
from tools.results import ToolError

if TYPE_CHECKING:
    from agent.core.config.schema import BudgetSettings
    from agent.model.transport.reply import ModelRoute
    from agent.session.spending.request_log import RequestEntry
    from agent.session.spending.spending import Spending


PER_MESSAGE = 16
"""The most tokens that a chat template adds to one message, and to the tools and the system prompt."""

PER_IMAGE = 4_000
"""The most tokens of one image, beyond its bytes: some providers count tiles."""

LEAST_OUTPUT = 256
"""The fewest output tokens for which a request is worth sending; below that, the budget counts as reached."""

USUAL_OUTPUT = 8_192
"""The output limit of a request within a budget, if neither settings nor catalog give one."""

LARGEST_OUTPUT = 16_384
"""The largest output limit of a request within a budget, unless settings give one: others need room too."""

Reached = Callable[[BudgetReachedError], Awaitable[bool]]
"""A function awaited at a reached ceiling; True means that the ceiling was raised, so retry."""

PASSED_ON = frozenset({408, 502, 504, 524})
"""HTTP statuses of a gateway that stopped waiting: the server behind it may still be writing the answer."""


@dataclass(slots=True)
class RequestTally:
    """The usage of one agent as counted by providers. `assumed` are tokens that no provider counted."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    assumed: int = 0
    cost: float | None = 0.0
    """US dollars, including those of assumed tokens; None if unknown."""
    is_own: bool = True
    """True if Hermes sent the requests. Of the requests of other programs, only what they report is known."""

    def leave_unknown(self) -> None:
        """Start to count for another program, whose usage is unknown until it reports it."""
        if self.is_own:
            self.is_own, self.cost = False, None

    def figures(self) -> dict[str, float | None]:
        """Return requests, tokens and cost, as shown to users and models; None stands for unknown."""
        requests = self.requests if self.is_own else None
        return {"requests": requests, "tokens": self.known_tokens, "cost": self.cost}

    @property
    def known_tokens(self) -> int | None:
        """The tokens; None if they are unknown."""
        return self.tokens if self.is_own or self.tokens else None

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
    """A request that the provider counted: `input` tokens for its head (tools and system) and frames."""

    head: bytes
    frames: tuple[Frame, ...]
    input: int


def most_tokens(frames: Sequence[Frame], *heads: bytes) -> int:
    """Return an upper bound for the tokens of frames (messages), tools and system prompt.

    It follows from the number of bytes, because each token has at least one byte; templates and images add
    more.
    """
    images = sum(frame.images for frame in frames)
    size = sum(map(len, frames)) + sum(map(len, heads))
    return size + PER_MESSAGE * (len(frames) + sum(map(bool, heads))) + PER_IMAGE * images


@dataclass(frozen=True, slots=True)
class _Room:
    """The room reserved for one request, in the accounts and in the request log."""

    reservation: Reservation
    entry: RequestEntry


class MeteredClient:
    """A `ModelClient` for one agent and one model, which `request_log.info` describes.

    Raises `BudgetReachedError` in addition to the errors of `client`. `told` is called after every request.
    `request_log` records requests permanently, and may have its own ceiling. `reached` may raise a ceiling
    that was reached.
    """

    def __init__(
        self,
        client: ModelClient,
        account: BudgetAccount,
        throttle: Throttle,
        pause: Pause,
        tally: RequestTally,
        told: Callable[[], None] = lambda: None,
        *,
        request_log: RequestLog,
        reached: Reached,
    ) -> None:
        self._client = client
        self._account = account
        self._info = request_log.info
        self._throttle = throttle
        self._pause = pause
        self._tally = tally
        self._told = told
        self._request_log = request_log
        self._reached = reached
        self._counted: _Counted | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Send a request as soon as pause, throttle and account allow it, and yield the answer."""
        admitted, request, room = await self._await_room(request)
        usage, begun, complete, free = Usage(), False, False, False
        deltas = aiter(self._client.stream(request))
        try:
            while (delta := await self._next(deltas)) is not None:
                begun = True
                if isinstance(delta, UsageDelta):
                    usage = usage.merge(delta.usage)
                elif isinstance(delta, ReplyEnd):
                    complete = True
                    self._throttle.record_answer()
                yield delta
        except ModelError as error:
            free = not begun and is_free(error)
            if error.kind == "rate_limit":
                self._throttle.record_refusal(admitted, error.retry_after)
            raise
        finally:
            # Settled first: closing may take a while, or be cancelled.
            self._settle(request, room, usage if complete else Usage(), free=free)
            close = getattr(deltas, "aclose", None)
            if close is not None:
                await close()

    async def aclose(self) -> None:
        """Do nothing, because the client belongs to the session and others use it too."""

    async def _next(self, deltas: AsyncIterator[Delta]) -> Delta | None:
        try:
            return await self._pause.next(deltas)
        except StopAsyncIteration:
            return None

    async def _await_room(self, request: ModelRequest) -> tuple[float, ModelRequest, _Room]:
        """Wait until the request may be sent; return the time it was admitted, the request to send, and its
        reserved room.
        """
        while True:
            await self._pause.over()
            admitted = await self._throttle.admit()
            if self._pause.on:
                continue
            try:
                made, room = await self._reserve_room(request)
            except BudgetReachedError as reached:
                if reached.may_pass:
                    await reached.stands.given_back()
                elif not await self._reached(reached):
                    raise
                continue
            if not self._pause.on:
                return admitted, made, room
            self._give_back(room)

    async def _reserve_room(self, request: ModelRequest) -> tuple[ModelRequest, _Room]:
        """Return the request, with its output limited to what fits if necessary, and the reserved room."""
        most_input = self._most_input(request)
        wanted = request.max_output or min(self._info.max_output or USUAL_OUTPUT, LARGEST_OUTPUT)
        least = min(LEAST_OUTPUT, wanted)
        room, funds = self._account.room(), self._account.funds()
        output = max(fit_output(self._info, most_input, wanted, room, funds), least)
        reservation = self._account.reserve(self._charge(most_input, output))
        try:
            entry = await self._request_log.open(most_input, output, least)
        except BaseException:
            reservation.settle(Charge())
            raise
        output = entry.output
        reservation.narrow(self._charge(most_input, output))
        kept = _Room(reservation, entry)
        bounded = room is not None or funds is not None or entry.bounded
        if not bounded and request.max_output is None:
            return request, kept
        return replace(request, max_output=output), kept

    def _charge(self, most_input: int, output: int) -> Charge:
        cost = most_cost(most_input, output, self._info)
        return Charge(1, most_input + output, cost)

    def _most_input(self, request: ModelRequest) -> int:
        """Return an upper bound of the request's tokens, exact for parts that the provider has counted."""
        known, settings = self._counted, _size_of_settings(request)
        fresh, heads = request.frames, (request.tools, request.system)
        if known is not None and known.head == b"".join(heads):
            prefix = request.frames[: len(known.frames)]
            if prefix == known.frames:
                fresh, heads, settings = fresh[len(prefix) :], (), settings + known.input
        return most_tokens(fresh, *heads) + settings

    def _give_back(self, room: _Room) -> None:
        """Release the reserved room of a request that used nothing."""
        room.reservation.settle(Charge())
        self._request_log.cancel(room.entry)

    def _settle(self, request: ModelRequest, room: _Room, usage: Usage, *, free: bool) -> None:
        """Record the usage of a request; if it is unknown, record the maximum."""
        reservation, entry, request_log = room.reservation, room.entry, self._request_log
        if free:
            self._give_back(room)
        elif usage.input is None or usage.output is None:
            self._tally.assume(reservation.most)
            reservation.settle(None)
            request_log.lose(entry)
        else:
            taken = max(usage.input, 0) + max(usage.output, 0)
            charge = Charge(1, taken, request_cost(usage, self._info))
            self._tally.count(usage, charge)
            reservation.settle(charge)
            request_log.close(entry, usage)
            # Beyond that ratio a count says more about the server than about the text.
            head = request.tools + request.system
            least = int((sum(map(len, request.frames)) + len(head)) / LARGEST_RATIO)
            self._counted = _Counted(head, request.frames, max(usage.input, least))
        self._told()


def _size_of_settings(request: ModelRequest) -> int:
    """Return the size, in characters, of the request's other fields that a model may read."""
    said = [each for each in (request.extra, request.reply_schema) if each]
    return sum(len(json.dumps(each)) for each in said)


def is_free(error: ModelError) -> bool:
    """Return whether a request that failed with this error was not processed, so that it costs nothing."""
    if isinstance(error, PausedError):
        return False
    if error.kind == "unreachable":
        return True
    return error.status is not None and error.status >= 300 and error.status not in PASSED_ON


Infos = Mapping[str, ModelInfo]
"""Model infos of a session, by route name."""


class Metering:
    """Meters every request of a session. By default they charge `account`.

    `agent` names the owner of the engine, as `Payer.agent` does. A surface may set `reached`, a coroutine
    function that is called with the error when a ceiling is reached. It may call `stands.raise_to(measure,
    value)` of the error, which raises the ceiling, and return True to retry the request.
    """

    def __init__(
        self,
        spending: Spending,
        account: BudgetAccount,
        session: str,
        project: str,
        infos: Infos,
        agent: str = MAIN,
    ) -> None:
        self.spending = spending
        self.account = account
        self.session = session
        self.reached: Reached = never_raised
        self._project = project
        self._infos = infos
        self._agent = agent

    def client(
        self,
        client: ModelClient,
        model: str,
        agent: str = "",
        *,
        account: BudgetAccount | None = None,
        throttle: Throttle | None = None,
        pause: Pause | None = None,
        tally: RequestTally | None = None,
        told: Callable[[], None] = lambda: None,
        reached: Reached | None = None,
    ) -> MeteredClient:
        """Return a metered client for a model and an agent; an empty `agent` means the engine's own.

        `model` is the name of its route. `reached` is called at a ceiling instead of the session's function.
        """
        info = self._infos.get(model) or self.spending.prices(model)
        payer = Payer(session=self.session, project=self._project, agent=agent or self._agent, model=model)
        return MeteredClient(
            client,
            account or self.account,
            throttle or NoThrottle(),
            pause or NoPause(),
            tally or RequestTally(),
            told,
            request_log=request_log_of(self.spending, payer, info),
            reached=reached or self._ask_raise,
        )

    def routes(self, routes: Sequence[ModelRoute]) -> list[ModelRoute]:
        """Return the routes of the engine's own agent, metered."""
        return [replace(route, client=self.client(route.client, route.name)) for route in routes]

    def side(self, client: ModelClient, model: str) -> MeteredClient:
        """Return a metered client for the side model, which gives a second opinion in the smart mode."""
        return self.client(client, model, SIDE, reached=never_raised)

    async def _ask_raise(self, error: BudgetReachedError) -> bool:
        return await self.reached(error)


async def never_raised(_reached: BudgetReachedError) -> bool:
    """Return False without asking: a second opinion is skipped, and the rules decide alone."""
    return False


def session_budget(settings: BudgetSettings) -> Budget:
    """Return the ceilings of a session from the settings."""
    limits = settings.session
    return Budget(turns=limits.turns, tokens=limits.tokens, money=limits.money)


def total_budget(settings: BudgetSettings) -> Budget:
    """Return the ceilings for all sessions and days of a Hermes home folder from the settings."""
    return Budget(tokens=settings.total.tokens, money=settings.total.money)


def day_budget(settings: BudgetSettings) -> Budget:
    """Return the ceilings of one day from the settings."""
    return Budget(tokens=settings.day.tokens, money=settings.day.money)


class ServiceAccount:
    """Pays for services from the account of a session. `log_of` returns the request log for a service and its
    price.
    """

    def __init__(self, account: BudgetAccount, log_of: Callable[[str, ModelInfo], RequestLog]) -> None:
        self._account = account
        self._log_of = log_of

    @asynccontextmanager
    async def paying(self, name: str, price: float | None) -> AsyncIterator[None]:
        """Pay `price` US dollars for a request to a service that is made in this context.

        A request that the service refuses is free. Raises `ToolError` if the request does not fit the budget.
        """
        # The log stores tokens and token prices: one token, which has the price.
        known = None if price is None else price * 1_000_000
        log = self._log_of(name, ModelInfo(input_price=known, output_price=None if price is None else 0.0))
        charge = Charge(1, 1, price)
        try:
            reservation = self._account.reserve(charge)
        except BudgetReachedError as error:
            raise ToolError(f"This is not paid for: {error}") from error
        try:
            entry = await log.open(1, 0, 0)
        except BudgetReachedError as error:
            reservation.settle(Charge())
            raise ToolError(f"This is not paid for: {error}") from error
        except BaseException:
            reservation.settle(Charge())
            raise
        try:
            yield
        except ToolError as error:
            refused = str(error.extra.get("status_code", "")).startswith("4")
            reservation.settle(Charge() if refused else charge)
            log.cancel(entry) if refused else log.lose(entry)
            raise
        except BaseException:
            reservation.settle(charge)
            log.lose(entry)
            raise
        reservation.settle(charge)
        log.close(entry, Usage(input=1, output=0))

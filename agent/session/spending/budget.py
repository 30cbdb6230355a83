"""The budget of an agent, and an account that never exceeds it.

Every agent has an account inside the account of the agent that started it. Before a request is sent, its
maximum cost is reserved in the whole chain of accounts. Afterwards the actual cost is charged and the rest
released. So no ceiling is ever exceeded, as long as providers respect the output limit of the request.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Protocol

from agent.core.event_data import Measure
from agent.errors import HermesError

NAMES: Mapping[Measure, str] = {
    "turns": "requests",
    "tokens": "tokens",
    "money": "US dollars",
    "seconds": "seconds",
}


@dataclass(frozen=True, slots=True)
class Budget:
    """The ceilings of one owner, by measure; None means no ceiling."""

    turns: int | None = None
    tokens: int | None = None
    money: float | None = None
    seconds: float | None = None

    def within(self, other: Budget) -> Budget:
        """Return a budget with the lower of both ceilings for every measure."""
        return Budget(
            *(
                min(
                    (each for each in (getattr(self, f.name), getattr(other, f.name)) if each is not None),
                    default=None,
                )
                for f in fields(self)
            )
        )


@dataclass(frozen=True, slots=True)
class Charge:
    """The amount that a request uses, or can use. `money` (US dollars) is None if the price is unknown."""

    turns: int = 0
    tokens: int = 0
    money: float | None = 0.0

    def __add__(self, other: Charge) -> Charge:
        unknown = self.money is None or other.money is None
        money = None if unknown else (self.money or 0.0) + (other.money or 0.0)
        return Charge(self.turns + other.turns, self.tokens + other.tokens, money)


class Ceiling(Protocol):
    """An object with ceilings that can be raised, such as an account."""

    @property
    def owner(self) -> str:
        """The owner, in words for the user."""
        ...

    @property
    def budget(self) -> Budget:
        """The ceilings in force."""
        ...

    def raise_to(self, measure: Measure, value: float) -> None:
        """Set the ceiling of a measure to a value."""
        ...

    async def given_back(self) -> None:
        """Wait until more room may have become free."""
        ...


class BudgetReachedError(HermesError):
    """Raised if a request was not sent because it would exceed a ceiling.

    `stands` is the object whose ceiling can be raised, `wanted` the most that the request may use, `setting`
    the setting that holds the ceiling, and `unpriced` the model without a known price, if that is the
    problem.
    """

    def __init__(
        self,
        stands: Ceiling,
        measure: Measure,
        ceiling: float,
        used: float,
        *,
        wanted: float = 0.0,
        unpriced: str | None = None,
        may_pass: bool = False,
        setting: str = "",
    ) -> None:
        owner = self.owner = stands.owner
        self.measure: Measure = measure
        self.ceiling = ceiling
        self.used = used
        self.wanted = wanted
        self.unpriced = unpriced is not None
        self.may_pass = may_pass
        """True if running requests may still release a part of what is reserved for them."""
        self.setting = setting
        self.stands = stands
        if unpriced is not None:
            sentence = (
                f"The budget of {owner} is ${ceiling:.4f}, but the price of {unpriced or 'the model'} is not "
                "known; give its prices under providers.*.models, or a budget in tokens."
            )
        else:
            sentence = _reached_text(owner, measure, ceiling, used, wanted)
            if setting:
                sentence += f" To continue, raise {setting}, for example with "
                sentence += f"`hermes config set {setting} {_example(measure, used + wanted, ceiling)}`."
        super().__init__(sentence)


def amount(measure: Measure, value: float) -> str:
    """Return an amount in words: `$1.50`, `2,000,000 tokens`. Pure."""
    if measure == "money":
        return f"${value:,.2f}" if value >= 0.01 or value == 0 else f"${value:.4f}"
    return f"{value:,.0f} {NAMES[measure]}"


def _reached_text(owner: str, measure: Measure, ceiling: float, used: float, wanted: float) -> str:
    if measure == "money":
        so_far = f"${used:.4f} of ${ceiling:.4f} are spent"
        more = f", and the next request may take ${wanted:.4f}"
    else:
        so_far = f"{used:,.0f} of {ceiling:,.0f} {NAMES[measure]} are used"
        more = f", and the next request may take {wanted:,.0f}"
    return f"The budget of {owner} is reached: {so_far}{more if wanted > 0 and used < ceiling else ''}."


def _example(measure: Measure, needed: float, ceiling: float) -> str:
    """Return, as an example for a message, a ceiling that leaves room for more requests."""
    value = 2 * max(needed, ceiling)
    return f"{value:.2f}" if measure == "money" and value >= 0.01 else f"{math.ceil(value)}"


class Reservation:
    """The room that is reserved for one request. Call `settle` once, even if the request fails."""

    def __init__(self, account: BudgetAccount, most: Charge) -> None:
        self._account = account
        self._most = most
        self._open = True

    @property
    def most(self) -> Charge:
        return self._most

    def narrow(self, most: Charge) -> None:
        """Reduce the reservation to `most`, which must not exceed the current one."""
        self._most = most

    def settle(self, actual: Charge | None) -> None:
        """Charge the actual cost and release what is left of the reservation.

        None means that the cost is unknown, so the maximum is charged.
        """
        if not self._open:
            return
        self._open = False
        for account in self._account.chain():
            account.release(self, self._most if actual is None else actual)


class BudgetAccount:
    """The account of `owner` and of all agents that it starts. For one event loop; `clock` returns seconds.

    `setting` is the settings section that holds the ceilings, or empty. Ceilings of the measures in `chosen`
    are not in the settings: they were chosen when the owner was started.
    """

    def __init__(
        self,
        owner: str,
        budget: Budget,
        parent: BudgetAccount | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        spent: Charge = Charge(),
        setting: str = "",
        chosen: frozenset[Measure] = frozenset(),
    ) -> None:
        self.owner = owner
        self._setting = setting
        self._chosen = chosen
        self.budget = budget
        self.parent = parent
        self.spent = spent
        """The amount charged so far."""
        self._held: set[Reservation] = set()
        self._waiters: list[asyncio.Future[None]] = []
        self._clock = clock
        self._began = clock()
        self._paused = 0.0

    def child(
        self, owner: str, budget: Budget, setting: str = "", chosen: frozenset[Measure] = frozenset()
    ) -> BudgetAccount:
        """Return a new account inside this one."""
        return BudgetAccount(owner, budget, self, clock=self._clock, setting=setting, chosen=chosen)

    def setting(self, measure: Measure) -> str:
        """Return the name of the setting with a measure's ceiling; empty if no setting holds it."""
        return f"{self._setting}.{measure}" if self._setting and measure not in self._chosen else ""

    def chain(self) -> Iterator[BudgetAccount]:
        """Yield this account and the accounts around it, innermost first."""
        account: BudgetAccount | None = self
        while account is not None:
            yield account
            account = account.parent

    def reserve(self, most: Charge) -> Reservation:
        """Reserve and return room for a request that uses at most `most`.

        If it does not fit, raises `BudgetReachedError` and reserves nothing.
        """
        for account in self.chain():
            account.check(most)
        reservation = Reservation(self, most)
        for account in self.chain():
            account.hold(reservation)
        return reservation

    def check(self, most: Charge) -> None:
        """Raise `BudgetReachedError` unless `most` fits this account alone."""
        used = self.total
        wanted = used + most
        ceilings: tuple[tuple[Measure, float | None, float | None, float], ...] = (
            ("turns", self.budget.turns, wanted.turns, used.turns),
            ("tokens", self.budget.tokens, wanted.tokens, used.tokens),
            # A money ceiling means nothing without a known price; then the request must not be unlimited.
            ("money", self.budget.money, wanted.money, used.money or 0.0),
            ("seconds", self.budget.seconds, self.seconds, self.seconds),
        )
        for measure, ceiling, amount, so_far in ceilings:
            if ceiling is None:
                continue
            if amount is None or (amount >= ceiling if measure == "seconds" else amount > ceiling):
                raise BudgetReachedError(
                    self,
                    measure,
                    ceiling,
                    so_far,
                    wanted=0.0 if amount is None else amount - so_far,
                    unpriced="" if amount is None else None,
                    may_pass=measure != "seconds" and amount is not None and bool(self._held),
                    setting=self.setting(measure),
                )

    def time_over(self) -> BudgetReachedError | None:
        """Return an error for the first account in the chain whose time is used up, or None."""
        for account in self.chain():
            ceiling, used = account.budget.seconds, account.seconds
            if ceiling is not None and used >= ceiling:
                setting = account.setting("seconds")
                return BudgetReachedError(account, "seconds", ceiling, used, setting=setting)
        return None

    def raise_to(self, measure: Measure, value: float) -> None:
        """Set a ceiling of this account. The accounts around it keep their ceilings."""
        self.budget = replace(self.budget, **{measure: value})
        self._wake()

    @property
    def total(self) -> Charge:
        """The amount spent, plus what is reserved by running requests."""
        return sum((each.most for each in self._held), self.spent)

    @property
    def free(self) -> int | None:
        """The tokens of this account that are neither spent nor reserved; None without a ceiling."""
        if self.budget.tokens is None:
            return None
        return max(0, self.budget.tokens - self.total.tokens)

    def room(self) -> int | None:
        """Return the free tokens in the whole chain; None if unlimited."""
        return min((free for account in self.chain() if (free := account.free) is not None), default=None)

    def funds(self) -> float | None:
        """Return the free US dollars in the whole chain; None if unlimited."""
        return min(
            (left for account in self.chain() if (left := account.money_left) is not None), default=None
        )

    @property
    def money_left(self) -> float | None:
        """The US dollars of this account that are neither spent nor reserved; None without a ceiling."""
        if self.budget.money is None:
            return None
        return max(0.0, self.budget.money - (self.total.money or 0.0))

    async def given_back(self) -> None:
        """Wait until a request in the outermost account has ended or its ceiling was raised."""
        *_, outermost = self.chain()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        outermost._waiters.append(waiter)
        await waiter

    def hold(self, reservation: Reservation) -> None:
        """Add a reservation to this account. Only `reserve` calls this."""
        self._held.add(reservation)

    def release(self, reservation: Reservation, actual: Charge) -> None:
        """Remove a reservation and add what was spent. Only `Reservation.settle` calls this."""
        self._held.discard(reservation)
        self.spent += actual
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    @property
    def seconds(self) -> float:
        """The seconds that the owner has worked, without waiting times."""
        return self._clock() - self._began - self._paused

    def time_left(self) -> float | None:
        """Return the seconds until a time ceiling of the chain is reached; None without a ceiling."""
        ceilings = ((account.budget.seconds, account.seconds) for account in self.chain())
        return min((ceiling - used for ceiling, used in ceilings if ceiling is not None), default=None)

    def exclude_time(self, seconds: float) -> None:
        """Exclude seconds that do not count as work: the user was asked, or the agent was paused."""
        self._paused += seconds

    def share(self) -> float | None:
        """Return the largest used share of this account's ceilings, 0 to 1; None without a ceiling."""
        parts = (
            (self.budget.turns, float(self.spent.turns)),
            (self.budget.tokens, float(self.spent.tokens)),
            (self.budget.money, self.spent.money or 0.0),
            (self.budget.seconds, self.seconds),
        )
        shares = [min(1.0, used / ceiling) for ceiling, used in parts if ceiling]
        return max(shares) if shares else None

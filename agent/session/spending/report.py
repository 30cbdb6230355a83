"""Reports of spending by day, model, project or agent; every grouping adds up to the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from agent.core.store.connection import Database
from agent.session.spending import request_table
from agent.session.spending.charges import cost_of
from agent.session.spending.prices import Prices
from agent.session.spending.request_table import MAIN, SENT, SIDE, Grouping, RequestSum

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class UsageLine:
    """What requests with `key` in common took. Tokens are as providers counted them."""

    key: str
    requests: int = 0
    input: int = 0
    cached: int = 0
    """Part of `input` that was served from the prompt cache."""
    output: int = 0
    cost: float = 0.0
    """US dollars of what was counted and has a price."""
    unpriced: int = 0
    """Requests whose price is not known; they are not in `cost`."""
    uncounted: int = 0
    """Requests that nobody counted: their answers broke off, or are still on their way."""
    assumed: int = 0
    """Tokens these took at most; they are not in `input` and `output`."""
    assumed_cost: float = 0.0
    """US dollars these took at most, as far as priced; not in `cost`."""

    def __add__(self, other: UsageLine) -> UsageLine:
        numbers = [each.name for each in fields(self) if each.name != "key"]
        return UsageLine(self.key, *(getattr(self, name) + getattr(other, name) for name in numbers))

    @property
    def tokens(self) -> int:
        """Everything, of what was not counted the most it can be."""
        return self.input + self.output + self.assumed

    def to_json(self) -> dict[str, Any]:
        """The line as an object; `cost` is None where no request has a known price."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {"cost": None if self.unpriced == self.requests > 0 else self.cost}


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Lines of one grouping, and their sum."""

    by: Grouping
    since: str
    """The first day, empty for all there ever were."""
    lines: tuple[UsageLine, ...]
    total: UsageLine


async def report(
    database: Database, prices: Prices, by: Grouping, *, days: int | None, now: float, session: str = ""
) -> UsageReport:
    """What the last `days` days took, today included; None: all of them. Raises `StoreError`."""
    since = "" if days is None else request_table.days_from(request_table.local_day(now), 1 - days)
    sums = await database.read(
        lambda connection: request_table.sums(connection, by, since=since, session=session)
    )
    lines = folded(sums, prices)
    ordered = sorted(lines.values(), key=lambda line: line.key)
    if by != "day":
        ordered.sort(key=lambda line: (line.cost + line.assumed_cost, line.tokens), reverse=True)
    return UsageReport(by, since, tuple(ordered), sum(ordered, UsageLine("total")))


def folded(sums: Iterable[RequestSum], prices: Prices) -> Mapping[str, UsageLine]:
    """Sums that have a key in common as one line. Pure."""
    lines: dict[str, UsageLine] = {}
    for each in sums:
        lines[each.key] = lines.get(each.key, UsageLine(each.key)) + line_of(each, prices)
    return lines


def line_of(each: RequestSum, prices: Prices) -> UsageLine:
    """One sum as a line. Pure."""
    cost = cost_of(each, prices)
    unpriced = each.requests if cost is None else 0
    if each.counted:
        counts = (each.input, each.cached, each.output, cost or 0.0, unpriced)
        return UsageLine(each.key, each.requests, *counts)
    return UsageLine(
        each.key,
        each.requests,
        unpriced=unpriced,
        uncounted=each.requests,
        assumed=each.input + each.output,
        assumed_cost=cost or 0.0,
    )


def title(by: Grouping, key: str) -> str:
    """What a key of a line means, for a person. It may come from outside. Pure."""
    match by:
        case "agent":
            named = {MAIN: "main agent", SIDE: "side model", SENT: "agents without a name"}
            return named.get(key) or f"agent {key.removeprefix(SENT)}"
        case "project":
            return key or "(deleted sessions)"
        case "model":
            return key or "(unknown model)"
        case _:
            return key

"""Tokens and money used in a session, and estimates of the tokens of a text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from agent.core.event_data import Usage
from agent.model.catalog import UNKNOWN, ModelInfo

TYPICAL_RATIO = 4.0
"""The assumed characters per token before a provider has counted any."""

LEAST_RATIO, LARGEST_RATIO = 1.5, 8.0
"""Limits of plausible ratios: beyond them, a count says more about the server than about the text."""

SMALLEST_WINDOW = 1_000
"""The smallest number from a provider that is taken for a context window."""

_PER_MILLION = 1_000_000


def request_cost(usage: Usage, info: ModelInfo) -> float | None:
    """Return the cost of one request in US dollars; None if a necessary count or price is unknown.

    A cost reported by the server takes precedence over the prices.
    """
    if usage.cost is not None:
        return usage.cost
    if usage.input is None or usage.output is None:
        return None
    whole = max(usage.input, 0)
    cached = min(max(usage.cached or 0, 0), whole)
    written = min(max(usage.written or 0, 0), whole - cached)
    parts = (
        (whole - cached - written, info.input_price),
        (cached, info.cached_price),
        (written, info.input_price if info.written_price is None else info.written_price),
        (max(usage.output, 0), info.output_price),
    )
    total = 0.0
    for tokens, price in parts:
        if tokens and price is None:
            return None
        total += tokens * (price or 0.0)
    if info.input_price is None and info.output_price is None:
        return None
    return total / _PER_MILLION


def most_cost(most_input: int, output: int, info: ModelInfo) -> float | None:
    """Return the highest possible cost of a request in US dollars; None if a price is unknown.

    All input may be written to the cache, which can cost more.
    """
    dearer = info.written_price is not None and info.written_price > (info.input_price or 0.0)
    return request_cost(Usage(input=most_input, output=output, written=most_input if dearer else None), info)


COUNTS = ("input", "output", "cached", "reasoning", "written", "cost")


def usage_record(usage: Usage) -> dict[str, int | float | None]:
    """Return `usage` in the form stored with a message; None stands for unknown."""
    return {name: getattr(usage, name) for name in COUNTS}


class Meter:
    """Adds up the usage of the requests of one session.

    `info` describes the first model. `routes` describes all models by route name, because fallbacks have
    other prices.
    """

    def __init__(self, info: ModelInfo = UNKNOWN, routes: Mapping[str, ModelInfo] | None = None) -> None:
        self._info = info
        self._routes = routes
        self._others: dict[str, ModelInfo] = {}
        self._aside: list[tuple[str, Usage]] = []
        self._input = 0
        self._output = 0
        self._cached = 0
        self._requests = 0
        self._cost: float | None = 0.0
        self._ratio = TYPICAL_RATIO

    @property
    def window(self) -> int | None:
        """The first model's context window in tokens; None if unknown."""
        return self._info.context_window

    @property
    def window_told(self) -> bool:
        """True if the server itself reported the window."""
        return "context_window" in self._info.told

    def learn_window(self, tokens: int) -> None:
        """Set the window that a provider named, unless it is implausible or a smaller one is known."""
        if tokens >= SMALLEST_WINDOW and (self.window is None or tokens < self.window):
            self.renew(replace(self._info, context_window=tokens, told=self._info.told | {"context_window"}))

    def forget_window(self, tokens: int | None) -> None:
        """Drop the window that a provider named, and use `tokens` instead; None if it is unknown."""
        told = self._info.told - {"context_window"}
        self.renew(replace(self._info, context_window=tokens, told=told))

    def learn_model(self, route: str, info: ModelInfo) -> None:
        """Add the facts about a model that a gateway used for an answer."""
        self._others[route] = info

    def renew(self, info: ModelInfo) -> None:
        """Replace the facts about the first model."""
        self._info = info

    @property
    def ratio(self) -> float:
        """The number of characters per token, derived from the provider's last count."""
        return self._ratio

    def add(self, usage: Usage, size: int, route: str = "") -> None:
        """Add the usage of a request. `size` is that of its messages and tools, in characters or bytes."""
        self._requests += 1
        self._input += max(usage.input or 0, 0)
        self._output += max(usage.output or 0, 0)
        self._cached += max(usage.cached or 0, 0)
        info = self._info if self._routes is None else self._routes.get(route, UNKNOWN)
        info = self._others.get(route, info)
        cost = request_cost(usage, info)
        self._cost = None if cost is None or self._cost is None else self._cost + cost
        if usage.input and usage.input > 0 and size > 0:
            self._ratio = min(max(size / usage.input, LEAST_RATIO), LARGEST_RATIO)

    def add_aside(self, usage: Usage, route: str) -> None:
        """Add the usage of a request to a side model, which is not part of the conversation."""
        self.add(usage, 0, route)
        self._aside.append((route, usage))

    def take_aside(self) -> list[dict[str, Any]]:
        """Return the usage added by `add_aside` since the last call, to be stored with the next message."""
        taken, self._aside = self._aside, []
        return [{"model": route, "usage": usage_record(usage)} for route, usage in taken]

    def add_past(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Add the usage stored with messages of a resumed session (`model`, `usage`, `aside`)."""
        for message in messages:
            aside = message.get("aside")
            for each in (message, *(aside if isinstance(aside, list) else ())):
                used = each.get("usage")
                if isinstance(used, dict):
                    self.add(
                        Usage(**{name: used.get(name) for name in COUNTS}), 0, str(each.get("model", ""))
                    )

    def estimate(self, size: int) -> int:
        """Return the estimated tokens of a text of `size`, in the unit that `add` is given."""
        return math.ceil(max(size, 0) / self._ratio)

    def characters(self, tokens: int) -> int:
        """Return the largest size of a text of at most `tokens` tokens: the inverse of `estimate`."""
        tokens = max(tokens, 0)
        size = int(tokens * self._ratio)
        # The product is rounded, and may be just above the intended size.
        return size - 1 if self.estimate(size) > tokens else size

    def totals(self) -> dict[str, int | float | None]:
        """Return the totals of `requests`, `input`, `output` and `cached` tokens, and `cost` in US dollars or
        None.
        """
        return {
            "requests": self._requests,
            "input": self._input,
            "output": self._output,
            "cached": self._cached,
            "cost": self._cost,
        }

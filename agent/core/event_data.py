"""Values carried by events, and the user's replies to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that changed. `path` is relative to the workspace, with `/`; `diff` may be shortened."""

    path: str
    kind: Literal["added", "modified", "removed"]
    added: int = 0
    """The number of added lines; 0 also if the lines were not counted."""
    removed: int = 0
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """The user's decision on an action. `feedback` is passed to the model after a denial."""

    choice: Literal["once", "session", "always", "deny", "expired", "cancelled"]
    feedback: str = ""
    by: str = ""
    """A description of the user and program that decided; empty for the user at the terminal."""


@dataclass(frozen=True, slots=True)
class Room:
    """The amount left under one limit on usage, in the unit of `measure`."""

    owner: str
    """A description of who set the limit or what it applies to."""
    measure: Measure
    left: float
    ceiling: float


@dataclass(frozen=True, slots=True)
class CeilingReply:
    """The user's answer to a reached usage limit. `ceiling` is the new limit if it was raised."""

    outcome: Literal["raised", "stopped", "expired", "cancelled"]
    ceiling: float = 0.0
    by: str = ""
    """As in `Decision`."""


@dataclass(frozen=True, slots=True)
class FormReply:
    """The user's answer to a form. `values` holds the filled-in fields by name."""

    outcome: Literal["answered", "declined", "expired", "cancelled"]
    values: Mapping[str, Any] = field(default_factory=dict)


Measure = Literal["turns", "tokens", "money", "seconds"]
"""The kinds of usage that are limited. `turns` are requests to a model; `money` is in US dollars."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one request as counted by the provider. `None` means that a count was not reported."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    """The part of `input` that was served from the prompt cache."""
    reasoning: int | None = None
    """The part of `output` that was spent on reasoning."""
    written: int | None = None
    """The part of `input` that was written to the prompt cache, if that is charged for."""
    cost: float | None = None
    """The price of the request in US dollars, if reported by the server."""

    def merge(self, newer: Usage) -> Usage:
        """Return the combined counts of two reports on one request; for each field the newer report counts.

        A zero does not replace a count: some servers count the input only first, some only last.
        """
        said = {
            name: value
            for name in Usage.__slots__
            if (value := getattr(newer, name)) or getattr(self, name) is None
        }
        return replace(self, **said)


VerdictKind = Literal["allow", "ask", "deny", "hardline"]
"""The kinds of verdict; `hardline` is a refusal that no mode and no user can override."""


@dataclass(frozen=True, slots=True)
class VerdictPart:
    """The verdict on one command of a shell line, or on one file it writes."""

    text: str
    """The part as it would run: quotes and wrappers are resolved as far as possible."""
    kind: VerdictKind
    reason: str
    """A clause for display, such as `pushes to a remote`."""
    network: bool = False
    """True if the command is known to use the network."""


@dataclass(frozen=True, slots=True)
class ForecastSpan:
    """The range between a low and a high estimate."""

    low: float
    high: float

    def __add__(self, other: ForecastSpan) -> ForecastSpan:
        return ForecastSpan(self.low + other.low, self.high + other.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The expected total usage of several agents; it does not exceed their ceilings."""

    models: tuple[tuple[str, int], ...]
    """Each model with the number of agents that use it, in the order in which the agents are started."""
    goals: tuple[str, ...]
    tokens: ForecastSpan
    money: ForecastSpan | None
    """US dollars; None if the price of a model is not known."""
    left: int | None = None
    """The tokens that the usage limits leave for all agents together; None without a limit."""
    from_past: int = 0
    """The number of finished agents on which the estimate is based."""
    single: bool = False
    """True if each agent makes one request."""

    @property
    def agents(self) -> int:
        return len(self.goals)

"""Values carried by events, and the person's replies to them."""

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
    """Lines, as far as they were counted."""
    removed: int = 0
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision on an action. `feedback` is for the model after a denial."""

    choice: Literal["once", "session", "always", "deny", "expired", "cancelled"]
    feedback: str = ""
    by: str = ""
    """The person and surface that decided, in words; empty for the person at the terminal."""


@dataclass(frozen=True, slots=True)
class Room:
    """The amount that a ceiling leaves, in the unit of its measure."""

    owner: str
    """The owner of the ceiling, in words."""
    measure: Measure
    left: float
    ceiling: float


@dataclass(frozen=True, slots=True)
class CeilingReply:
    """A person's answer about a reached ceiling. `ceiling` is the new one, if it was raised."""

    outcome: Literal["raised", "stopped", "expired", "cancelled"]
    ceiling: float = 0.0
    by: str = ""
    """As in `Decision`."""


@dataclass(frozen=True, slots=True)
class FormReply:
    """A person's answer to a form. `values` holds the filled-in fields by name."""

    outcome: Literal["answered", "declined", "expired", "cancelled"]
    values: Mapping[str, Any] = field(default_factory=dict)


Measure = Literal["turns", "tokens", "money", "seconds"]
"""`turns` are requests to a model; `money` is in US dollars."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one request as counted by the provider. `None` means that it did not report them."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    """Part of `input` that was served from the prompt cache."""
    reasoning: int | None = None
    """Part of `output` that was spent on reasoning."""
    written: int | None = None
    """Part of `input` that was written to the prompt cache, if that is charged for."""
    cost: float | None = None
    """US dollars of the request, if reported by the server."""

    def merge(self, newer: Usage) -> Usage:
        """Return the counts of both reports on one request; a newer one wins, field by field.

        A zero takes nothing back: some servers count the input only first, some only last.
        """
        said = {
            name: value
            for name in Usage.__slots__
            if (value := getattr(newer, name)) or getattr(self, name) is None
        }
        return replace(self, **said)


VerdictKind = Literal["allow", "ask", "deny", "hardline"]
"""`hardline` is a refusal that no mode and no person can override."""


@dataclass(frozen=True, slots=True)
class VerdictPart:
    """The verdict on one command of a shell line, or on one file it writes."""

    text: str
    """The part as it would run: quotes and wrappers resolved as far as they are known."""
    kind: VerdictKind
    reason: str
    """One clause for a person, such as `pushes to a remote`."""
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
    """The expected usage of several agents in total, limited only by their ceilings."""

    models: tuple[tuple[str, int], ...]
    """Each model with the number of agents that use it, in the order in which they are sent."""
    goals: tuple[str, ...]
    tokens: ForecastSpan
    money: ForecastSpan | None
    """US dollars; None if the price of a model is not known."""
    left: int | None = None
    """Tokens that the ceilings leave for all agents together; None without a ceiling."""
    from_past: int = 0
    """The number of ended agents from which it was estimated."""
    single: bool = False
    """True if each agent makes one request."""

    @property
    def agents(self) -> int:
        return len(self.goals)

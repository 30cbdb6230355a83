"""Values that events carry, and the replies a person gives to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from agent.spending.budget import Measure


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
    """A person's verdict on an action. `feedback` goes to the model with a denial."""

    choice: Literal["once", "session", "always", "deny", "expired", "cancelled"]
    feedback: str = ""
    by: str = ""
    """Who said so and from where, in words; empty for the person at the terminal."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a ceiling leaves, in its measure."""

    owner: str
    """Whose ceiling it is, in words."""
    measure: Measure
    left: float
    ceiling: float


@dataclass(frozen=True, slots=True)
class CeilingReply:
    """A person's answer where a ceiling stands in the way. `ceiling` is the new one, if it was raised."""

    outcome: Literal["raised", "stopped", "expired", "cancelled"]
    ceiling: float = 0.0
    by: str = ""
    """As in `Decision`."""


@dataclass(frozen=True, slots=True)
class FormReply:
    """A person's answer to a form. `values` by name of the field, of those that were filled in."""

    outcome: Literal["answered", "declined", "expired", "cancelled"]
    values: Mapping[str, Any] = field(default_factory=dict)

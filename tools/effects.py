"""Kinds of effects that tools declare, with what the permission check must know about each.

A tool with an effect that no action of `tools.services.actions` covers defines an action in its own file,
with an `Effect`. Rules, modes, grants, the question to the user and the record of files use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What the permission check knows about a kind of effect. Its functions are pure and take the action."""

    name: str
    """Its name in rules, as in `deploy(production)`."""
    why: str
    """Why the user may want to be asked, as a clause for the question."""
    subject: Callable[[Any], str] | None = None
    """The text compared with rule patterns, parts separated by `/`; None: no patterns."""
    default: Literal["ask", "allow"] = "ask"
    """The decision in the mode `normal` without a rule. The mode `careful` always asks."""
    is_looking: bool = False
    """Whether it only reads, so that the mode `plan` allows it."""
    runs_programs: bool = False
    """Whether it may change any file unnoticed, so that the whole workspace is checked before and after."""
    lasting: Callable[[Any], str] | None = None
    """A permanent permission in words, such as `deploy exactly this`; None: only one-time permission."""
    covers: Callable[[Any], tuple[str, ...]] | None = None
    """What such a permission covers; None: exactly this action."""
    is_unclear: Callable[[Any], bool] | None = None
    """Whether an action does not say what it does, so that any rule that denies may be about it."""
    example: Callable[[str], Any] | None = None
    """Returns the action for a rule's example; None: rules about it have no examples."""


_declared: dict[str, Effect] = {}


def declare_effect(effect: Effect) -> Effect:
    """Register an effect for rules. Raises `ValueError` if another one has the name."""
    known = _declared.setdefault(effect.name, effect)
    if known is not effect:
        raise ValueError(f"there is an effect named {effect.name} already; choose another name")
    return effect


def forget_effect(name: str) -> None:
    """Remove an effect; an unknown name is not an error."""
    _declared.pop(name, None)


def effect_named(name: str) -> Effect | None:
    """Return the effect with this name in rules; None if there is none."""
    return _declared.get(name)


def effect_names() -> frozenset[str]:
    """Return the names of the declared effects."""
    return frozenset(_declared)

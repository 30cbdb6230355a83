"""Kinds of effects that tools declare, with what the gate must know of each.

A tool with an effect that no action of `tools.services.actions` covers defines an action in its own file,
with an `Effect`. Rules, modes, grants, the question to the user and the record of files use it.

A tool with an effect that no action of `tools.services.actions` stands for brings an action of its own, in
its own file, with an `Effect`. Rules, modes, grants, the card of the question and the record of files take
what they need from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What the gate knows of one kind of effect. Functions are pure and get the action."""

    name: str
    """What rules call it, as in `deploy(production)`."""
    why: str
    """Why a person may want to be asked, as a clause for the card."""
    subject: Callable[[Any], str] | None = None
    """What patterns of rules are compared with, parts separated by `/`; None: it is only meant as a whole."""
    default: Literal["ask", "allow"] = "ask"
    """What `normal` says when no rule does. `careful` asks in any case."""
    is_looking: bool = False
    """Whether it only looks, so that `plan` lets it through."""
    runs_programs: bool = False
    """Whether any file may change by it unseen, so that the whole workspace is looked at before and after."""
    lasting: Callable[[Any], str] | None = None
    """A yes for more than once in words, as `deploy exactly this`; None: a yes is only ever given once."""
    covers: Callable[[Any], tuple[str, ...]] | None = None
    """What such a yes covers; None: exactly this action."""
    example: Callable[[str], Any] | None = None
    """The action that an example of a rule stands for; None: rules about it have no examples."""


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

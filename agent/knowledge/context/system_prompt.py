"""The system prompt: pure text from what is known when a session begins, layer by layer.

Nothing in it changes while the session lasts, so the provider can cache it: the
date has no time, and tools that are not on offer are not named.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from agent.knowledge.context.fitting import fitted
from agent.knowledge.context.layer import Facts, Layer, Part
from tools.parts import PartKind

log = logging.getLogger(__name__)

LAYERS = PartKind("layers", "agent.knowledge.context.layers")


def system_prompt(facts: Facts) -> tuple[Part, ...]:
    """The prompt of a session, in order and within its budgets; `joined` makes one text of it.

    Imports the layers.
    """
    parts = [replace(part, layer=layer.name) for layer in layers() for part in layer.parts(facts)]
    return fitted(parts, facts.budgets, facts.whole)


def layers() -> list[Layer]:
    """All layers in their order; one that cannot be loaded is logged and left out."""
    found: list[Layer] = [module.LAYER for module in LAYERS.load_all()[0]]
    return sorted(found, key=lambda layer: layer.place)


def joined(parts: Sequence[Part]) -> str:
    """The parts as the one text the model gets."""
    return "\n\n".join(part.text for part in parts)

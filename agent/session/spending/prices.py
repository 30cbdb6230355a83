"""Prices of models by the names under which they were asked, as settings and catalog give them now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from agent.model.addresses import is_loopback
from agent.model.catalog import FREE, UNKNOWN, ModelInfo, lookup
from agent.model.providers import address_of, seller

if TYPE_CHECKING:
    from agent.core.config.schema import Settings

Prices = Callable[[str], ModelInfo]

OWN = frozenset({"local", "demo"})
"""Models that run inside Hermes."""


def prices_of(settings: Settings, environ: Mapping[str, str]) -> Prices:
    """What is known of a model by its label, such as `openrouter/z-ai/glm-5`. No key is needed for that."""

    @cache
    def info(label: str) -> ModelInfo:
        if label in OWN:
            return FREE
        provider, _, model = label.partition("/")
        own = settings.providers.get(provider)
        address = address_of(settings, environ, provider)
        # What a server on this machine really offers depends on how it was started.
        local = not address or is_loopback(address)
        known = None if local else lookup(model, seller(address))
        return (known or UNKNOWN).overridden(own.models.get(model) if own else None)

    return info

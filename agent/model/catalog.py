"""Offline facts about models: windows, limits, prices. Unknown is None, never zero.

The table (`catalog.json`) holds only well-known families. Prices are US dollars
per million tokens as published by the provider (state of July 2026) and count
only where the model is bought there; prices that depend on the size of the
request are left out. `providers.*.models` in config.yaml overrides everything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.core.config.schema import ModelInfoSettings as ModelSettings
    from agent.model.protocol import ToolMode


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """What is known about one model. The fields mean what they mean in `providers.*.models`."""

    context_window: int | None = None
    """Tokens the model can read and write in all."""
    max_output: int | None = None
    """Tokens of one reply."""
    input_price: float | None = None
    """US dollars per million tokens, like the other prices."""
    output_price: float | None = None
    cached_price: float | None = None
    """Price of input that comes from the prompt cache."""
    written_price: float | None = None
    """Price of input that is written to the prompt cache; None: that of other input."""
    format: str | None = None
    """Name of the wire format; None: that of the provider."""
    tool_mode: ToolMode | None = None
    images: bool | None = None
    """Whether the model reads images; None: unknown, so they are sent."""
    told: frozenset[str] = frozenset()
    """Names of the fields above that the server itself told."""

    def overridden(self, settings: ModelSettings | None) -> ModelInfo:
        """This, with what the settings say in its place."""
        if settings is None:
            return self
        values = {field.name: getattr(settings, field.name, None) for field in fields(self)}
        return replace(self, **{name: value for name, value in values.items() if value is not None})


_FILE = Path(__file__).with_name("catalog.json")

UNKNOWN = ModelInfo()

FREE = ModelInfo(input_price=0.0, output_price=0.0, cached_price=0.0, images=False)
"""A model that runs inside Hermes."""

_DATE = re.compile(r"[-@](?:20\d{2}-?(?:0[1-9]|1[0-2])-?[0-3]\d|latest|preview)$")


def lookup(model: str, provider: str = "") -> ModelInfo | None:
    """What the table knows about `model`, with its prices if `provider` sells it at them; None if nothing."""
    name, variant = normalise(model)
    row = next((row for row in _table() if any(fnmatchcase(name, pattern) for pattern in row["match"])), None)
    if row is None:
        return None
    sold = provider in row.get("price_at", ()) and not variant
    prices = (*(row["price"] if sold else ()), None, None, None, None)
    return ModelInfo(
        context_window=row.get("context_window"),
        max_output=row.get("max_output"),
        input_price=prices[0],
        output_price=prices[1],
        cached_price=prices[2],
        written_price=prices[3],
        images=row.get("images"),
    )


def normalise(model: str) -> tuple[str, str]:
    """The name of a model without vendor, date and spelling, and its variant (such as `free`)."""
    name, _, variant = model.strip().lower().rsplit("/", 1)[-1].partition(":")
    name = name.replace(".", "-").replace("_", "-")
    while dated := _DATE.search(name):
        name = name[: dated.start()]
    return name, variant


@cache
def _table() -> tuple[Mapping[str, Any], ...]:
    return tuple(json.loads(_FILE.read_text(encoding="utf-8"))["models"])

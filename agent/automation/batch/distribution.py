"""Toolset distributions: with which chance each toolset is on offer to a task, drawn by its name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from agent.errors import ConfigError

Distribution = Mapping[str, float]
"""Toolsets or tools, each with its chance in percent."""


def distribution_of(given: object) -> dict[str, float]:
    """A distribution from a mapping, or from text such as `file=100,web=60`.

    Raises `ConfigError` with a clause about what is wrong.
    """
    if isinstance(given, str):
        pairs = [each.partition("=") for each in given.split(",") if each.strip()]
        given = {name.strip(): _number(chance) for name, _, chance in pairs}
    if not isinstance(given, Mapping):
        raise ConfigError("`distribution` is a mapping of toolsets to percent, such as {file: 100, web: 60}")
    chances: dict[str, float] = {}
    for name, chance in given.items():
        if not isinstance(name, str) or not name.strip():
            raise ConfigError("`distribution` has a chance without a toolset")
        if isinstance(chance, bool) or not isinstance(chance, int | float) or not 0 < chance <= 100:
            raise ConfigError(f"`distribution`: the chance of {name!r} has to be above 0 and at most 100")
        chances[name.strip()] = float(chance)
    return chances


def drawn(distribution: Distribution, name: str) -> tuple[str, ...]:
    """The toolsets on offer to the task `name`, the same in every run. By chance none: the likeliest one."""
    found = tuple(toolset for toolset, chance in distribution.items() if _point(name, toolset) < chance)
    if found or not distribution:
        return found
    return (max(distribution, key=lambda toolset: distribution[toolset]),)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _point(name: str, toolset: str) -> float:
    """A number from 0 to below 100 that looks random and is the same in every process."""
    digest = hashlib.sha256(f"{name}\0{toolset}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") * 100 / (1 << 48)

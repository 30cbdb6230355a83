"""The platforms there are, found by the names of their files."""

from __future__ import annotations

from importlib.util import find_spec

from agent.errors import ConfigError
from agent.integrations.gateways.adapter import Adapter, GatewayContext, GatewayKind, PlatformLimits
from tools.extras import missing as needs_extra
from tools.parts import PartKind

PLATFORMS = PartKind("gateways", "agent.integrations.gateways.platforms")


def gateway_kinds() -> dict[str, GatewayKind]:
    """All of them by name. Imports their modules, none of their libraries."""
    found = (PLATFORMS.load(each).GATEWAY for each in PLATFORMS.files())
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}


def gateway_kind(name: str) -> GatewayKind:
    """One of them. Raises `ConfigError`."""
    kinds = gateway_kinds()
    if name not in kinds:
        raise ConfigError(f"There is no gateway {name[:40]!r}; there are {', '.join(kinds)}.")
    return kinds[name]


def limits_of(name: str) -> PlatformLimits:
    """What a platform allows, without an adapter of it. Raises `ConfigError`."""
    for each in PLATFORMS.files():
        if each.name == name:
            limits: PlatformLimits = PLATFORMS.load(each).LIMITS
            return limits
    raise ConfigError(f"There is no gateway {name[:40]!r}; there are {', '.join(gateway_kinds())}.")


def make_adapter(kind: GatewayKind, context: GatewayContext) -> Adapter:
    """An adapter that is ready to run. Blocking. Raises `ConfigError`, `BadCredentialsError`."""
    if kind.module and find_spec(kind.module) is None:
        raise ConfigError(needs_extra(kind.title, kind.extra))
    return kind.make(context)

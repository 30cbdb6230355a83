"""Hooks: what the settings declare, and what the person agreed to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.config.declared_hooks import hooks_of as hooks_of
    from agent.hooks.consent import HookConsent as HookConsent
    from agent.hooks.declared import Hook as Hook

__getattr__ = exports(
    __name__,
    {
        "agent.hooks.consent": "HookConsent",
        "agent.hooks.declared": "Hook",
        "agent.config.declared_hooks": "hooks_of",
    },
)

"""Hooks: what the settings declare, and what the person agreed to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.core.config.declared_hooks import hooks_of as hooks_of
    from agent.core.config.hook_list import Hook as Hook
    from agent.integrations.hooks.consent import HookConsent as HookConsent

__getattr__ = exports(
    __name__,
    {
        "agent.integrations.hooks.consent": "HookConsent",
        "agent.core.config.hook_list": "Hook",
        "agent.core.config.declared_hooks": "hooks_of",
    },
)

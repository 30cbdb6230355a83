"""Hooks of plugins among those of the person: asked in the plugin's process, never in ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.core.config.hook_list import Hook, HookAnswer, HookError, HookEvent, answer_of, parse_answer
from agent.integrations.plugins.deadlines import HOOK
from agent.integrations.plugins.problem import PluginFailedError
from agent.integrations.plugins.runner import PluginRunner
from tools.text.words import brief


@dataclass(frozen=True, slots=True)
class HandlerHook:
    """The handlers of a plugin for one event."""

    runner: PluginRunner
    event: HookEvent
    required: bool = False

    @property
    def title(self) -> str:
        return f"plugin {self.runner.name}"

    @property
    def digest(self) -> str:
        """What tells it apart from other hooks."""
        return f"plugin {self.runner.name} {self.event}"

    def hears_of(self, tool: str) -> bool:
        """Whether it is meant for calls of a tool: its handler decides that itself."""
        return True

    async def answer(self, payload: Mapping[str, Any]) -> HookAnswer:
        """Ask it. Raises `HookError`."""
        try:
            said = await self.runner.ask("hook", self.event, dict(payload), HOOK)
        except PluginFailedError as error:
            raise HookError(str(error).rstrip(".")) from error
        return HookAnswer() if said is None else answer_of(said)


@dataclass(frozen=True, slots=True)
class CommandHook:
    """A command of a plugin's `hooks.yaml`, run behind the boundary of the plugin."""

    runner: PluginRunner
    hook: Hook

    @property
    def event(self) -> HookEvent:
        return self.hook.event

    @property
    def required(self) -> bool:
        return self.hook.required

    @property
    def title(self) -> str:
        return f"plugin {self.runner.name}: {self.hook.command}"

    @property
    def digest(self) -> str:
        """What tells it apart from other hooks."""
        return f"plugin {self.runner.name} {self.hook.digest}"

    def hears_of(self, tool: str) -> bool:
        """Whether it is meant for calls of a tool."""
        return self.hook.hears_of(tool)

    async def answer(self, payload: Mapping[str, Any]) -> HookAnswer:
        """Run it. Raises `HookError`."""
        try:
            said = await self.runner.shell(self.hook, payload)
        except PluginFailedError as error:
            raise HookError(str(error).rstrip(".")) from error
        if said.get("code") != 0:
            words = brief(said.get("errors", ""), 300)
            raise HookError(f"it ended with code {said.get('code')}" + (f" ({words})" if words else ""))
        return parse_answer(str(said.get("output", "")).encode("utf-8", "replace"))

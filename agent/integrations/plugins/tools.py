"""Tools of plugins in the registry of a session: judged as `plugin(name/tool)`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from agent.integrations.plugins.problem import PluginFailedError
from agent.integrations.plugins.registrations import RegisteredTool, cleaned
from agent.integrations.plugins.runner import PluginRunner
from tools.context import ToolContext
from tools.registry import Describe, Handler, Registry
from tools.results import Display, TextDetail, ToolError
from tools.services.actions import CallConfinedPlugin, CallPlugin
from tools.text.safe_text import clean
from tools.text.words import brief

PLACE = 1_900
"""After all tools of Hermes."""
_SHOWN = 20_000
"""Characters of a result that open on demand."""


def register_tool(tool: RegisteredTool, runner: PluginRunner, registry: Registry) -> None:
    """Put a tool of a plugin into `registry`."""
    registry.register(
        tool.name,
        toolset=f"plugin-{runner.name}",
        schema={
            "description": tool.description or f"The tool {tool.name} of the plugin {runner.name}.",
            "parameters": dict(tool.parameters),
        },
        handler=_handler(tool, runner),
        is_async=True,
        emoji="⊕",
        describe=_describer(tool, runner),
        bundles=("default", "plugins"),
        traits=("for_scripts", "brought"),
        place=PLACE,
    )


def _handler(tool: RegisteredTool, runner: PluginRunner) -> Handler:
    plugin, consent = runner.shelved.plugin, runner.shelved.consent
    assert plugin is not None
    granted = plugin.capabilities
    # Without hosts and places to write to, its boundary leaves it nothing to do but to compute.
    is_harmless = not (
        granted.hosts or granted.write or consent is None or consent.in_process or consent.unconfined
    )
    kind = CallConfinedPlugin if is_harmless else CallPlugin

    async def call(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        sent = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
        await context.permit(kind(tool=tool.name, plugin=runner.name, name=tool.name, arguments=sent))
        try:
            said = await runner.ask("tool", tool.name, arguments)
        except PluginFailedError as error:
            raise ToolError(str(error)) from error
        shown = await asyncio.to_thread(cleaned, said)
        return shown if isinstance(shown, dict) else {"result": shown}

    return call


def _describer(tool: RegisteredTool, runner: PluginRunner) -> Describe:
    def describe(arguments: dict[str, Any], result: Mapping[str, Any] | None) -> Display:
        said = ", ".join(f"{key}={brief(value, 60)}" for key, value in arguments.items())
        subject = f"{runner.name}/{tool.name} {clean(said)[:200]}".rstrip()
        if result is None:
            return Display("call", subject)
        if error := result.get("error"):
            return Display("call", subject, brief(error, 200))
        plain = result.get("result") if set(result) == {"result"} else result
        text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, default=str)
        text = clean(text[:_SHOWN])
        first = next((line for line in text.splitlines() if line.strip()), "")
        return Display("call", subject, first[:80], TextDetail(text) if text else None)

    return describe

"""The plugins of one session: what they bring into it, and their code at work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.integrations.plugins.commands import PluginCommand
from agent.integrations.plugins.enabling import NO_BOUNDARY, PluginEnvironment
from agent.integrations.plugins.failure import PluginFailure
from agent.integrations.plugins.hooks import CommandHook, HandlerHook
from agent.integrations.plugins.problem import PluginError
from agent.integrations.plugins.registrations import PromptSection, RegisteredProvider
from agent.integrations.plugins.runner import PluginRunner
from agent.integrations.plugins.servers import PluginServer
from agent.integrations.plugins.shelf import ShelvedPlugin, find_agreed
from agent.integrations.plugins.skill_folders import skill_folders
from agent.integrations.plugins.tools import register_tool
from tools.registry import Registry
from tools.text.safe_text import clean


@dataclass(frozen=True, slots=True)
class BroughtServer:
    """An MCP server of a plugin, its placeholders filled in."""

    plugin: str
    root: Path
    data: Path
    server: PluginServer


def brought_servers(shelved: Iterable[ShelvedPlugin]) -> tuple[BroughtServer, ...]:
    """The MCP servers of plugins, ready to be started. Pure."""
    return tuple(
        BroughtServer(each.name, each.plugin.root, each.data, server.expanded(each.plugin.root, each.data))
        for each in shelved
        if each.plugin is not None
        for server in each.plugin.servers
    )


class SessionPlugins:
    """What the plugins that are on bring into a session. It stays as it is while the session lasts."""

    def __init__(
        self, shelved: Sequence[ShelvedPlugin], around: PluginEnvironment, tell: Callable[[str], None]
    ) -> None:
        """`tell` hears sentences about plugins that are left alone."""
        self._shelved = [each for each in shelved if each.is_on]
        self.problems: list[str] = [_told(each) for each in shelved if each.standing == "changed"]
        """What a person should hear when the session begins, a sentence each."""
        self._runners: dict[str, PluginRunner] = {}
        for each in self._shelved:
            if reason := _why_not_run(each, around):
                self.problems.append(reason)
            else:
                self._runners[each.name] = PluginRunner(each, around, tell)
        self._commands = self._collected_commands()

    def offer(self, registry: Registry) -> None:
        """Put their tools into `registry`; one whose name is taken is left out and named."""
        for shelved, runner in self._running():
            assert shelved.consent is not None
            for tool in shelved.consent.registered.tools:
                if registry.get(tool.name) is not None:
                    self.problems.append(
                        f"The tool {tool.name} of the plugin {shelved.name} is left out: its name is taken."
                    )
                else:
                    register_tool(tool, runner, registry)

    def run(self) -> bool:
        """Whether there is a plugin whose code runs."""
        return bool(self._runners)

    def hooks(self) -> list[HandlerHook | CommandHook]:
        """Their hooks, by plugin."""
        found: list[HandlerHook | CommandHook] = []
        for shelved, runner in self._running():
            assert shelved.consent is not None and shelved.plugin is not None
            found += [HandlerHook(runner, event) for event in shelved.consent.registered.events]
            found += [CommandHook(runner, hook) for hook in shelved.plugin.hooks]
        return found

    def sections(self) -> tuple[PromptSection, ...]:
        """Their sections of the system prompt."""
        return tuple(
            section
            for shelved, _ in self._running()
            if shelved.consent is not None
            for section in shelved.consent.registered.sections
        )

    def providers(self) -> tuple[tuple[PluginRunner, RegisteredProvider], ...]:
        """The services that features can ask, each with what asks it."""
        return tuple(
            (runner, each)
            for shelved, runner in self._running()
            if shelved.consent is not None
            for each in shelved.consent.registered.providers
        )

    def skill_folders(self) -> tuple[Path, ...]:
        """Folders of their skills."""
        return skill_folders(self._shelved)

    def servers(self) -> tuple[BroughtServer, ...]:
        """Their MCP servers, ready to be started."""
        return brought_servers(self._shelved)

    def commands(self) -> tuple[PluginCommand, ...]:
        """Their slash commands, by name."""
        return tuple(command for command, _ in self._commands.values())

    def failures(self) -> tuple[PluginFailure, ...]:
        """What went wrong with their code in this session, by plugin."""
        return tuple(each for _, runner in self._running() if (each := runner.failure) is not None)

    async def run_command(self, name: str, text: str) -> str:
        """Carry out a slash command; what it says. Raises `PluginError` or `PluginFailedError`."""
        found = self._commands.get(name)
        if found is None:
            raise PluginError(f"No plugin has a command /{name}.")
        said = await found[1].ask("command", name, text)
        return "" if said is None else await asyncio.to_thread(clean, str(said))

    async def aclose(self) -> None:
        """End everything of them that runs."""
        await asyncio.gather(*(runner.aclose() for runner in self._runners.values()))

    def _running(self) -> list[tuple[ShelvedPlugin, PluginRunner]]:
        return [(each, self._runners[each.name]) for each in self._shelved if each.name in self._runners]

    def _collected_commands(self) -> dict[str, tuple[PluginCommand, PluginRunner]]:
        found: dict[str, tuple[PluginCommand, PluginRunner]] = {}
        for shelved, runner in self._running():
            assert shelved.consent is not None
            for each in shelved.consent.registered.commands:
                if each.name in found:
                    other = found[each.name][0].plugin
                    self.problems.append(
                        f"The command /{each.name} of the plugin {shelved.name} is left out: "
                        f"{other} has one of that name."
                    )
                else:
                    command = PluginCommand(each.name, each.description, shelved.name)
                    found[each.name] = (command, runner)
        return found


def _told(shelved: ShelvedPlugin) -> str:
    changed = shelved.difference()
    named = ", ".join(changed[:3]) + (" and more" if len(changed) > 3 else "")
    return f"The plugin {shelved.name} is off: {shelved.reason} ({named})."


def _why_not_run(shelved: ShelvedPlugin, around: PluginEnvironment) -> str:
    """Why the code of a plugin does not run here, in a sentence; empty if it does, or if it has none."""
    plugin, consent = shelved.plugin, shelved.consent
    if plugin is None or consent is None or not plugin.runs or around.sandbox.name != "none":
        return ""
    if consent.unconfined or consent.in_process:
        return ""
    return (
        f"The code of the plugin {shelved.name} is off. {NO_BOUNDARY}; "
        f"`hermes plugin enable {shelved.name} --unconfined` agrees to that."
    )


def found_plugins(around: PluginEnvironment, tell: Callable[[str], None]) -> SessionPlugins:
    """The plugins of a session; nothing of them is started. Reads the disk."""
    return SessionPlugins(find_agreed(around.home, around.workspace), around, tell)

"""The plugins of one session: what they add to it, and calls of their code."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.core.config.hook_list import Hook, HookAnswer, HookError, HookEvent, answer_of, parse_answer
from agent.integrations.plugins.files import PluginError, PluginFailedError, digest, hashes
from agent.integrations.plugins.installing import NO_BOUNDARY, PluginEnvironment
from agent.integrations.plugins.package import PluginServer
from agent.integrations.plugins.process import HOOK, TOOL, InProcessPlugin, PluginFailure, PluginProcess
from agent.integrations.plugins.registrations import (
    PluginCommand,
    RegisteredProvider,
    RegisteredTool,
    clean_data,
)
from agent.integrations.plugins.shelf import FoundPlugin, find_approved_plugins, skill_folders
from agent.knowledge.context.layer import PromptSection
from tools.context import ToolContext
from tools.registry import Describe, Handler, Registry
from tools.results import Display, TextDetail
from tools.services.actions import CallConfinedPlugin, CallPlugin
from tools.text.safe_text import clean
from tools.text.words import brief

MOST_FAILURES = 3
"""The number of times that a plugin is killed before it is no longer used in the session."""


class PluginRunner:
    """The code of one plugin, as a session calls it. The process starts with the first request."""

    def __init__(self, shelved: FoundPlugin, around: PluginEnvironment, tell: Callable[[str], None]) -> None:
        """Set up the runner. `tell` receives a sentence if failures end the use of the plugin."""
        self.shelved = shelved
        self._around = around
        self._tell = tell
        self._process: PluginProcess | InProcessPlugin | None = None
        self._starting = asyncio.Lock()
        self._failures = 0
        self._is_closed = False
        self._last = ""
        self._times = 0

    @property
    def name(self) -> str:
        return self.shelved.name

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that the plugin declares and that its sandbox allows."""
        plugin = self.shelved.plugin
        return plugin.capabilities.hosts if plugin is not None else ()

    @property
    def failure(self) -> PluginFailure | None:
        """The last failure; None if there was none."""
        if not self._last:
            return None
        return PluginFailure(self.name, self._last, self._times, self._failures >= MOST_FAILURES)

    async def ask(self, do: str, name: str, given: Any, seconds: float = TOOL) -> Any:
        """Call one of the plugin's handlers with `given` and return its result.

        Raises `PluginFailedError`.
        """
        process = await self._ready()
        try:
            return await process.ask(do, seconds, name=name, given=given)
        except PluginFailedError as error:
            self._note(process, error)
            raise

    async def shell(self, hook: Hook, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run a command of the plugin's hooks inside its sandbox; return `code`, `output` and `errors`.

        Raises `PluginFailedError`.
        """
        process = await self._ready()
        if not isinstance(process, PluginProcess):
            raise PluginFailedError(f"The plugin {self.name} runs within Hermes, where hooks have no shell.")
        try:
            return await process.ask(
                "shell", hook.timeout, command=hook.command, root=str(process.launch.root), given=dict(given)
            )
        except PluginFailedError as error:
            self._note(process, error)
            raise

    async def aclose(self) -> None:
        """End the plugin's process."""
        self._is_closed = True
        async with self._starting:
            if self._process is not None:
                await self._process.aclose()
                self._process = None

    async def _ready(self) -> PluginProcess | InProcessPlugin:
        async with self._starting:
            if self._process is not None and self._process.is_alive:
                return self._process
            if self._is_closed:
                raise PluginFailedError(f"The plugin {self.name} has ended with the session.")
            if self._failures >= MOST_FAILURES:
                raise PluginFailedError(
                    f"The plugin {self.name} was cut off {MOST_FAILURES} times and is off for this session."
                )
            if self._process is not None:
                await self._process.aclose()
                self._process = None
            await asyncio.to_thread(self._check)
            process = self._make_process()
            try:
                await process.start()
            except BaseException as error:
                await process.aclose()
                if isinstance(error, PluginFailedError):
                    self._keep(error)
                    self._count()
                raise
            self._process = process
            return process

    def _make_process(self) -> PluginProcess | InProcessPlugin:
        consent, plugin = self.shelved.consent, self.shelved.plugin
        assert plugin is not None
        launch = self._around.launch(plugin, self.shelved.data)
        if consent is not None and consent.in_process:
            return InProcessPlugin(launch)
        return PluginProcess(launch)

    def _check(self) -> None:
        """Raise `PluginFailedError` if the files are no longer those that were approved."""
        consent, plugin = self.shelved.consent, self.shelved.plugin
        try:
            is_same = (
                consent is not None and plugin is not None and digest(hashes(plugin.root)) == consent.digest
            )
        except PluginError:
            is_same = False
        if not is_same:
            raise PluginFailedError(
                f"The plugin {self.name} is off: its files changed since you agreed to it; "
                f"see `hermes plugin enable {self.name}`."
            )

    def _note(self, process: PluginProcess | InProcessPlugin, error: PluginFailedError) -> None:
        """Record a failure; if it ended the process, count it towards `MOST_FAILURES`."""
        self._keep(error)
        if process.failed and process is self._process:
            self._count()

    def _keep(self, error: PluginFailedError) -> None:
        self._last = str(error)
        self._times += 1

    def _count(self) -> None:
        self._failures += 1
        if self._failures == MOST_FAILURES:
            self._tell(
                f"The plugin {self.name} was cut off {MOST_FAILURES} times and is off for this session; "
                f"`hermes plugin disable {self.name}` switches it off for good."
            )


PLACE = 1_900
"""The position of plugin tools in the list: after all tools of Hermes."""
_SHOWN = 20_000
"""The maximum number of characters of a result that can be expanded."""


def register_tool(tool: RegisteredTool, runner: PluginRunner, registry: Registry) -> None:
    """Register a plugin's tool in `registry`."""
    registry.register(
        tool.name,
        toolset=f"plugin-{runner.name}",
        schema={
            "description": tool.description or f"The tool {tool.name} of the plugin {runner.name}.",
            "parameters": dict(tool.parameters),
        },
        handler=_handler(tool, runner),
        is_async=True,
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
        said = await runner.ask("tool", tool.name, arguments)
        shown = await asyncio.to_thread(clean_data, said)
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


@dataclass(frozen=True, slots=True)
class HandlerHook:
    """The hook handlers that a plugin registered for one event."""

    runner: PluginRunner
    event: HookEvent
    required: bool = False

    @property
    def title(self) -> str:
        return f"plugin {self.runner.name}"

    @property
    def digest(self) -> str:
        """A value that distinguishes this hook from others."""
        return f"plugin {self.runner.name} {self.event}"

    def applies_to(self, tool: str) -> bool:
        """Return True: the hook is called for every tool, and its handler decides what to do."""
        return True

    async def answer(self, payload: Mapping[str, Any]) -> HookAnswer:
        """Call the handlers and return their combined answer. Raises `HookError`."""
        try:
            said = await self.runner.ask("hook", self.event, dict(payload), HOOK)
        except PluginFailedError as error:
            raise HookError(str(error).rstrip(".")) from error
        return HookAnswer() if said is None else answer_of(said)


@dataclass(frozen=True, slots=True)
class CommandHook:
    """A command in a plugin's `hooks.yaml`, run inside the plugin's sandbox."""

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
        """A value that distinguishes this hook from others."""
        return f"plugin {self.runner.name} {self.hook.digest}"

    def applies_to(self, tool: str) -> bool:
        """Return whether the hook is called for a tool."""
        return self.hook.applies_to(tool)

    async def answer(self, payload: Mapping[str, Any]) -> HookAnswer:
        """Run the command and return the answer in its output. Raises `HookError`."""
        try:
            said = await self.runner.shell(self.hook, payload)
        except PluginFailedError as error:
            raise HookError(str(error).rstrip(".")) from error
        if said.get("code") != 0:
            words = brief(said.get("errors", ""), 300)
            raise HookError(f"it ended with code {said.get('code')}" + (f" ({words})" if words else ""))
        return parse_answer(str(said.get("output", "")).encode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class BroughtServer:
    """An MCP server of a plugin, with its placeholders replaced."""

    plugin: str
    root: Path
    data: Path
    server: PluginServer


def servers_of_plugins(shelved: Iterable[FoundPlugin]) -> tuple[BroughtServer, ...]:
    """Return the MCP servers of plugins, ready to start. Pure."""
    return tuple(
        BroughtServer(each.name, each.plugin.root, each.data, server.expand(each.plugin.root, each.data))
        for each in shelved
        if each.plugin is not None
        for server in each.plugin.servers
    )


class SessionPlugins:
    """The parts that the enabled plugins add to a session. They do not change while the session runs."""

    def __init__(
        self, shelved: Sequence[FoundPlugin], around: PluginEnvironment, tell: Callable[[str], None]
    ) -> None:
        """Set up the plugins. `tell` receives a sentence about each plugin that is no longer used."""
        self._shelved = [each for each in shelved if each.is_on]
        self.problems: list[str] = [_changed_text(each) for each in shelved if each.standing == "changed"]
        """Notices for the user at the beginning of the session, a sentence each."""
        self._runners: dict[str, PluginRunner] = {}
        for each in self._shelved:
            if reason := _why_not_run(each, around):
                self.problems.append(reason)
            else:
                self._runners[each.name] = PluginRunner(each, around, tell)
        self._commands = self._collected_commands()

    def offer(self, registry: Registry) -> None:
        """Register the plugins' tools in `registry`. A tool whose name is taken is left out with a notice."""
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
        """Return whether any plugin's code runs."""
        return bool(self._runners)

    def hooks(self) -> list[HandlerHook | CommandHook]:
        """Return the plugins' hooks, grouped by plugin."""
        found: list[HandlerHook | CommandHook] = []
        for shelved, runner in self._running():
            assert shelved.consent is not None and shelved.plugin is not None
            found += [HandlerHook(runner, event) for event in shelved.consent.registered.events]
            found += [CommandHook(runner, hook) for hook in shelved.plugin.hooks]
        return found

    def sections(self) -> tuple[PromptSection, ...]:
        """Return the plugins' sections of the system prompt."""
        return tuple(
            section
            for shelved, _ in self._running()
            if shelved.consent is not None
            for section in shelved.consent.registered.sections
        )

    def providers(self) -> tuple[tuple[PluginRunner, RegisteredProvider], ...]:
        """Return the plugins' services, each with the runner that calls it."""
        return tuple(
            (runner, each)
            for shelved, runner in self._running()
            if shelved.consent is not None
            for each in shelved.consent.registered.providers
        )

    def skill_folders(self) -> tuple[Path, ...]:
        """Return the folders of the plugins' skills."""
        return skill_folders(self._shelved)

    def servers(self) -> tuple[BroughtServer, ...]:
        """Return the plugins' MCP servers, ready to start."""
        return servers_of_plugins(self._shelved)

    def commands(self) -> tuple[PluginCommand, ...]:
        """Return the plugins' slash commands."""
        return tuple(command for command, _ in self._commands.values())

    def failures(self) -> tuple[PluginFailure, ...]:
        """Return the last failure of each plugin whose code failed in this session."""
        return tuple(each for _, runner in self._running() if (each := runner.failure) is not None)

    async def run_command(self, name: str, text: str) -> str:
        """Run a slash command and return its output. Raises `PluginError` or `PluginFailedError`."""
        found = self._commands.get(name)
        if found is None:
            raise PluginError(f"No plugin has a command /{name}.")
        said = await found[1].ask("command", name, text)
        return "" if said is None else await asyncio.to_thread(clean, str(said))

    async def aclose(self) -> None:
        """End all processes of the plugins."""
        await asyncio.gather(*(runner.aclose() for runner in self._runners.values()))

    def _running(self) -> list[tuple[FoundPlugin, PluginRunner]]:
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


def _changed_text(shelved: FoundPlugin) -> str:
    changed = shelved.difference()
    named = ", ".join(changed[:3]) + (" and more" if len(changed) > 3 else "")
    return f"The plugin {shelved.name} is off: {shelved.reason} ({named})."


def _why_not_run(shelved: FoundPlugin, around: PluginEnvironment) -> str:
    """Return a sentence on why a plugin's code does not run here; empty if it runs or if the plugin has
    none.
    """
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
    """Return the plugins of a session without starting any. Reads the disk."""
    return SessionPlugins(find_approved_plugins(around.home, around.workspace), around, tell)

"""A plugin at work in a session: started when it is first needed, and anew when it was cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from agent.core.config.hook_list import Hook
from agent.integrations.plugins.deadlines import TOOL
from agent.integrations.plugins.enabling import PluginEnvironment
from agent.integrations.plugins.failure import PluginFailure
from agent.integrations.plugins.files import digest, hashes
from agent.integrations.plugins.in_process import InProcessPlugin
from agent.integrations.plugins.problem import PluginError, PluginFailedError
from agent.integrations.plugins.process import PluginProcess
from agent.integrations.plugins.shelf import ShelvedPlugin

MOST_FAILURES = 3
"""Times a plugin is cut off before it is left alone for the rest of the session."""


class PluginRunner:
    """The code of one plugin. Nothing of it runs before something is asked of it."""

    def __init__(
        self, shelved: ShelvedPlugin, around: PluginEnvironment, tell: Callable[[str], None]
    ) -> None:
        """`tell` hears, in a sentence, that the plugin is left alone from now on."""
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
        """The hosts that it declares, and that its boundary lets it reach."""
        plugin = self.shelved.plugin
        return plugin.capabilities.hosts if plugin is not None else ()

    @property
    def failure(self) -> PluginFailure | None:
        """What went wrong last; None where nothing did."""
        if not self._last:
            return None
        return PluginFailure(self.name, self._last, self._times, self._failures >= MOST_FAILURES)

    async def ask(self, do: str, name: str, given: Any, seconds: float = TOOL) -> Any:
        """What one of its handlers makes of `given`. Raises `PluginFailedError`."""
        process = await self._ready()
        try:
            return await process.ask(do, seconds, name=name, given=given)
        except PluginFailedError as error:
            self._note(process, error)
            raise

    async def shell(self, hook: Hook, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run a command of its hooks behind its boundary: `code`, `output`, `errors`.

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
        """End its process."""
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
            process = self._made()
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

    def _made(self) -> PluginProcess | InProcessPlugin:
        consent, plugin = self.shelved.consent, self.shelved.plugin
        assert plugin is not None
        launch = self._around.launch(plugin, self.shelved.data)
        if consent is not None and consent.in_process:
            return InProcessPlugin(launch)
        return PluginProcess(launch)

    def _check(self) -> None:
        """Look once more whether the files are what was agreed to. Raises `PluginFailedError`."""
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
        """Keep a failure, and count one that was its end."""
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

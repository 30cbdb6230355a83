"""A plugin that runs within Hermes, without a boundary: only after a person agreed to exactly that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from agent.integrations.plugins.child.hermes_plugin_child.context import Context, run
from agent.integrations.plugins.child.hermes_plugin_child.loading import load_apart
from agent.integrations.plugins.deadlines import LOADING
from agent.integrations.plugins.problem import PluginFailedError
from agent.integrations.plugins.process import PluginLaunch
from tools.text.words import brief


class InProcessPlugin:
    """Asked like a plugin in a process of its own. Threads that hang cannot be ended, only left behind."""

    def __init__(self, launch: PluginLaunch) -> None:
        self.launch = launch
        self.failed = ""
        """What went wrong, as a clause that follows its name; empty while nothing did."""
        self._context: Context | None = None

    @property
    def is_alive(self) -> bool:
        return self._context is not None and not self.failed

    async def start(self) -> list[Any]:
        """Load its code; everything it registered, unchecked. Raises `PluginFailedError`."""
        launch = self.launch
        context = Context(launch.name, str(launch.root), str(launch.data), str(launch.workspace))
        if launch.handler is not None:
            await self._within(LOADING, self._load(launch.handler, context))
        self._context = context
        return context.entries()

    async def ask(self, do: str, seconds: float, **fields: Any) -> Any:
        """Have it do something. Raises `PluginFailedError`."""
        if self._context is None or self.failed:
            raise PluginFailedError(f"The plugin {self.launch.name} {self.failed or 'has ended'}.")
        return await self._within(seconds, self._context.call(do, fields["name"], fields["given"]))

    async def aclose(self) -> None:
        """Let go of it; its modules stay loaded."""
        self._context = None

    async def _load(self, handler: Path, context: Context) -> None:
        name = f"hermes_plugin_{self.launch.name.replace('-', '_').replace('.', '_')}"
        register = await asyncio.to_thread(load_apart, str(handler), name)
        await run(register, context)

    async def _within(self, seconds: float, work: Awaitable[Any]) -> Any:
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            self.failed = f"has not answered within {seconds:g} s and was left behind"
            raise PluginFailedError(f"The plugin {self.launch.name} {self.failed}.") from None
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            text = brief(f"{type(error).__name__}: {error}".rstrip(": "), 1_000).rstrip(".")
            raise PluginFailedError(f"The plugin {self.launch.name} failed: {text}.") from error

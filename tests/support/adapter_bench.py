"""An adapter of a messenger as the core runs it: what it takes is stored once, and it may be restarted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent.core.config.sections import MessengerSettings
from agent.integrations.gateways.adapter import Adapter, GatewayContext, Incoming, gateway_kind, make_adapter

PATIENCE = 20.0


class AdapterBench:
    """One adapter in this process."""

    def __init__(
        self, name: str, folder: Path, settings: Mapping[str, Any], environ: Mapping[str, str]
    ) -> None:
        self._kind = gateway_kind(name)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        model = type(getattr(MessengerSettings(), name))
        self.context = GatewayContext(name, model.model_validate(dict(settings)), dict(environ), folder)
        self.adapter: Adapter
        self.taken: list[Incoming] = []
        """Everything that came, as often as it came."""
        self.stored: dict[tuple[str, str, str, str], Incoming] = {}
        """What the core would make turns of: each id once."""
        self.names: list[str] = []
        self.refuse = 0
        """So many messages cannot be stored."""
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.adapter = await asyncio.to_thread(make_adapter, self._kind, self.context)
        self._running = asyncio.create_task(self.adapter.run(self.take, self.names.append))

    async def take(self, incoming: Incoming) -> None:
        self.taken.append(incoming)
        if self.refuse:
            self.refuse -= 1
            raise OSError("no space left on device")
        await asyncio.sleep(0)
        key = (
            str(incoming.place.chat),
            incoming.id,
            incoming.kind,
            incoming.text * (incoming.kind == "edited"),
        )
        self.stored.setdefault(key, Incoming.from_json(incoming.to_json()))

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._running
            await self.adapter.aclose()
            self._running = None

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def ready(self) -> None:
        count = len(self.names)
        await self.until(lambda: len(self.names) > count or self.names)

    def fault(self) -> BaseException | None:
        """Why it ended by itself; None while it runs."""
        running = self._running
        return running.exception() if running is not None and running.done() else None

    async def until(self, condition: Callable[[], Any]) -> Any:
        """The first true value."""
        end = asyncio.get_running_loop().time() + PATIENCE
        while not (found := condition()):
            if (fault := self.fault()) is not None:
                raise fault
            assert asyncio.get_running_loop().time() < end, "it did not come"
            await asyncio.sleep(0.005)
        return found

    def texts(self) -> list[str]:
        return [each.text for each in self.stored.values() if each.kind == "message"]

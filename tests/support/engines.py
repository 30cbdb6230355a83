"""A whole engine against the scripted model server, in a folder of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.automation.unattended.session_automation import AUTOMATION
from agent.events import Event, TurnEnded
from agent.session.engine import Engine
from agent.session.options import Options
from agent.session.runtime import open_engine
from tests.support.model_server import ModelServer


@dataclass
class Bench:
    """Opens engines that share one home, one workspace and one model server."""

    home: Path
    workspace: Path
    server: ModelServer
    events: list[Event] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)

    def config(self, text: str) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "config.yaml").write_text(text, encoding="utf-8")

    @asynccontextmanager
    async def engine(self, **options: Any) -> AsyncIterator[Engine]:
        environ = {
            "HERMES_HOME": str(self.home),
            "OPENAI_BASE_URL": self.server.base_url,
            "OPENAI_API_KEY": "test-key",
            "HERMES_MODEL": "scripted",
            **self.environ,
        }
        chosen = Options(**{"workspace": self.workspace, "approve": "all", **options})
        engine = await open_engine(chosen, self.events.append, environ=environ, automation=AUTOMATION)
        try:
            yield engine
        finally:
            await engine.aclose()

    async def turn(self, text: str, **options: Any) -> TurnEnded:
        """One turn in a new engine."""
        async with self.engine(**options) as engine:
            return await engine.run(text)

    def seen(self, kind: type[Event]) -> list[Any]:
        """Events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]


@asynccontextmanager
async def bench(folder: Path, script: Any, **server_options: Any) -> AsyncIterator[Bench]:
    """A bench whose model follows `script` (see `tests.support.replies`)."""
    workspace = folder / "work"
    workspace.mkdir()
    async with ModelServer(script, **server_options) as server:
        yield Bench((folder / "home").resolve(), workspace.resolve(), server)

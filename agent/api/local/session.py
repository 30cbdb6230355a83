"""An open session whose engine works in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.api.local.agents import LocalAgents
from agent.api.local.approvals import LocalApprovals
from agent.api.local.attempts import LocalAttempts
from agent.api.local.plugins import LocalPlugins
from agent.api.local.servers import LocalServers
from agent.api.local.stored import LocalStored
from agent.api.plugin_commands import PluginCommands
from agent.api.servers import Servers
from agent.api.session import Agents, Approvals, Attempts, Reply, SessionHistory, StoredSessions
from agent.core.home import PRIVATE_FILE, Home, private_folder
from agent.core.messages import Attachment, Mode, ModeName
from agent.errors import StoreError
from agent.events import Event, Noticed, TurnEnded
from agent.session.engine import Engine
from tools.kit.files import write_atomically

if TYPE_CHECKING:
    from agent.core.store.nodes import Node
    from agent.knowledge.context.context_table import ContextTable
    from agent.model.catalog import ModelInfo
    from agent.session.history.branch_comparison import BranchComparison
    from agent.session.spending.overview import SpendingOverview

_WHOLE = 1 << 30
"""More nodes than a path has."""


class LocalSession:
    """What `SessionClient` asks for, by the engine itself. `engine` is there for tests and benchmarks."""

    def __init__(self, engine: Engine, home: Home) -> None:
        self.engine = engine
        self._home = home
        self._agents = LocalAgents(engine)
        self._attempts = LocalAttempts(engine)
        self._approvals = LocalApprovals(engine.grants, engine.pending_requests.pending)
        self._plugins = LocalPlugins(engine.plugins, engine.stream.emit)
        self._stored = LocalStored(engine.session.store, home, engine.recall)
        self._servers = LocalServers(engine.servers)

    # What is known without asking

    @property
    def id(self) -> str:
        return self.engine.session.id

    @property
    def workspace(self) -> Path:
        return Path(self.engine.session.record.workspace)

    @property
    def model(self) -> str:
        return self.engine.model

    @property
    def branch(self) -> str:
        return self.engine.session.head

    @property
    def path(self) -> Sequence[Node]:
        return self.engine.session.path

    @property
    def busy(self) -> bool:
        return self.engine.busy

    @property
    def queue(self) -> tuple[str, ...]:
        return self.engine.queue

    @property
    def watches(self) -> bool:
        return self.engine.watches

    @property
    def keeps_files(self) -> bool:
        return self.engine.travel.keeps_files

    @property
    def mode(self) -> Mode:
        return self.engine.mode

    @property
    def effort(self) -> str:
        return self.engine.effort

    @property
    def lost(self) -> bool:
        return False

    # Commands

    def submit(self, text: str, attachments: Sequence[Attachment] = (), received: int = 0) -> None:
        self.engine.submit(text, attachments, received)

    def steer(self, text: str, attachments: Sequence[Attachment] = (), received: int = 0) -> None:
        self.engine.steer(text, attachments, received)

    def set_queue(self, texts: Sequence[str]) -> None:
        self.engine.set_queue(texts)

    def send_queue(self) -> None:
        self.engine.send_queue()

    def interrupt(self) -> None:
        self.engine.interrupt()

    def answer(self, request: str, reply: Reply) -> None:
        for each in self.engine.pending_requests.pending():
            if each.id == request and not each.reply.done():
                future: asyncio.Future[Any] = each.reply
                future.set_result(reply if isinstance(reply, type(each.cancelled)) else each.cancelled)

    async def run(self, text: str, attachments: Sequence[Attachment] = ()) -> TurnEnded:
        return await self.engine.run(text, attachments)

    async def go_on(self) -> TurnEnded | None:
        return await self.engine.go_on()

    async def idle(self) -> None:
        await self.engine.idle()

    async def set_mode(self, mode: ModeName) -> Mode:
        self.engine.approve(mode)
        return self.engine.mode

    async def set_effort(self, text: str) -> str:
        return await self.engine.set_effort(text)

    async def watch(self, on: bool) -> None:
        await self.engine.watch(on)

    async def add_note(self, text: str) -> None:
        await self.engine.session.add("notice", text, {"kind": "process", "to_model": True})
        self.engine.stream.emit(Noticed(kind="process", text=text))

    def numbered(self, event: Event) -> Event:
        """An event of an earlier process with a number of this session, for whoever missed it."""
        return self.engine.stream.numbered(event)

    async def aclose(self) -> None:
        await self.engine.aclose()

    # Queries

    async def compact(self, focus: str = "") -> str:
        return await self.engine.compact(focus)

    async def context(self) -> ContextTable:
        return await self.engine.context()

    async def usage(self) -> SpendingOverview:
        from agent.session.spending.overview import overview

        return await overview(self.engine.metering)

    async def whole_path(self) -> Sequence[Node]:
        return await self.engine.session.whole_path()

    async def compare(self, left: str, right: str) -> BranchComparison:
        from agent.session.history.branch_comparison import compare

        session = self.engine.session
        one = (left, await session.store.path(session.id, left))
        other = (right, await session.store.path(session.id, right))
        travel = self.engine.travel
        steps = await travel.steps()
        found = await asyncio.to_thread(lambda: compare(one, other, steps, _price))
        files = await travel.changes(found.left.position, found.right.position)
        return replace(found, files=files)

    async def export(self, node: int) -> Path:
        from agent.session.export.html_page import page_of
        from tools.registry import registry

        session, store, travel = self.engine.session.record, self.engine.session.store, self.engine.travel
        nodes = [*await store.before(session.id, node, _WHOLE), await travel.node(node)]
        file = self._home.root / "exports" / f"{session.id}-{node}.html"

        def write() -> None:
            page = page_of(session, nodes, registry, secrets=store.secrets, branch=travel.head)
            _write_private(file, page.encode())

        try:
            await asyncio.to_thread(write)
        except OSError as error:
            raise StoreError(f"{file} cannot be written: {error.strerror}.") from error
        return file

    @property
    def history(self) -> SessionHistory:
        return self.engine.travel

    @property
    def agents(self) -> Agents:
        return self._agents

    @property
    def attempts(self) -> Attempts:
        return self._attempts

    @property
    def approvals(self) -> Approvals:
        return self._approvals

    @property
    def plugins(self) -> PluginCommands:
        return self._plugins

    @property
    def stored(self) -> StoredSessions:
        return self._stored

    @property
    def servers(self) -> Servers:
        return self._servers


def _price(model: str) -> ModelInfo | None:
    from agent.model.catalog import lookup

    provider, _, name = model.partition("/")
    return lookup(name, provider)


def _write_private(file: Path, data: bytes) -> None:
    """A file only its owner can read, there when it is complete."""
    private_folder(file.parent)
    write_atomically(file, data, PRIVATE_FILE, durable=False)

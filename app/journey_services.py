"""What the screens of going back and comparing ask for, from the session that is open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from agent.comparison import Comparison, compare
from agent.engine import Engine
from agent.model.catalog import ModelInfo, lookup
from agent.travel import Travel
from agent.workspace.checkpoints.entries import Change
from agent.workspace.checkpoints.restore.parts import Parted
from agent.workspace.checkpoints.restore.plan import PlanItem
from app.file_changes import FileChanges
from app.replay import newest_first
from app.rewinding import Said
from app.screens.compare import CompareServices
from app.screens.restoring import RestoreServices
from app.screens.rewind import RewindServices
from widgets.transcript.items import Item


def restore_services(travel: Travel) -> RestoreServices:
    """For the look at a restore."""
    files = FileChanges(travel.contents)

    async def parted(item: PlanItem, merging: bool) -> Parted:
        return await travel.parted(item, merging=merging)

    return RestoreServices(files.described, files.sides, travel.merged, parted)


def rewind_services(said: Callable[[], Awaitable[Sequence[Said]]], travel: Travel) -> RewindServices:
    """For the list of messages."""
    files = FileChanges(travel.contents)

    async def changes(position: int) -> Sequence[Change]:
        return await travel.changes(position, (await travel.place()).step)

    plan = travel.plan if travel.keeps_files else None
    return RewindServices(said, changes, plan, files.described)


def compare_services(engine: Engine, left: str, right: str) -> CompareServices:
    """For two branches, given by their names."""
    from tools.registry import registry

    session, travel = engine.session, engine.travel
    files = FileChanges(travel.contents)

    async def compared() -> tuple[Comparison, Sequence[Item], Sequence[Item]]:
        one = (left, await session.store.path(session.id, left))
        other = (right, await session.store.path(session.id, right))
        steps = await travel.steps()
        found = await asyncio.to_thread(lambda: compare(one, other, steps, _price))
        return (
            found,
            list(newest_first(found.left.nodes, registry))[::-1],
            list(newest_first(found.right.nodes, registry))[::-1],
        )

    return CompareServices(compared, files.described, files.sides)


def _price(model: str) -> ModelInfo | None:
    provider, _, name = model.partition("/")
    return lookup(name, provider)

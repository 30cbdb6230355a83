"""The session of an engine: its path, the tools it offers, the models that go on with it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.assembly.foundation import Foundation
from agent.assembly.paying import open_metering
from agent.context.profile import Profile
from agent.model.protocol import ToolSpec
from agent.model.transport.reply import Route
from agent.opening import Opened, open_session
from agent.routes import open_routes
from agent.session import LiveSession
from agent.spending.metering import Metering
from agent.subagents.definitions import Catalog
from agent.system import ensure_system
from tools.delegate import naming_agents
from tools.registry import registry
from tools.toolsets import resolve

if TYPE_CHECKING:
    from agent.config.schema import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One session, ready for a message."""

    session: LiveSession
    opened: Opened
    tools: tuple[ToolSpec, ...]
    routes: tuple[Route, ...]
    """As they are; whoever asks on them does it through `metering`."""
    metering: Metering
    agents: Catalog
    """The kinds of agents that were there when it was opened."""
    changed: bool
    """Whether a resumed session had to get a new system prompt."""


async def open_conversation(base: Foundation) -> Conversation:
    """Find or make the session. Raises a `HermesError` when there is none as asked for, or no model."""
    options, plan = base.options, base.plan
    agents = await asyncio.to_thread(base.definitions.load)
    tools = offered(base.settings, plan.profile, agents, beside=options.beside is not None)
    opened = await open_session(options, base.home, base.store, plan.targets[0].label)
    base.closers.append(opened.release)
    session = LiveSession(base.store, opened.record, opened.path, base.emit, opened.head)
    await session.prepare()
    plan.meter.add_past(node.data for node in opened.path if node.kind == "assistant")
    if not opened.owned:
        await session.branch_off()
    changed = await renew_system(base, session, tools)
    routes = await open_routes(plan, base.settings, base.home, tools, base.emit, base.closers)
    return Conversation(
        session=session,
        opened=opened,
        tools=tools,
        routes=routes,
        metering=open_metering(base, session),
        agents=agents,
        changed=changed,
    )


async def renew_system(base: Foundation, session: LiveSession, tools: tuple[ToolSpec, ...]) -> bool:
    """See that the system prompt says what is true now; True if a resumed session had to get a new one."""
    workspace, plan = base.options.workspace, base.plan
    return await ensure_system(session, workspace, base.home, base.settings, plan.profile, tools)


def offered(settings: Settings, profile: Profile, agents: Catalog, *, beside: bool) -> tuple[ToolSpec, ...]:
    """The tools on offer, as the profile shows them; that which sends agents names the kinds there are."""
    unusable = () if settings.checkpoints.enabled else ("checkpoint",)
    if beside or settings.subagents.depth == 0:
        unusable = (*unusable, "delegate", "mixture")
    names = resolve(settings.tools.enabled, (*settings.tools.disabled, *unusable))
    kinds = [(each.name, each.description) for each in agents.definitions.values()]
    definitions = [naming_agents(each, kinds) for each in registry.definitions(names)]
    specs = [ToolSpec(each["name"], each["description"], each["parameters"]) for each in definitions]
    return profile.offer(specs)

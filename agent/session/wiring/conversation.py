"""The session of an engine: its path, the tools that it offers, and its models."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.errors import ConfigError
from agent.integrations.mcp.tools import placeholder_tools
from agent.model.protocol import Profile, ToolSpec
from agent.model.transport.reply import ModelRoute
from agent.session.conversation.event_numbers import EventNumbers
from agent.session.conversation.live_session import LiveSession
from agent.session.conversation.opening import OpenedSession, open_session
from agent.session.conversation.session_prompt import shown_before
from agent.session.further_tools import (
    BOTH,
    FurtherTools,
    ToolOffer,
    changes_since,
    divide_tools,
    in_profile,
    with_names,
)
from agent.session.spending.budget import Budget, BudgetAccount
from agent.session.spending.metering import Metering, day_budget, session_budget, total_budget
from agent.session.spending.spending import Spending, prices_of, session_ceilings
from agent.session.wiring.routes import open_routes, open_summary_route
from agent.session.wiring.shared_services import SharedServices
from tools.delegate_tool import with_agent_kinds
from tools.inner_call import SEARCH
from tools.registry import Registry
from tools.toolsets import no_such, resolve, specific

if TYPE_CHECKING:
    from agent.core.config.schema import Settings
    from agent.integrations.mcp.service import McpService


def open_metering(base: SharedServices, session: LiveSession) -> Metering:
    """Open the metering of the session's requests."""
    infos = {target.label: target.info for target in base.plan.all}
    settings = base.settings.budget
    spending = Spending(
        base.store.database,
        prices_of(base.settings, base.environ),
        day_budget(settings),
        session_ceilings(session_budget(settings), session.id),
        total_budget(settings),
    )
    base.closers.append(spending.wait_for_writes)
    # The limits of the session are where all processes see them: in the store.
    account = BudgetAccount(spending.session.owner, Budget())
    return Metering(spending, account, session.id, session.record.workspace, infos)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One session, ready for a message, with its tools and models."""

    session: LiveSession
    opened: OpenedSession
    tools: tuple[ToolSpec, ...]
    searched: tuple[ToolSpec, ...]
    """The tools that requests do not show."""
    routes: tuple[ModelRoute, ...]
    """The routes to its models, not metered; requests are sent through `metering`."""
    metering: Metering
    told: tuple[str, ...] = ()
    """Notices about tools of servers that were added or removed since the session was last open."""
    summary_route: ModelRoute | None = None
    """The route for summaries; None for the first route."""


async def open_conversation(
    base: SharedServices, kinds: Sequence[tuple[str, str]], servers: McpService
) -> Conversation:
    """Return the requested session, found or new. `kinds` are the kinds of agents, as names and descriptions.

    Raises a `HermesError` when the requested session, tool or model does not exist.
    """
    plan = base.plan
    # Names given by a job, a task or the command line must exist; those in files may be of a server
    # that is away.
    if problem := no_such(base.options.settings.get("tools", {}).get("enabled") or (), base.tools):
        raise ConfigError(problem)
    more = may_grow(base, servers)
    offer = tool_offer(base.settings, plan.profile, kinds, base.tools, plan.meter.window, more=more)
    opened = await open_session(base.options, base.home, base.store, plan.targets[0].label)
    base.closers.append(opened.release)
    if opened.is_new:
        numbers = EventNumbers.of_new(base.store, opened.record.id)
    else:
        numbers = await EventNumbers.open(base.store, opened.record.id)
    base.stream.number = numbers.next
    base.closers.append(numbers.close)
    session = LiveSession(base.store, opened.record, opened.path, base.emit, opened.head)
    await session.prepare(ahead=True)
    told = ""
    if (before := shown_before(session)) is not None:
        offer, told = _as_before(base, kinds, offer, before, servers)
    tools = offer.direct
    if not opened.owned:
        await session.branch_off()
    routes = await open_routes(plan, base.settings, base.home, tools, base.emit, base.closers)
    return Conversation(
        session=session,
        opened=opened,
        tools=tools,
        searched=offer.searched,
        routes=routes,
        metering=open_metering(base, session),
        told=(told,) if told else (),
        summary_route=open_summary_route(plan, routes, base.settings, base.home, base.emit, base.closers),
    )


def tool_offer(
    settings: Settings,
    profile: Profile,
    kinds: Sequence[tuple[str, str]],
    registry: Registry,
    window: int | None,
    *,
    more: bool = False,
) -> ToolOffer:
    """Return the tools on offer, as the profile restricts them; the delegate tool lists the kinds of agents.

    `more` tells whether servers or plugins can provide tools later.
    """
    names = allowed_tools(settings, registry)
    brought = registry.with_trait("brought")
    shown = frozenset(resolve(settings.tools.direct, (), registry)) | specific(
        settings.tools.enabled, registry
    )
    offer = divide_tools(_specs(names, kinds, registry), shown, brought, window)
    return _in_form(offer, names, kinds, registry, profile, more=more)


def _in_form(
    offer: ToolOffer,
    names: Sequence[str],
    kinds: Sequence[tuple[str, str]],
    registry: Registry,
    profile: Profile,
    *,
    more: bool,
) -> ToolOffer:
    """Return an offer of tools with these names in the form that the model is shown."""
    if offer.searched and profile.tools is None:
        left = {spec.name for spec in offer.searched}
        offer = replace(offer, direct=_shown_specs(names, left, kinds, registry))
    return in_profile(with_names(offer, registry.with_trait("brought"), more=more), profile)


def _as_before(
    base: SharedServices,
    kinds: Sequence[tuple[str, str]],
    now: ToolOffer,
    before: Sequence[ToolSpec],
    servers: McpService,
) -> tuple[ToolOffer, str]:
    """Return the earlier offer of a resumed session, so that its prefix is kept, and a sentence on changes.

    `before` are the tools of its requests. Tools that servers and plugins have added since are only found by
    the search. A missing tool stays listed while a server may provide it again.
    """
    place = {spec.name: position for position, spec in enumerate(before)}
    searches = place.keys() >= BOTH
    gone = [spec for spec in before if base.tools.get(spec.name) is None and servers.may_offer(spec.name)]
    gone = gone if searches else []
    names = allowed_tools(base.settings, base.tools)
    further = base.tools.with_trait("brought").intersection(names)
    added = {spec.name for spec in now.direct if not (searches and spec.name in further)}
    shown = [name for name in names if name in place or name in added]
    with placeholder_tools(gone, base.tools):
        every = [*names, *(spec.name for spec in gone)]
        specs = _shown_specs(every, set(names).difference(shown), kinds, base.tools)
    rest = [name for name in names if name not in shown]
    offer = ToolOffer(specs, _specs(rest, kinds, base.tools))
    offer = in_profile(
        with_names(offer, further, more=may_grow(base, servers) or searches), base.plan.profile
    )
    # What the description of the search named stays, even if tools have come or gone.
    search = next((spec for spec in before if spec.name == SEARCH), None)
    direct = [search if search and spec.name == SEARCH else spec for spec in offer.direct]
    direct.sort(key=lambda spec: place.get(spec.name, len(place)))
    new = [spec.name for spec in now.direct if spec.name in rest]
    return replace(offer, direct=tuple(direct)), changes_since(new, [spec.name for spec in gone])


def _shown_specs(
    names: Sequence[str], left: Collection[str], kinds: Sequence[tuple[str, str]], registry: Registry
) -> tuple[ToolSpec, ...]:
    """Return the tools not in `left`. Their descriptions do not name those in `left`; only that of the script
    tool names Hermes' own ones among them, because scripts can call them as functions.
    """
    come_and_go = registry.with_trait("brought").intersection(left)
    lasting = [each for each in names if each not in come_and_go]
    shown = _specs([each for each in names if each not in left], kinds, registry)
    scripts = {spec.name: spec for spec in _specs(lasting, kinds, registry) if spec.name == "execute_code"}
    return tuple(scripts.get(spec.name, spec) for spec in shown)


def _specs(
    names: Sequence[str], kinds: Sequence[tuple[str, str]], registry: Registry
) -> tuple[ToolSpec, ...]:
    definitions = [with_agent_kinds(each, kinds) for each in registry.definitions(names)]
    return tuple(ToolSpec(each["name"], each["description"], each["parameters"]) for each in definitions)


def may_grow(base: SharedServices, servers: McpService) -> bool:
    """Return whether servers or plugins can provide further tools during the session."""
    return servers.usable() or base.plugins.run()


def further_tools(base: SharedServices) -> FurtherTools:
    """Register the tool search and return the service that finds tools that requests do not show."""
    further = FurtherTools(base.tools, lambda: allowed_tools(base.settings, base.tools))
    further.register()
    return further


def allowed_tools(settings: Settings, registry: Registry) -> tuple[str, ...]:
    """Return the names of all tools that the settings allow in a session."""
    unusable = frozenset[str]() if settings.checkpoints.enabled else registry.with_trait("takes_back")
    if settings.subagents.depth == 0:
        unusable |= registry.with_trait("sends_agents")
    if not settings.memory.enabled:
        unusable |= {"memory"}
    if not settings.learnings.enabled:
        unusable |= {"save_learning", "search_learnings"}
    if not settings.skills.enabled:
        unusable |= registry.with_trait("reads_skills") | {"skill_manage"}
    without = (*settings.tools.disabled, *unusable)
    names = resolve(settings.tools.enabled, without, registry)
    if registry.with_trait("brought").isdisjoint(names):
        return names
    # A user who names a server in the settings wants its tools, however many there are.
    search = BOTH.intersection(registry.names()).difference(resolve(without, (), registry))
    return (*names, *sorted(search.difference(names)))

"""The models that agents of one session can use: the session's own, and others opened on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.errors import ConfigError
from agent.events import Event, Noticed
from agent.model.catalog import UNKNOWN, ModelInfo
from agent.model.protocol import Profile, ToolSpec
from agent.model.providers import Target, resolve, unlisted_notice, unlisted_problem
from agent.model.transport.reply import ModelRoute
from agent.session.spending.spending import Prices
from agent.session.wiring.routes import Closer, RoutePlan, open_routes, profile_of
from tools.kit.threads import close_all
from tools.results import ToolError
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.core.config.schema import Settings

NAMED = 12
"""The maximum number of models that an error message lists."""


class KnownModels(Mapping[str, ModelInfo]):
    """Information on models by label: those of the session, and others of the catalog on request."""

    def __init__(self, own: Mapping[str, ModelInfo], prices: Prices) -> None:
        self._known = dict(own)
        self._prices = prices

    def __getitem__(self, label: str) -> ModelInfo:
        if label not in self._known:
            if (info := self._prices(label)) == UNKNOWN:
                raise KeyError(label)
            self._known[label] = info
        return self._known[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def learn(self, target: Target) -> None:
        """Add the settings' description of a model that is about to be used."""
        self._known.setdefault(target.label, target.info)


@dataclass(frozen=True, slots=True)
class Voice:
    """The routes of one agent, in the order in which they are tried, and the profile of the first model."""

    routes: tuple[ModelRoute, ...]
    profile: Profile


class AgentModels:
    """Opens model clients when the first agent needs them; `aclose` closes them."""

    def __init__(
        self,
        plan: RoutePlan,
        routes: tuple[ModelRoute, ...],
        tools: tuple[ToolSpec, ...],
        infos: KnownModels,
        *,
        settings: Settings,
        environ: Mapping[str, str],
        home: Home,
        emit: Callable[[Event], None],
    ) -> None:
        self.own = Voice(routes, plan.profile)
        self.infos = infos
        self._plan = plan
        self._tools = tools
        self._environ = environ
        self._home = home
        self._emit = emit
        self._settings = settings
        # An agent sent to a certain model is answered by that model, or not at all.
        alone = settings.model.model_copy(update={"fallbacks": []})
        self._alone = settings.model_copy(update={"model": alone})
        self._opened: dict[str, Voice] = {}
        self._opening = asyncio.Lock()
        self._closers: list[Closer] = []

    def label(self, name: str) -> str:
        """Return the full label of the model `name`; empty means the session's model. Raises `ToolError`."""
        return self._target(name).label if name else self.own.routes[0].name

    async def voice(self, name: str) -> Voice:
        """Return the opened routes to the model `name`; empty means the session's. Raises `ToolError`."""
        if not name:
            return self.own
        target = self._target(name)
        for route in self.own.routes:
            if route.name == target.label:
                return Voice((route,), profile_of(target))
        async with self._opening:
            if target.label not in self._opened:
                self._opened[target.label] = await self._open(target)
            return self._opened[target.label]

    async def aclose(self) -> None:
        """Close the clients that were opened here."""
        closers, self._closers = self._closers, []
        self._opened.clear()
        await close_all(reversed(closers))

    async def _open(self, target: Target) -> Voice:
        target = await self._plan.servers.inform(target)
        if notice := unlisted_notice(target):
            self._emit(Noticed(kind="warning", text=notice))
        profile = profile_of(target)
        plan = RoutePlan((target,), profile, self._plan.meter, servers=self._plan.servers)
        routes = await open_routes(plan, self._settings, self._home, self._tools, self._emit, self._closers)
        return Voice(routes, profile)

    def _target(self, name: str) -> Target:
        own = next((each for each in self._plan.targets if name in (each.label, each.model)), None)
        if own is not None:
            return own
        try:
            target = resolve(self._alone, self._environ, name)[0]
        except ConfigError as error:
            raise ToolError(f"{clean(str(error))} {self._there_are()}") from None
        if target.kind == "demo":
            raise ToolError(f"The demo model answers no agents. {self._there_are()}")
        if problem := unlisted_problem(self._plan.servers.with_list(target)):
            raise ToolError(f"{clean(problem)} {self._there_are()}")
        self.infos.learn(target)
        return target

    def _there_are(self) -> str:
        """Return a sentence that lists models that can be used, at most `NAMED`."""
        from agent.model.model_choices import choices

        found = choices(self._settings, self._environ, self._home)
        usable = [each.name for each in found if not each.problem and each.origin != "demo"]
        names = list(dict.fromkeys([*(route.name for route in self.own.routes), *usable]))
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return f"Models here: {', '.join(map(clean, names[:NAMED]))}{more}."

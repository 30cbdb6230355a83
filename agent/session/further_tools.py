"""The tools that requests show, and access to all others by search or by name.

The selection is fixed when a session is opened, so that the prompt prefix stays stable while servers come and
go. `tool_search` finds all tools that exist now, and `tool_call` calls them.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.core.messages import ToolCall
from agent.knowledge.skills.viewing import CapabilitiesInForce
from agent.model.protocol import Profile, ToolSpec
from tools.context import ToolContext
from tools.inner_call import CALL, SEARCH, inner_call
from tools.registry import Registry, ToolEntry, check_arguments
from tools.results import Display, TextDetail, ToolError
from tools.services.service import Service
from tools.text.json_text import to_json
from tools.text.safe_text import clean
from tools.text.tool_ranking import LONGEST_QUERY, Findable, ranked
from tools.text.words import plural

SHARE = 0.1
"""The largest part of a model's context window that tools of servers and plugins may fill in each request."""
CEILING = 10_000
"""The most tokens that they may fill."""
CHARACTERS_PER_TOKEN = 4
MATCHES = 5
MOST_MATCHES = 20
PLACE = 1_800
"""The sort position of the two tools: between the tools of Hermes and those of servers and plugins."""
MOST_NAMES = 6
"""The most tools of one kind that the description of `tool_search` names individually."""
BOTH = frozenset({SEARCH, CALL})

_SEARCH_SCHEMA: dict[str, Any] = {
    "description": "Find tools that are not listed here, by what they do. Call them with tool_call or "
    "by name.",
    "parameters": {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "default": "",
                "description": "A few words, or a name.",
            },
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_MATCHES, "default": MATCHES},
        },
    },
}
_CALL_SCHEMA: dict[str, Any] = {
    "description": "Call a tool that tool_search found or named.",
    "parameters": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "arguments": {"type": "object"},
        },
        "required": ["name"],
    },
}


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """The tools that an agent may use: those shown in requests, and those that only the search finds."""

    direct: tuple[ToolSpec, ...]
    searched: tuple[ToolSpec, ...] = ()


def divide_tools(
    specs: Sequence[ToolSpec], direct: Collection[str], brought: Collection[str], window: int | None
) -> ToolOffer:
    """Return the tools divided into those shown in requests and those that only the search finds. Pure.

    Tools named in `direct` are shown, and those of servers and plugins (`brought`) unless they take too much
    room. `window` is the model's context window in tokens; None if unknown. Without the search tools, all are
    shown.
    """
    if not {spec.name for spec in specs} >= BOTH:
        return ToolOffer(tuple(specs))
    limit = CEILING if window is None else min(CEILING, int(window * SHARE))
    unnamed = [spec for spec in specs if spec.name in brought and spec.name not in direct]
    fit = sum(map(size, unnamed)) <= limit * CHARACTERS_PER_TOKEN
    shown = BOTH.union(direct, (spec.name for spec in unnamed) if fit else ())
    return ToolOffer(
        tuple(spec for spec in specs if spec.name in shown),
        tuple(spec for spec in specs if spec.name not in shown),
    )


def with_names(offer: ToolOffer, brought: Collection[str], *, more: bool) -> ToolOffer:
    """Return the offer with the names of the tools not shown added to the description of the search. Pure.

    Tools of servers and plugins (`brought`) are not named, since they come and go; `more` tells whether there
    can be any. Without anything to find, the search is not shown.
    """
    if not (offer.searched or more):
        return replace(offer, direct=tuple(spec for spec in offer.direct if spec.name not in BOTH))
    kinds: dict[str, list[str]] = {}
    for spec in offer.searched:
        if spec.name not in brought:
            kinds.setdefault(spec.name.partition("_")[0], []).append(spec.name)
    names = [
        text
        for kind, members in kinds.items()
        for text in ([f"{kind}_* ({len(members)})"] if len(members) > MOST_NAMES else members)
    ]
    if more:
        names.append("those of MCP servers and plugins, which come and go")
    text = f"{_SEARCH_SCHEMA['description']} There are: {', '.join(names)}."
    direct = tuple(replace(spec, description=text) if spec.name == SEARCH else spec for spec in offer.direct)
    return replace(offer, direct=direct)


def in_profile(offer: ToolOffer, profile: Profile) -> ToolOffer:
    """Return the offer as a profile restricts it. A profile that lists its tools has no searched ones."""
    if profile.tools is not None:
        return ToolOffer(profile.offer((*offer.direct, *offer.searched)))
    return ToolOffer(profile.offer(offer.direct), offer.searched)


def changes_since(new: Sequence[str], gone: Sequence[str]) -> str:
    """Return a sentence on tools added and removed since a session was last open; empty if there are none.
    Pure.
    """
    told = [f"{len(new)} new ones are found by tool_search ({_some(new)})"] if new else []
    if gone:
        told.append(f"{len(gone)} cannot be called for now ({_some(gone)})")
    return (
        f"Tools of servers and plugins since this session was last open: {'; '.join(told)}." if told else ""
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(clean, names[:3])) + more


def size(spec: ToolSpec) -> int:
    """Return the approximate number of characters that a tool takes in a request."""
    about = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return len(json.dumps(about, ensure_ascii=False))


class FurtherTools(Service):
    """The tools that one agent finds by `tool_search`, and calls by `tool_call` or by their own names."""

    def __init__(
        self,
        registry: Registry,
        allowed: Callable[[], Collection[str]],
        fits: Callable[[str], bool] = lambda _name: True,
        shown: Collection[str] = (),
    ) -> None:
        """Create the access of one agent. `allowed` returns the names of all tools that the settings allow in
        the session; `fits` tells whether the agent may have a tool. `shown` names the tools in its requests.
        """
        self._registry = registry
        self._allowed = allowed
        self._fits = fits
        self._shown = shown
        self._known: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())

    def of_agent(self, fits: Callable[[str], bool], shown: Collection[str]) -> FurtherTools:
        """Return the access of an agent that may have tools that meet `fits`; its requests show `shown`."""
        return FurtherTools(self._registry, self._allowed, fits, shown)

    def inner(self, call: ToolCall) -> ToolCall:
        """Return the call inside a `tool_call`; the given call unchanged if it contains no valid one."""
        if call.name != CALL:
            return call
        try:
            found = inner_call(call.name, json.loads(call.arguments))
        except (ValueError, RecursionError, AttributeError):
            return call
        if found is None or not self.reaches(found[0]):
            return call
        name, arguments = found
        return ToolCall(call.id, name, json.dumps(arguments, ensure_ascii=False))

    def reaches(self, name: str) -> bool:
        """Return whether the agent may call the tool, and it is available.

        A tool that a server or plugin once provided counts as available: its call reports that it is gone.
        """
        entry = self._registry.get(name)
        if entry is None or entry.name not in self._reachable():
            return False
        return "brought" in entry.traits or entry.available()

    def register(self) -> None:
        """Register the search tool and the call tool."""
        more: dict[str, Any] = {"toolset": SEARCH, "bundles": ("default",), "place": PLACE}
        self._registry.register(
            SEARCH, schema=_SEARCH_SCHEMA, handler=_search, describe=_display, read_only=True, **more
        )
        self._registry.register(
            CALL, schema=_CALL_SCHEMA, handler=self._unmade, traits=("for_scripts",), **more
        )

    def _reachable(self) -> frozenset[str]:
        names = self._registry.names()
        if self._known[0] != names:
            mine = frozenset(filter(self._fits, names.intersection(self._allowed()) - BOTH))
            self._known = names, mine
        return self._known[1]

    def there(self) -> list[ToolEntry]:
        """Return the tools that the search can find now, in the order of the registry: all of servers and
        plugins, and those of Hermes that requests do not show.
        """
        brought = self._registry.with_trait("brought")
        wanted = self._reachable() - (frozenset(self._shown) - brought)
        return [each for each in self._registry.entries() if each.name in wanted and each.available()]

    def notes(self, toolsets: Collection[str], texts: Sequence[str]) -> list[str]:
        """Return the notes on whole toolsets, except those that one of the texts already contains."""
        notes = [self._registry.notes[each] for each in sorted(toolsets) if each in self._registry.notes]
        return [note for note in notes if not any(note in text for text in texts)]

    def _unmade(self, arguments: dict[str, Any], _context: ToolContext) -> dict[str, Any]:
        """Refuse a `tool_call` that does not contain a valid call. Always raises `ToolError`."""
        name = clean(arguments["name"].strip())[:100]
        if self._registry.get(name) is not None:
            raise ToolError(f"{name} cannot be called here; tool_search finds the tools that can.")
        raise ToolError(f"There is no tool named {name}, or not any more; tool_search finds those there are.")


async def _search(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    query, there = arguments["query"].strip()[:LONGEST_QUERY], context.service(FurtherTools).there()
    if not query:
        return {"tools_of": dict(Counter(each.toolset for each in there)), "total": len(there)}
    findable = [
        Findable(each.name, each.schema.get("description", ""), each.schema.get("parameters", {}))
        for each in there
    ]
    found = await asyncio.to_thread(ranked, query, findable)
    shown = found[: arguments["limit"]]
    result: dict[str, Any] = {
        "tools": [
            {"name": each.name, "description": each.description, "parameters": dict(each.parameters)}
            for each in shown
        ],
        "total": len(found),
    }
    toolsets = {each.toolset for each in there if each.name in {one.name for one in shown}}
    if notes := context.service(FurtherTools).notes(toolsets, [each.description for each in shown]):
        result["about"] = notes
    if not found:
        result["hint"] = (
            f"No tool has these words; there are {len(there)}. "
            "Try others, or leave the query out to see where they come from."
        )
    return result


def _display(arguments: dict[str, Any], result: Mapping[str, Any] | None) -> Display:
    subject = clean(str(arguments.get("query") or "all"))[:100]
    if result is None:
        return Display("find tools", subject)
    if error := result.get("error"):
        return Display("find tools", subject, clean(str(error))[:200])
    total = result.get("total", 0)
    names = [str(each["name"]) for each in result.get("tools", ())]
    detail = TextDetail(clean("\n".join(names))) if names else None
    return Display("find tools", subject, plural(total, "tool"), detail)


@dataclass(slots=True)
class ToolAccess:
    """The tools that one agent may call now: those in its requests, and those that it finds by search."""

    registry: Registry
    offered: frozenset[str]
    result_limit: int
    """The maximum number of characters of one result."""
    further: FurtherTools | None
    """The tools that are reached through `tool_call`; None if the agent has none."""
    in_force: CapabilitiesInForce | None
    """The restrictions of skills in force; None if skills are switched off."""

    def offer(self, tools: Iterable[str], result_limit: int) -> None:
        """Allow only these tools from now on, with results of at most `result_limit` characters."""
        self.offered, self.result_limit = frozenset(tools), result_limit
        if CALL not in self.offered:
            self.further = None

    def inner(self, call: ToolCall) -> ToolCall:
        """Return the call inside a `tool_call`; the given call unchanged if there is none."""
        return call if self.further is None else self.further.inner(call)

    def blocked(self, tool: str) -> str:
        """Return the result for a call that an active skill forbids; empty if the tool may be called."""
        reason = "" if self.in_force is None else self.in_force.refusal(tool)
        return reason and json.dumps({"error": reason, "status": "blocked"}, ensure_ascii=False)

    def refusal(self, tool: str, shown: str) -> str:
        """Return the result for a call to a tool that the agent may not call; empty if it may.

        `shown` is the name of the tool in that result.
        """
        finds = self.further is not None and self.further.reaches(tool)
        if self.registry.get(tool) is None or not (tool in self.offered or finds):
            offered = ", ".join(sorted(self.offered))
            more = "" if self.further is None else " tool_search finds others."
            sentence = f"There is no tool named {shown}. Tools on offer: {offered}.{more}"
            return json.dumps({"error": sentence}, ensure_ascii=False)
        return self.blocked(tool)

    def misuse(self, tool: str, arguments: dict[str, Any]) -> str:
        """Return the result for a call with wrong arguments to a tool that requests do not show; empty if
        they are valid. The result includes the tool's parameters.
        """
        entry = self.registry.get(tool)
        if entry is None or entry.name in self.offered:
            return ""
        try:
            prepared = arguments if entry.prepare is None else entry.prepare(copy.deepcopy(arguments))
            check_arguments(entry.schema.get("parameters", {}), prepared)
        except ToolError as error:
            (found,) = self.registry.definitions([entry.name]) or ({},)
            return to_json({"error": str(error), "parameters": found.get("parameters", {})})
        return ""

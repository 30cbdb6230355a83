"""Tools of servers and plugins: the selection that requests show, and access to the others.

The selection is fixed when a session is opened, so that the prompt prefix stays stable while servers come and
go. `tool_search` finds all tools that exist now, and `tool_call` calls them.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.core.messages import ToolCall
from agent.knowledge.skills.viewing import CapabilitiesInForce
from agent.model.protocol import ToolSpec
from tools.context import ToolContext
from tools.inner_call import CALL, SEARCH, inner_call
from tools.registry import Registry, ToolEntry
from tools.results import Display, TextDetail, ToolError
from tools.text.safe_text import clean
from tools.text.tool_ranking import LONGEST_QUERY, Findable, ranked
from tools.text.words import plural

SHARE = 0.1
"""The part of a model's window that further tools may take to be shown in each request."""
CEILING = 10_000
"""Tokens they may take at most."""
CHARACTERS_PER_TOKEN = 4
MATCHES = 5
MOST_MATCHES = 20
PLACE = 1_800
"""Between the tools of Hermes and the further ones."""

_SEARCH_SCHEMA: dict[str, Any] = {
    "description": (
        "Find further tools, of MCP servers and plugins, that are not listed here; they may come and go "
        "during the session. Gives name, description and parameters of the best matches; call them with "
        "tool_call. Without a query it tells where tools come from, and how many there are."
    ),
    "parameters": {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "default": "",
                "description": "What the tool should do, in a few words, or its exact name.",
            },
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_MATCHES, "default": MATCHES},
        },
    },
}
_CALL_SCHEMA: dict[str, Any] = {
    "description": "Call a tool that tool_search found.",
    "parameters": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "description": "The name as it was found."},
            "arguments": {"type": "object", "description": "What its parameters ask for."},
        },
        "required": ["name"],
    },
}


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """The tools that an agent may use: those shown in requests, and those reachable through `tool_call`."""

    direct: tuple[ToolSpec, ...]
    searched: tuple[ToolSpec, ...] = ()


def divide_tools(specs: Sequence[ToolSpec], further: Collection[str], window: int | None) -> ToolOffer:
    """Divide the tools into those shown in requests and those found by search. Pure.

    Tools in `further` are left to the search if they take too much room. `window` is the model's context
    window in tokens; None if unknown.
    """
    limit = CEILING if window is None else min(CEILING, int(window * SHARE))
    names = {spec.name for spec in specs}
    searched = tuple(spec for spec in specs if spec.name in further)
    if not {SEARCH, CALL} <= names or sum(map(size, searched)) <= limit * CHARACTERS_PER_TOKEN:
        return ToolOffer(tuple(specs))
    return ToolOffer(tuple(spec for spec in specs if spec.name not in further), searched)


def changes_since(new: Sequence[str], gone: Sequence[str]) -> str:
    """Return a sentence on tools added and removed since a session was closed; empty if there are none.
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
    """Return the approximate number of characters of a tool in a request."""
    about = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return len(json.dumps(about, ensure_ascii=False))


class FurtherTools:
    """The tools of one session that `tool_search` finds and `tool_call` may call."""

    def __init__(self, registry: Registry, allowed: Callable[[], Collection[str]]) -> None:
        """`allowed` returns the names of all tools that the settings allow in the session."""
        self._registry = registry
        self._allowed = allowed
        self._known: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())

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
        """Return whether a server or plugin provides, or provided, the tool, and the settings allow it."""
        return name in self._reachable()

    def register(self) -> None:
        """Register the search tool and the call tool."""
        more: dict[str, Any] = {"toolset": SEARCH, "bundles": ("default",), "place": PLACE}
        self._registry.register(
            SEARCH, schema=_SEARCH_SCHEMA, handler=self._search, describe=_display, read_only=True, **more
        )
        self._registry.register(
            CALL, schema=_CALL_SCHEMA, handler=self._unmade, traits=("for_scripts",), **more
        )

    def _reachable(self) -> frozenset[str]:
        names = self._registry.names()
        if self._known[0] != names:
            further = self._registry.with_trait("brought")
            self._known = names, further.intersection(self._allowed())
        return self._known[1]

    def _there(self) -> list[ToolEntry]:
        reachable = self._reachable()
        return [each for each in self._registry.entries() if each.name in reachable and each.available()]

    async def _search(self, arguments: dict[str, Any], _context: ToolContext) -> dict[str, Any]:
        query, there = arguments["query"].strip()[:LONGEST_QUERY], self._there()
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
        if not found:
            result["hint"] = (
                f"No tool of a server or plugin has these words; there are {len(there)}. "
                "Try others, or leave the query out to see where they come from."
            )
        return result

    def _unmade(self, arguments: dict[str, Any], _context: ToolContext) -> dict[str, Any]:
        """Return the result of a `tool_call` that does not contain a valid call."""
        name = clean(arguments["name"].strip())[:100]
        if self._registry.get(name) is not None:
            raise ToolError(f"{name} is no tool of a server or plugin; call it by itself if it is on offer.")
        raise ToolError(f"There is no tool named {name}, or not any more; tool_search finds those there are.")


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
    """Characters of one result at most."""
    further: FurtherTools | None
    """The tools that are reached through `tool_call`; None if the agent has none."""
    in_force: CapabilitiesInForce | None
    """The restrictions of skills in force; None if skills are switched off."""

    def offer(self, tools: Iterable[str], result_limit: int) -> None:
        """Allow only these tools from now on, with results of at most `result_limit` characters."""
        self.offered, self.result_limit = frozenset(tools), result_limit

    def inner(self, call: ToolCall) -> ToolCall:
        """Return the call inside a `tool_call`, or the given call."""
        return call if self.further is None else self.further.inner(call)

    def blocked(self, tool: str) -> str:
        """Return the result of a call that an active skill forbids; empty if the tool may be called."""
        reason = "" if self.in_force is None else self.in_force.refusal(tool)
        return reason and json.dumps({"error": reason, "status": "blocked"}, ensure_ascii=False)

    def refusal(self, tool: str, shown: str) -> str:
        """Return the result of a call of a tool that the agent may not call; empty if it may.

        `shown` is the name of the tool in that result.
        """
        finds = self.further is not None and self.further.reaches(tool)
        if self.registry.get(tool) is None or not (tool in self.offered or finds):
            offered = ", ".join(sorted(self.offered))
            sentence = f"There is no tool named {shown}. Tools on offer: {offered}."
            return json.dumps({"error": sentence}, ensure_ascii=False)
        return self.blocked(tool)

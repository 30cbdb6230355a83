"""The registry: every tool declares itself here, every call is dispatched here.

A tool module calls `registry.register(...)` when it is imported. Two levels of
error wrapping make sure that the model always receives well-formed JSON:
`Registry.dispatch` wraps what a handler raises, `call_tool` wraps the rest.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tools.arguments import check_arguments
from tools.context import ToolContext
from tools.results import Display, ToolError

log = logging.getLogger(__name__)

Arguments = dict[str, Any]
Handler = Callable[[Arguments, ToolContext], Any]
Describe = Callable[[Arguments, Mapping[str, Any] | None], Display]
SchemaPatch = Callable[[dict[str, Any], frozenset[str]], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """One registered tool.

    `schema` is `{"description": …, "parameters": JSON schema}`. `describe` turns
    arguments and (when the call is over) the result into a `Display`.
    `read_only` calls without an exclusive resource may run beside each other;
    `patch` rewrites the schema to the set of tools that is really on offer.
    """

    name: str
    toolset: str
    schema: dict[str, Any]
    handler: Handler
    check_fn: Callable[[], bool] | None = None
    requires_env: tuple[str, ...] = ()
    is_async: bool = False
    description: str = ""
    emoji: str = ""
    describe: Describe | None = None
    read_only: bool = False
    patch: SchemaPatch | None = None
    aliases: tuple[str, ...] = ()

    def available(self) -> bool:
        """Whether the tool can be offered now; a check that fails to run means no."""
        if any(not os.environ.get(name) for name in self.requires_env):
            return False
        if self.check_fn is None:
            return True
        try:
            return bool(self.check_fn())
        except Exception:
            log.debug("check of tool %s failed", self.name, exc_info=True)
            return False


class Registry:
    """Tools by name. A later registration of a name wins and is logged."""

    def __init__(self) -> None:
        self._entries: dict[str, ToolEntry] = {}
        self._aliases: dict[str, str] = {}

    def register(
        self,
        name: str,
        toolset: str,
        schema: dict[str, Any],
        handler: Handler,
        check_fn: Callable[[], bool] | None = None,
        requires_env: Iterable[str] = (),
        is_async: bool | None = None,
        description: str = "",
        emoji: str = "",
        *,
        describe: Describe | None = None,
        read_only: bool = False,
        patch: SchemaPatch | None = None,
        aliases: Iterable[str] = (),
    ) -> None:
        """Declare a tool. `is_async` is found out from the handler when left open."""
        known = self._entries.get(name)
        if known is not None and known.toolset != toolset:
            log.warning("tool %s of toolset %s replaces the one of %s", name, toolset, known.toolset)
        entry = ToolEntry(
            name=name,
            toolset=toolset,
            schema=schema,
            handler=handler,
            check_fn=check_fn,
            requires_env=tuple(requires_env),
            is_async=inspect.iscoroutinefunction(handler) if is_async is None else is_async,
            description=description or schema.get("description", "").split("\n", 1)[0],
            emoji=emoji,
            describe=describe,
            read_only=read_only,
            patch=patch,
            aliases=tuple(aliases),
        )
        self._entries[name] = entry
        for alias in entry.aliases:
            self._aliases[alias] = name

    def get(self, name: str) -> ToolEntry | None:
        """The tool of that name or alias."""
        return self._entries.get(name) or self._entries.get(self._aliases.get(name, ""))

    def names(self) -> frozenset[str]:
        return frozenset(self._entries)

    def entries(self) -> tuple[ToolEntry, ...]:
        return tuple(self._entries.values())

    def definitions(self, names: Iterable[str]) -> list[dict[str, Any]]:
        """Schemas of the available tools among `names`, in registration order, patched to each other."""
        wanted = {entry.name for name in names if (entry := self.get(name)) is not None}
        checked: dict[Callable[[], bool] | None, bool] = {}
        offered: list[ToolEntry] = []
        for entry in self._entries.values():
            if entry.name not in wanted:
                continue
            if entry.check_fn not in checked or entry.requires_env:
                checked[entry.check_fn] = entry.available()
            if checked[entry.check_fn]:
                offered.append(entry)
        on_offer = frozenset(entry.name for entry in offered)
        return [_definition(entry, on_offer) for entry in offered]

    async def dispatch(self, name: str, arguments: Arguments, context: ToolContext) -> dict[str, Any]:
        """Run a tool and return its result as data; every failure is `{"error": …}`."""
        entry = self.get(name)
        if entry is None:
            return {"error": f"Unknown tool: {name}. Available: {', '.join(sorted(self._entries))}"}
        try:
            clean = check_arguments(entry.schema.get("parameters", {}), arguments)
            if entry.is_async:
                outcome: Awaitable[Any] | Any = entry.handler(clean, context)
                result = await outcome
            else:
                result = await asyncio.to_thread(entry.handler, clean, context)
        except ToolError as error:
            return {"error": str(error), **error.extra}
        except Exception as error:
            log.exception("tool %s failed", name)
            return {"error": f"Tool execution failed: {type(error).__name__}: {error}"}
        return result if isinstance(result, dict) else {"result": result}


def _definition(entry: ToolEntry, on_offer: frozenset[str]) -> dict[str, Any]:
    schema = {"name": entry.name, **entry.schema}
    return entry.patch(schema, on_offer) if entry.patch is not None else schema


registry = Registry()
"""The registry of this process, filled by `tools.discovery`."""


async def call_tool(name: str, arguments: Arguments, context: ToolContext, tools: Registry = registry) -> str:
    """Run a tool and return its result as JSON text, whatever happens."""
    try:
        return json.dumps(await tools.dispatch(name, arguments, context), ensure_ascii=False, default=str)
    except Exception as error:
        log.exception("dispatch of tool %s failed", name)
        return json.dumps({"error": f"Error executing {name}: {error}"}, ensure_ascii=False)

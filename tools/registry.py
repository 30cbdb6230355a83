"""The registry: every tool registers here, every call is dispatched here.

A tool module calls `registry.register(...)` when it is imported. Two levels of error handling make sure that
the model always receives well-formed JSON: `Registry.dispatch` wraps what a handler raises, `call_tool` wraps
the rest.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import logging
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tools import ExplainedError
from tools.context import ToolContext
from tools.results import Display, ToolError
from tools.text.json_text import to_json
from tools.text.words import plural

SHOWN = 80
"""Characters of a wrong value that an error message repeats."""

WIDEST = 2**63
"""Integers at or beyond this have no meaning for any tool, and can be too long to print."""

ITEM_FIELDS = ("label", "description", "text", "title", "value", "name")
"""Fields with the text if a model writes an object for one item of a list of texts."""


def check_arguments(schema: Mapping[str, Any], arguments: Any) -> dict[str, Any]:
    """Return `arguments` with repairs and defaults applied. Raises `ToolError` naming the first wrong field.

    Covers the part of JSON schema that tool parameters use: type, properties, required, items, enum, default,
    minimum, maximum, minLength, maxLength, minItems, maxItems, additionalProperties. The given arguments are
    not changed.
    """
    if not isinstance(arguments, dict):
        raise ToolError(f"The arguments must be a JSON object, not {_kind(arguments)}.")
    return _object(schema, arguments, "")


def _object(schema: Mapping[str, Any], value: dict[str, Any], where: str) -> dict[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = schema.get("required", ())
    clean: dict[str, Any] = {}
    for name, item in _rename_keys(properties, value).items():
        if name not in properties:
            if schema.get("additionalProperties", True) is False:
                raise ToolError(_unknown(properties, [name], where))
            clean[name] = item
        elif name not in required and _left_out(properties[name], item):
            continue
        else:
            clean[name] = _value(properties[name], item, f"{where}{name}")
    for name, spec in properties.items():
        if name in clean:
            continue
        if name in required:
            raise ToolError(f"Missing parameter {where}{name}.")
        if "default" in spec:
            clean[name] = copy.deepcopy(spec["default"])
    return clean


def _unknown(properties: Mapping[str, Any], names: Sequence[str], where: str) -> str:
    """Return the sentence about parameters at `where` that the schema does not have."""
    known = ", ".join(properties) or "no parameters"
    unknown = ", ".join(where + _describe_value(name) for name in names)
    noun = "parameter" if len(names) == 1 else "parameters"
    return f"Unknown {noun} {unknown}; {where[:-1] or 'this tool'} takes: {known}."


def ignored_parameters(schema: Mapping[str, Any], value: Any, where: str = "") -> str:
    """Return a sentence about the first object in checked arguments with unknown parameters, or empty."""
    if isinstance(value, list):
        parts = [(schema.get("items", {}), each, f"{where[:-1]}[{at}].") for at, each in enumerate(value)]
    elif isinstance(value, dict) and (properties := schema.get("properties")):
        if unknown := [name for name in value if name not in properties]:
            return f"{_unknown(properties, unknown, where)} What is unknown was ignored."
        parts = [(properties[name], each, f"{where}{name}.") for name, each in value.items()]
    else:
        return ""
    return next(filter(None, (ignored_parameters(*part) for part in parts)), "")


def _rename_keys(properties: Mapping[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """Return `value` with keys renamed to parameters that differ only in case, `-` or `_`."""
    unknown = [name for name in value if name not in properties]
    if not unknown:
        return value
    folded = {_fold_name(name): name for name in properties if name not in value}
    renames = {name: folded[_fold_name(name)] for name in unknown if _fold_name(name) in folded}
    return {renames.get(name, name): item for name, item in value.items()}


def _fold_name(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def _left_out(schema: Mapping[str, Any], item: Any) -> bool:
    """Return whether an optional parameter counts as unset.

    It does if it is null, or if it is an empty text and the schema allows no text.
    """
    kinds = _kinds(schema)
    if item is None:
        return "null" not in kinds
    blank = isinstance(item, str) and not item.strip()
    return blank and (
        ("enum" in schema and item not in schema["enum"]) or (kinds != () and "string" not in kinds)
    )


def _value(schema: Mapping[str, Any], value: Any, where: str) -> Any:
    kinds = _kinds(schema)
    if kinds:
        for kind in kinds:
            fits, repaired = _coerce(kind, value)
            if not fits and kind == "array":
                fits, repaired = _wrap_value(schema, value)
            if fits:
                value = repaired
                break
        else:
            raise ToolError(
                f"Parameter {where} must be {' or '.join(map(_article, kinds))}, not {_kind(value)}."
            )
    if "enum" in schema:
        value = _option(schema["enum"], value, where)
    _check_size(schema, value, where)
    if isinstance(value, dict):
        return _object(schema, value, f"{where}.")
    if isinstance(value, list):
        items = schema.get("items")
        if items:
            return [_item(items, item, f"{where}[{index}]") for index, item in enumerate(value)]
    return value


def _item(schema: Mapping[str, Any], value: Any, where: str) -> Any:
    if isinstance(value, dict) and _kinds(schema) == ("string",):
        texts = [
            value[name] for name in ITEM_FIELDS if isinstance(value.get(name), str) and value[name].strip()
        ]
        if texts:
            value = texts[0]
    return _value(schema, value, where)


def _wrap_value(schema: Mapping[str, Any], value: Any) -> tuple[bool, Any]:
    """Wrap `value` in a list if the schema's items allow it; return whether that was done, and the value."""
    wanted = _kinds(schema.get("items", {}))
    if isinstance(value, dict) and "object" in wanted:
        return True, [value]
    if isinstance(value, str) and "string" in wanted and value.strip():
        return True, [value]
    return False, value


def _option(options: list[Any], value: Any, where: str) -> Any:
    for option in options:
        if type(option) is type(value) and option == value:
            return option
    folded = {str(option).lower(): option for option in options}
    wanted = value.strip().lower() if isinstance(value, str) else _describe_value(value).lower()
    if wanted not in folded:
        listed = ", ".join(str(option) for option in options)
        raise ToolError(f"Parameter {where} must be one of {listed}, not {_describe_value(value)}.")
    return folded[wanted]


def _check_size(schema: Mapping[str, Any], value: Any, where: str) -> None:
    if isinstance(value, bool):
        return
    if isinstance(value, (int, float)):
        if "minimum" in schema and value < schema["minimum"]:
            raise ToolError(f"Parameter {where} must be at least {schema['minimum']}, not {value}.")
        if "maximum" in schema and value > schema["maximum"]:
            raise ToolError(f"Parameter {where} must be at most {schema['maximum']}, not {value}.")
    elif isinstance(value, (str, list)):
        least, most, unit = (
            ("minLength", "maxLength", "character")
            if isinstance(value, str)
            else ("minItems", "maxItems", "item")
        )
        if least in schema and len(value) < schema[least]:
            raise ToolError(
                f"Parameter {where} needs at least {plural(schema[least], unit)}, not {len(value)}."
            )
        if most in schema and len(value) > schema[most]:
            raise ToolError(
                f"Parameter {where} takes at most {plural(schema[most], unit)}, not {len(value)}."
            )


def _coerce(kind: str, value: Any) -> tuple[bool, Any]:
    """Convert `value` to the JSON type `kind`; return whether that was possible, and the converted value."""
    text = value.strip() if isinstance(value, str) else ""
    match kind:
        case "string":
            if isinstance(value, str):
                return True, value
            return (True, str(value)) if _is_number(value) else (False, value)
        case "integer":
            return _integer(value, text)
        case "number":
            if isinstance(value, str):
                try:
                    value = float(text)
                except ValueError:
                    return False, value
            return _is_number(value), value
        case "boolean":
            return _boolean(value, text.lower())
        case "null":
            return value is None, value
        case "array" | "object":
            wanted = list if kind == "array" else dict
            if isinstance(value, wanted):
                return True, value
            if text.startswith("[" if kind == "array" else "{"):
                try:
                    parsed = json.loads(text)
                except (ValueError, RecursionError):
                    return False, value
                return (True, parsed) if isinstance(parsed, wanted) else (False, value)
            return False, value
        case _:
            return True, value


def _integer(value: Any, text: str) -> tuple[bool, Any]:
    if text and len(text) < 25 and text.isascii():
        try:
            value = int(text)
        except ValueError:
            try:
                value = float(text)
            except ValueError:
                return False, value
    if not _is_number(value) or value != int(value) or not -WIDEST < value < WIDEST:
        return False, value
    return True, int(value)


def _boolean(value: Any, text: str) -> tuple[bool, Any]:
    if isinstance(value, bool):
        return True, value
    if text in ("true", "yes", "on", "1") or (_is_number(value) and value == 1):
        return True, True
    if text in ("false", "no", "off", "0") or (_is_number(value) and value == 0):
        return True, False
    return False, value


def _is_number(value: Any) -> bool:
    """Return whether `value` is a finite number, not a boolean, and small enough to be converted."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return -WIDEST < value < WIDEST if isinstance(value, int) else math.isfinite(value)


def _kinds(schema: Mapping[str, Any]) -> tuple[str, ...]:
    kinds = schema.get("type", ())
    return (kinds,) if isinstance(kinds, str) else tuple(kinds)


def _article(kind: str) -> str:
    named = {"string": "a text", "array": "a list", "object": "an object", "integer": "an integer"}
    return named.get(kind, "null" if kind == "null" else f"a {kind}")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", bool: "a boolean", type(None): "null"}
    if isinstance(value, str):
        return f"the text {_describe_value(value)}"
    return names.get(type(value)) or f"the number {_describe_value(value)}"


def _describe_value(value: Any) -> str:
    """Return `value` for an error message, as one short printable line."""
    if isinstance(value, int) and not -WIDEST < value < WIDEST:
        return "an enormous number"
    text = value if isinstance(value, str) and value.isprintable() and value.isidentifier() else repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


log = logging.getLogger(__name__)

Arguments = dict[str, Any]
Handler = Callable[[Arguments, ToolContext], Any]
Describe = Callable[[Arguments, Mapping[str, Any] | None], Display]
SchemaPatch = Callable[[dict[str, Any], frozenset[str]], dict[str, Any]]
Prepare = Callable[[Arguments], Arguments]
Trait = Literal[
    "asks_person",
    "sends_agents",
    "keeps_notes",
    "whole_session",
    "takes_back",
    "for_scripts",
    "reads_skills",
    "brought",
]
"""What the engine must know about a tool: it asks the user; it starts other agents; it only keeps notes, so
that any agent may have it; it acts on the whole session, so that only the main agent may; it restores
files, so that steps must be recorded; scripts may call it; it only reads skills, so that no skill
forbids it; a server or plugin provides it, so that it may be left to `tool_search`.
"""
LAST = 1_000
"""The sort position of tools that declare none."""


def tool_schema(description: str, /, *required: str, **properties: Any) -> dict[str, Any]:
    """Return the schema of a tool: its description and parameters, some of them required."""
    needed = {"required": list(required)} if required else {}
    parameters = {"type": "object", "properties": properties, **needed}
    return {"description": description, "parameters": parameters}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """One registered tool.

    `schema` is `{"description": …, "parameters": JSON schema}`. `describe` turns arguments and (after the
    call) the result into a `Display`. `read_only` calls without an exclusive resource may run in parallel;
    `patch` adapts the schema to the tools that are offered. `prepare` repairs arguments that only this tool
    can read, before they are checked against the schema. `bundles` are further toolsets that contain it, such
    as `default`. Tools are offered in the order of `place`, then of registration.
    """

    name: str
    toolset: str
    schema: dict[str, Any]
    handler: Handler
    check_fn: Callable[[], bool] | None = None
    requires_env: tuple[str, ...] = ()
    is_async: bool = False
    description: str = ""
    describe: Describe | None = None
    read_only: bool = False
    patch: SchemaPatch | None = None
    prepare: Prepare | None = None
    aliases: tuple[str, ...] = ()
    bundles: tuple[str, ...] = ()
    traits: frozenset[Trait] = frozenset()
    place: int = LAST

    def configured(self) -> bool:
        """Return whether every environment variable the tool needs is set."""
        return all(os.environ.get(name) for name in self.requires_env)

    def available(self) -> bool:
        """Return whether the tool can be offered now. If its check fails with an exception, it cannot."""
        return self.configured() and _passes(self.check_fn)


class Registry:
    """Tools by name. A later registration of a name replaces the earlier one and is logged."""

    def __init__(self) -> None:
        self._entries: dict[str, ToolEntry] = {}
        self._aliases: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        """A text on all tools of a toolset, by the name of the toolset."""

    def copy(self) -> Registry:
        """Return an independent registry with the same tools."""
        other = Registry()
        other._entries, other._aliases = dict(self._entries), dict(self._aliases)
        other.notes = dict(self.notes)
        return other

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
        *,
        describe: Describe | None = None,
        read_only: bool = False,
        patch: SchemaPatch | None = None,
        prepare: Prepare | None = None,
        aliases: Iterable[str] = (),
        bundles: Iterable[str] = (),
        traits: Iterable[Trait] = (),
        place: int = LAST,
    ) -> None:
        """Register a tool. `is_async` is detected from the handler if not given."""
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
            describe=describe,
            read_only=read_only,
            patch=patch,
            prepare=prepare,
            aliases=tuple(aliases),
            bundles=tuple(bundles),
            traits=frozenset(traits),
            place=place,
        )
        self._entries[name] = entry
        for alias in entry.aliases:
            owner = self._aliases.setdefault(alias, name)
            if owner != name:
                log.warning("alias %s of tool %s now means tool %s", alias, owner, name)
                self._aliases[alias] = name

    def replace_entry(self, entry: ToolEntry) -> None:
        """Replace the tool of this name with `entry`."""
        self._entries[entry.name] = entry

    def remove(self, name: str) -> None:
        """Remove a tool and its aliases; an unknown name is not an error."""
        self._entries.pop(name, None)
        self._aliases = {alias: owner for alias, owner in self._aliases.items() if owner != name}

    def get(self, name: str) -> ToolEntry | None:
        """Return the tool with this name or alias; None if there is none."""
        return self._entries.get(name) or self._entries.get(self._aliases.get(name, ""))

    def names(self) -> frozenset[str]:
        return frozenset(self._entries)

    def entries(self) -> tuple[ToolEntry, ...]:
        """Return all tools, in the order in which they are offered."""
        return tuple(sorted(self._entries.values(), key=lambda entry: entry.place))

    def with_trait(self, trait: Trait) -> frozenset[str]:
        """Return the names of the tools with this trait."""
        return frozenset(name for name, entry in self._entries.items() if trait in entry.traits)

    def definitions(self, names: Iterable[str]) -> list[dict[str, Any]]:
        """Return the definitions of available tools among `names`, in the order of `entries`."""
        wanted = {entry.name for name in names if (entry := self.get(name)) is not None}
        passed: dict[Callable[[], bool] | None, bool] = {}
        offered: list[ToolEntry] = []
        for entry in self.entries():
            if entry.name not in wanted or not entry.configured():
                continue
            if entry.check_fn not in passed:  # tools of one service share a check: run it once
                passed[entry.check_fn] = _passes(entry.check_fn)
            if passed[entry.check_fn]:
                offered.append(entry)
        on_offer = frozenset(entry.name for entry in offered)
        return [_definition(entry, on_offer) for entry in offered]

    async def dispatch(self, name: str, arguments: Arguments, context: ToolContext) -> dict[str, Any]:
        """Run a tool and return its result as data; every failure is `{"error": …}`."""
        entry = self.get(name)
        if entry is None:
            return {"error": f"Unknown tool: {name}. Available: {', '.join(sorted(self._entries))}"}
        try:
            if entry.prepare is not None and isinstance(arguments, dict):
                arguments = entry.prepare(copy.deepcopy(arguments))
            schema = entry.schema.get("parameters", {})
            clean = check_arguments(schema, arguments)
            if entry.is_async:
                result = entry.handler(clean, context)
            else:
                result = await asyncio.to_thread(entry.handler, clean, context)
            if inspect.isawaitable(result):
                result = await result
        except ToolError as error:
            return {"error": str(error)} | {
                key: value for key, value in error.extra.items() if key != "error"
            }
        except ExplainedError as error:
            return {"error": str(error)}
        except Exception as error:
            log.exception("tool %s failed", name)
            return {"error": f"Tool execution failed: {type(error).__name__}: {error}"}
        result = result if isinstance(result, dict) else {"result": result}
        ignored = "" if "brought" in entry.traits else ignored_parameters(schema, clean)
        return (
            {**result, "note": " ".join(filter(None, (result.get("note"), ignored)))} if ignored else result
        )


def _passes(check: Callable[[], bool] | None) -> bool:
    try:
        return check is None or bool(check())
    except Exception:
        log.debug("the availability check %r failed", check, exc_info=True)
        return False


def _definition(entry: ToolEntry, on_offer: frozenset[str]) -> dict[str, Any]:
    is_own = "brought" not in entry.traits
    schema = {"name": entry.name, **_copied(entry.schema, is_own)}
    if entry.patch is None:
        return schema
    try:
        return entry.patch(schema, on_offer)
    except Exception:
        log.exception("the schema of tool %s could not be adapted", entry.name)
        return {"name": entry.name, **_copied(entry.schema, is_own)}


_OBVIOUS: dict[str, tuple[Any, ...]] = {"default": (False, 0, "", ".", []), "minimum": (0, 1)}
"""Schema fields with values that hold anyway, so that a model does not need them."""
_LIMITS = frozenset({"minLength", "maxLength", "maxItems", "maximum", "additionalProperties"})
"""Schema fields that only calls are checked against; a model learns of a limit when it exceeds it."""


def _copied(value: Any, is_own: bool) -> Any:
    """Return a copy of a schema, faster than `deepcopy`; if `is_own`, without what a model does not need."""
    if isinstance(value, dict):
        return {
            key: _copied(each, is_own)
            for key, each in value.items()
            if not is_own
            or (each not in _OBVIOUS.get(key, ()) and (key not in _LIMITS or isinstance(each, dict)))
        }
    return [_copied(each, is_own) for each in value] if isinstance(value, (list, tuple)) else value


registry = Registry()
"""The registry of this process, filled by `tools.discovery`."""


async def call_tool(name: str, arguments: Arguments, context: ToolContext, tools: Registry = registry) -> str:
    """Run a tool and return its result as JSON text. Never raises: every failure becomes a result."""
    try:
        return to_json(await tools.dispatch(name, arguments, context))
    except Exception as error:
        log.exception("dispatch of tool %s failed", name)
        return to_json({"error": f"Error executing {name}: {error}"})

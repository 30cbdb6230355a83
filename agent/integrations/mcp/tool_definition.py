"""A tool as a server describes it: what is kept of it, what is wrong with it, and its hash. Pure.

Names, descriptions and schemas are outside text: control bytes go, sizes are bounded, and
what reads like an order to the model keeps the tool back until a person agrees.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.knowledge.injection import scan
from agent.model.tool_schemas import sound
from tools.text.safe_text import clean

LONGEST_DESCRIPTION = 4_000
LARGEST_SCHEMA = 64_000
"""Characters of a schema as JSON."""
LONGEST_NAME = 128
MOST_TOOLS = 1_000
FAULT = "hermes.fault"
"""Field of a listed tool: what is wrong with its schema by the rules of JSON schema, as a clause."""
DEEPEST = 24
SCALARS = ("string", "number", "integer", "boolean", "array")
"""Types whose values are no arguments of a tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """One tool of a server."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    digest: str
    """The hash of all that the model is told of it."""
    suspicion: str = ""
    """What in its description reads like an order, empty if nothing does."""

    @property
    def told(self) -> str:
        """What the model is told of it, in lines: its description, then its parameters as JSON."""
        schema = json.dumps(self.parameters, indent=2, sort_keys=True, ensure_ascii=False)
        return f"{self.description}\n\nParameters:\n{schema}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolListing:
    """What a server offers, and what of it is left out."""

    tools: tuple[ToolDefinition, ...]
    problems: tuple[str, ...] = ()


def read_tools(given: Sequence[Any]) -> ToolListing:
    """The usable tools among those a server listed, by their order; the first of equal names counts.

    Schemas that contradict themselves or the rules of JSON schema are read as far as that goes.
    """
    found: dict[str, ToolDefinition] = {}
    problems: list[str] = []
    if len(given) > MOST_TOOLS:
        problems.append(f"it lists {len(given):,} tools, of which the first {MOST_TOOLS:,} are taken")
    for each in given[:MOST_TOOLS]:
        name, wrong = "", "it is no object"
        if isinstance(each, Mapping):
            given_name = each.get("name")
            name = given_name if isinstance(given_name, str) else ""
            wrong = str(each.get(FAULT) or "") or _fault(name, each.get("inputSchema"))
        if not wrong and name in found:
            wrong = "another one has the same name"
        if wrong:
            problems.append(f"the tool {clean(str(name))[:60] or 'without a name'!r} is left out: {wrong}")
            continue
        found[name] = _definition(name, each)
    return ToolListing(tools=tuple(found.values()), problems=tuple(problems))


def _fault(name: str, schema: Any) -> str:
    """Why a tool cannot be offered, empty if it can."""
    if not name.strip():
        return "it has no name"
    if len(name) > LONGEST_NAME or clean(name) != name:
        return "its name is too long or holds control characters"
    if not isinstance(schema, Mapping):
        return "its schema is no object"
    if schema.get("type") in SCALARS:
        return "its schema does not describe an object"
    if _depth(schema) > DEEPEST:
        return "its schema is nested too deeply"
    if len(json.dumps(schema)) > LARGEST_SCHEMA:
        return f"its schema has more than {LARGEST_SCHEMA:,} characters"
    return ""


def _definition(name: str, given: Mapping[str, Any]) -> ToolDefinition:
    said = given.get("description") or given.get("title") or ""
    described = clean(said)[:LONGEST_DESCRIPTION] if isinstance(said, str) else ""
    schema = sound(_cleaned(given["inputSchema"]))
    schema.pop("$schema", None)
    schema["properties"] = {
        key: {} if isinstance(each, bool) else each for key, each in schema["properties"].items()
    }
    # What was cut off or cleaned away counts too: a change there is a change.
    told = json.dumps([name, said, given["inputSchema"]], sort_keys=True, ensure_ascii=True)
    return ToolDefinition(
        name=name,
        description=described,
        parameters=schema,
        digest=hashlib.sha256(told.encode("ascii")).hexdigest(),
        suspicion=_suspicion((str(said), *_texts(given["inputSchema"]))),
    )


def _suspicion(texts: Iterable[str]) -> str:
    """The first of several texts that reads like an order; words of two of them are no sentence."""
    found = next(
        (each for text in texts for each in scan(text) if each.severity in ("high", "critical")), None
    )
    return "" if found is None else f"{found.rule}: {clean(found.excerpt)}"


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): _cleaned(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_cleaned(each) for each in value]
    return value


def _texts(value: Any) -> list[str]:
    """All descriptions in a schema, and whatever else is text there."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for each in value.values() for text in _texts(each)]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    return []


def _depth(value: Any, limit: int = DEEPEST + 2) -> int:
    if limit == 0:
        return 0
    if isinstance(value, Mapping):
        return 1 + max((_depth(each, limit - 1) for each in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((_depth(each, limit - 1) for each in value), default=0)
    return 0

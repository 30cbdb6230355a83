"""The tools and prompts that a server last listed, and which of the tools the user has approved.

A tool that is listed for the first time counts as approved, unless its text reads like an instruction to the
model. Its description and schema are then pinned by their hash. If they change, the tool is parked (not
offered): the user is shown the changed lines and must approve them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from agent.core.consents import LARGEST, read_private, write_private
from agent.integrations.mcp.server_config import ServerConfig
from agent.knowledge.injection import scan
from agent.model.tool_schemas import sound
from tools.files.diffs import diff_texts, shorten_diff
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean

LONGEST_DESCRIPTION = 4_000
LARGEST_SCHEMA = 64_000
"""The maximum number of characters of a schema as JSON."""
LONGEST_NAME = 128
MOST_TOOLS = 1_000
FAULT = "hermes.fault"
"""The field of a listed tool that holds, as a clause, what is wrong with its schema."""
INSTRUCTIONS = "(instructions)"
"""The name under which a server's instructions are pinned, as if they were a tool."""
DEEPEST = 24
SCALARS = ("string", "number", "integer", "boolean", "array")
"""Schema types that are not an object, and so cannot hold the arguments of a tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """One tool of a server."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    digest: str
    """The hash of everything about the tool that the model receives."""
    suspicion: str = ""
    """The passage of its texts that reads like an instruction to the model; empty if none does."""

    @property
    def model_text(self) -> str:
        """The text about the tool for the model: its description, then its parameters as JSON."""
        schema = json.dumps(self.parameters, indent=2, sort_keys=True, ensure_ascii=False)
        return f"{self.description}\n\nParameters:\n{schema}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolListing:
    """The usable tools of a server, and why others were left out."""

    tools: tuple[ToolDefinition, ...]
    problems: tuple[str, ...] = ()


def read_tools(given: Sequence[Any]) -> ToolListing:
    """Return the usable tools in a server's list, in its order. Of tools with the same name, the first is
    used.

    A schema with invalid parts is used as far as possible.
    """
    found: dict[str, ToolDefinition] = {}
    problems: list[str] = []
    if len(given) > MOST_TOOLS:
        problems.append(f"it lists {len(given):,} tools, of which the first {MOST_TOOLS:,} are taken")
    for each in given[:MOST_TOOLS]:
        name, wrong = "", "it is not an object"
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
    """Return why a tool cannot be offered; empty if it can."""
    if not name.strip():
        return "it has no name"
    if len(name) > LONGEST_NAME or clean(name) != name:
        return "its name is too long or holds control characters"
    if not isinstance(schema, Mapping):
        return "its schema is not an object"
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
    schema = sound(_clean_texts(given["inputSchema"]))
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


def _instructions(said: Any) -> ToolDefinition | None:
    if not isinstance(said, str) or not clean(said).strip():
        return None
    return _definition(INSTRUCTIONS, {"description": said, "inputSchema": {}})


def _suspicion(texts: Iterable[str]) -> str:
    """Return a description of the first passage that reads like an instruction to the model; empty without
    one.

    Each text is checked separately, so that words of two texts are not read as one sentence.
    """
    found = next(
        (each for text in texts for each in scan(text) if each.severity in ("high", "critical")), None
    )
    return "" if found is None else f"{found.rule}: {clean(found.excerpt)}"


def _clean_texts(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): _clean_texts(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_clean_texts(each) for each in value]
    return value


def _texts(value: Any) -> list[str]:
    """Return all texts in a schema, in order."""
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


Standing = Literal["ready", "changed", "suspicious"]
MOST_PROMPTS = 500
MOST_AGREED = 5_000
"""The maximum number of a server's tools approved automatically, removed ones included; later ones wait."""
LONGEST_TEXT = 20_000
"""The maximum length in characters of a tool's stored text; changes to a longer one are not shown by line."""
MOST_TEXT = 4_000_000
"""The maximum total length in characters of a server's stored texts; the oldest approvals are dropped."""
MOST_SHOWN = 100_000
"""The maximum total length in characters of all differences of a server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptArgument:
    """One argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDefinition:
    """A prompt that a server offers."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCatalog:
    """The known tools and prompts of one server, and which tools are approved."""

    listed: Mapping[str, Any] = field(default_factory=dict)
    """The lists that the server sent, unchanged: `tools` and `prompts`."""
    agreed: Mapping[str, str] = field(default_factory=dict)
    """The hash of each approved tool by name, including tools that no longer exist."""
    told: Mapping[str, str] = field(default_factory=dict)
    """The text of each tool when it was approved; too long ones are not stored."""
    differences: Mapping[str, str] = field(default_factory=dict)
    """The changes by tool since its approval, as a unified diff or a sentence. Text from outside."""
    able: tuple[str, ...] = ()
    """The server's capabilities: tools, prompts, resources, logging."""
    tools: tuple[ToolDefinition, ...] = ()
    instructions: ToolDefinition | None = None
    """The server's instructions on all its tools, which also need approval; None if there are none."""
    prompts: tuple[PromptDefinition, ...] = ()
    problems: tuple[str, ...] = ()
    """Descriptions of list entries that cannot be used, as clauses."""

    def standing(self, tool: ToolDefinition) -> Standing:
        """Return `ready` if a tool may be used, otherwise why it may not."""
        if self.agreed.get(tool.name) == tool.digest:
            return "ready"
        return "changed" if tool.name in self.agreed else "suspicious"

    def ready(self) -> tuple[ToolDefinition, ...]:
        """Return the tools that may be used."""
        return tuple(tool for tool in self.tools if self.standing(tool) == "ready")

    @property
    def pinned(self) -> tuple[ToolDefinition, ...]:
        """Everything that needs approval: the tools, and the instructions if there are any."""
        return self.tools if self.instructions is None else (*self.tools, self.instructions)

    @property
    def note(self) -> str:
        """The instructions that a model may read; empty if there are none."""
        said = self.instructions
        return said.description.strip() if said is not None and self.standing(said) == "ready" else ""

    def parked_tools(self) -> tuple[ToolDefinition, ...]:
        """Return the tools that wait for the user's approval, and the instructions if they do."""
        return tuple(tool for tool in self.pinned if self.standing(tool) != "ready")

    def accept(self, names: Sequence[str] | None = None) -> ServerCatalog:
        """Return the catalog with the named tools approved in their current form; without `names`, all
        tools.
        """
        now = [tool for tool in self.pinned if names is None or tool.name in names]
        agreed = {**self.agreed, **{tool.name: tool.digest for tool in now}}
        told = _kept_texts(self.told, now)
        return replace(self, agreed=agreed, told=told, differences=_differences(agreed, told, self.pinned))

    @property
    def parked_digest(self) -> str:
        """One hash of all parked tools, so that an approval applies to exactly what was shown."""
        parts = "\n".join(sorted(f"{tool.name}\0{tool.digest}" for tool in self.parked_tools()))
        return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


def merge_listing(
    before: ServerCatalog | None, given: Mapping[str, Any], able: Sequence[str]
) -> ServerCatalog:
    """Return the catalog updated with a server's new list. Pure."""
    listing = read_tools(given.get("tools") or [])
    agreed = dict(before.agreed) if before is not None else {}
    said = _instructions(given.get("instructions"))
    every = listing.tools if said is None else (*listing.tools, said)
    first = [tool for tool in every if tool.name not in agreed and not tool.suspicion]
    first = first[: max(MOST_AGREED - len(agreed), 0)]
    agreed |= {tool.name: tool.digest for tool in first}
    told = _kept_texts(before.told if before is not None else {}, first)
    return ServerCatalog(
        listed={
            **{key: given.get(key) or [] for key in ("tools", "prompts")},
            "instructions": "" if said is None else str(given["instructions"])[:LARGEST_SCHEMA],
        },
        agreed=agreed,
        told=told,
        differences=_differences(agreed, told, every),
        able=tuple(able),
        tools=listing.tools,
        instructions=said,
        prompts=_prompts(given.get("prompts") or []),
        problems=listing.problems,
    )


def catalog_path(folder: Path, config: ServerConfig) -> Path:
    """Return the path of a server's catalog. It depends on the server's identity, not only on its name."""
    return folder / "catalogs" / f"{config.name}-{config.identity[:16]}.json"


def load_catalog(folder: Path, config: ServerConfig) -> ServerCatalog | None:
    """Return the stored catalog of a server; None if there is none. Reads the disk."""
    data = read_private(catalog_path(folder, config))
    agreed, given, able = data.get("agreed"), data.get("listed"), data.get("able")
    if not isinstance(agreed, dict) or not isinstance(given, dict) or not isinstance(able, list):
        return None
    kept = ServerCatalog(
        agreed={str(key): str(value) for key, value in agreed.items()}, told=_unpack(data.get("texts"))
    )
    found = merge_listing(kept, given, [str(each) for each in able])
    # What was not agreed to when it was listed is not agreed to by being read again.
    return replace(
        found,
        agreed=kept.agreed,
        told=kept.told,
        differences=_differences(kept.agreed, kept.told, found.pinned),
    )


def save_catalog(folder: Path, config: ServerConfig, catalog: ServerCatalog) -> None:
    """Write the catalog of a server to its file. Raises `ConfigError`."""
    data = {
        "version": 2,
        "listed": catalog.listed,
        "agreed": catalog.agreed,
        "texts": base64.b64encode(zlib.compress(json.dumps(catalog.told).encode("ascii"))).decode("ascii"),
        "able": list(catalog.able),
    }
    write_private(catalog_path(folder, config), data)


def forget_catalog(folder: Path, config: ServerConfig) -> None:
    """Delete the stored catalog of a server."""
    catalog_path(folder, config).unlink(missing_ok=True)


def _kept_texts(before: Mapping[str, str], agreed: Iterable[ToolDefinition]) -> dict[str, str]:
    """Return the stored texts with those of newly approved tools.

    The oldest are dropped if there is not enough room.
    """
    texts = dict(before)
    for tool in agreed:
        texts.pop(tool.name, None)
        if len(told := tool.model_text) <= LONGEST_TEXT:
            texts[tool.name] = told
    room = MOST_TEXT
    newest: dict[str, str] = {}
    for name, text in reversed(texts.items()):
        if (room := room - len(text)) < 0:
            break
        newest[name] = text
    return dict(reversed(newest.items()))


def _differences(
    agreed: Mapping[str, str], told: Mapping[str, str], tools: Iterable[ToolDefinition]
) -> dict[str, str]:
    """Return, by tool, the lines that changed since the tool was approved."""
    found: dict[str, str] = {}
    room = MOST_SHOWN
    for tool in tools:
        if tool.name in agreed and agreed[tool.name] != tool.digest:
            found[tool.name] = _difference(told.get(tool.name), tool, room)
            room = max(room - len(found[tool.name]), 0)
    return found


def _difference(before: str | None, tool: ToolDefinition, room: int) -> str:
    if before is None:
        lines = "".join(f"  {line}\n" for line in tool.model_text.splitlines())
        return shorten_diff(f"What it said when you agreed was not kept. It says now:\n{lines}", room)
    diff = diff_texts(before, tool.model_text, f"{tool.name} (agreed)", f"{tool.name} (now)").text
    if not diff:
        return (
            "The change is in what the model is not shown: characters that cannot be seen, or text beyond "
            f"{LONGEST_DESCRIPTION:,} characters.\n"
        )
    return shorten_diff(diff, room)


def _unpack(packed: Any) -> dict[str, str]:
    """Return the stored texts from their packed form; empty if they cannot be read."""
    if not isinstance(packed, str):
        return {}
    try:
        text = zlib.decompressobj().decompress(base64.b64decode(packed), LARGEST)
        found = json.loads(text)
    except (ValueError, zlib.error, RecursionError):
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _prompts(given: Sequence[Any]) -> tuple[PromptDefinition, ...]:
    found: dict[str, PromptDefinition] = {}
    for each in given[:MOST_PROMPTS]:
        if not isinstance(each, Mapping) or not isinstance(each.get("name"), str) or not each["name"].strip():
            continue
        name = clean(each["name"])[:128]
        arguments = tuple(
            PromptArgument(
                name=clean(str(one.get("name", "")))[:128],
                description=clean(str(one.get("description") or ""))[:500],
                required=one.get("required") is True,
            )
            for one in (each.get("arguments") or [])[:50]
            if isinstance(one, Mapping)
        )
        description = clean(str(each.get("description") or each.get("title") or ""))[:1_000]
        found.setdefault(name, PromptDefinition(name=name, description=description, arguments=arguments))
    return tuple(found.values())


PREFIX = "mcp__"
LONGEST = 64
"""The maximum length in characters of a tool name that every provider accepts."""
_HASH = 8
_FOREIGN = lazy_pattern(r"[^a-zA-Z0-9_-]")

ToolKey = tuple[str, str]
"""The names of server and tool, as the server gives them."""


def plain_name(server: str, tool: str) -> str:
    """Return `mcp__server__tool`, with `_` for characters that providers reject.

    A name that is too long is cut, and a hash is appended.
    """
    name = PREFIX + _FOREIGN.sub("_", server) + "__" + _FOREIGN.sub("_", tool)
    return name if len(name) <= LONGEST else _hash_name(name, (server, tool))


def is_of(name: str, server: str) -> bool:
    """Return whether a tool with this name could belong to the server."""
    return name.startswith(PREFIX + _FOREIGN.sub("_", server) + "__")


def tool_names(keys: Iterable[ToolKey]) -> dict[ToolKey, str]:
    """Return the name of each tool for the model; names that would be equal each get a hash at the end."""
    plain = {key: plain_name(*key) for key in keys}
    count = Counter(plain.values())
    return {key: name if count[name] == 1 else _hash_name(name, key) for key, name in plain.items()}


def _hash_name(name: str, key: ToolKey) -> str:
    mark = hashlib.sha256("\0".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: LONGEST - _HASH - 1]}_{mark}"

"""Tools that a script may call, and the Python functions generated for them."""

from __future__ import annotations

import builtins
import keyword
import marshal
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tools.text.safe_text import clean
from tools.text.words import one_line

ALLOWED = frozenset(
    {
        "web_search",
        "web_extract",
        "read_file",
        "write_file",
        "search",
        "patch",
        "terminal",
        "browser_navigate",
        "browser_snapshot",
        "browser_click",
        "browser_type",
        "browser_scroll",
        "browser_back",
        "browser_press",
    }
)
"""Tools that scripts may call. The others need a reader, the user, or money for each call."""

ALIASES = {"search_files": "search"}

EXCLUDED = frozenset(
    {
        "browser_close",
        "browser_get_images",
        "browser_vision",
        "vision_analyze",
        "mixture_of_agents",
        "image_generate",
        "text_to_speech",
        "process",
        "skills_list",
        "skill_view",
        "skill_manage",
        "schedule_cronjob",
        "list_cronjobs",
        "remove_cronjob",
        "cronjob",
        "send_message",
        "todo_write",
        "todo_read",
        "clarify",
        "execute_code",
        "delegate_task",
        "memory",
    }
)
"""Tools that are never for scripts, whether or not this session has them."""

MCP_PREFIX = "mcp_"
"""The prefix of MCP tools, which are for scripts too."""

PASSED_ON = {"terminal": frozenset({"command", "timeout", "workdir"})}
"""Tools of which scripts get only some parameters, because their commands run in the foreground."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools one script may call. `known` are the names of other registered tools, which get a better
    refusal.
    """

    tools: tuple[Mapping[str, Any], ...]
    known: frozenset[str] = frozenset()

    @classmethod
    def of(cls, definitions: Iterable[Mapping[str, Any]], known: frozenset[str] = frozenset()) -> Offer:
        """Select the definitions that scripts may use, by `for_scripts` or by name.

        A name that occurs twice counts once.
        """
        chosen: dict[str, Mapping[str, Any]] = {}
        for definition in definitions:
            if definition.get("for_scripts") or is_allowed(definition["name"]):
                chosen.setdefault(definition["name"], definition)
        return cls(tuple(chosen.values()), known)

    @property
    def names(self) -> list[str]:
        return [tool["name"] for tool in self.tools]

    def resolve(self, name: str) -> str:
        """Return the tool that an alias stands for; any other name unchanged."""
        return ALIASES.get(name, name)

    def refusal(self, name: str) -> str | None:
        """Return why `name` cannot be called; None if it can."""
        if name in self.names:
            return None
        if name in EXCLUDED or (name in self.known and not is_allowed(name)):
            return f"Tool '{name}' is not available in execute_code. Use it as a normal tool call instead."
        return f"Unknown tool: {name}. Available: {', '.join(self.names) or 'none'}"


def is_allowed(name: str) -> bool:
    """Return whether scripts may call the tool `name` if a session has it."""
    return name in ALLOWED or name.startswith(MCP_PREFIX)


def restrict(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return `arguments` without those that make no sense in a script, such as `background`."""
    passed = PASSED_ON.get(name)
    if passed is None:
        return arguments
    return {key: value for key, value in arguments.items() if key in passed}


FILE = "hermes_tools.py"

_HELPERS = Path(__file__).parent / "child" / "hermes_child" / "helpers.py"
_HELPER_NAMES = ["parse_json", "shell_quote", "retry", "gather"]
_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "object": "dict[str, Any]",
    "null": "None",
}
_WIDTH = 100
_HEAD = '''"""The tools of the agent, for this script.

Every function runs one tool and returns its result, a dict. A call that fails
returns {"error": "..."} and does not raise; RuntimeError means that the agent has
gone away. Calls may be made from several threads at once.
"""
from __future__ import annotations

'''


@lru_cache(maxsize=8)
def _helpers() -> str:
    return _HELPERS.read_text("utf-8")


def generate(offer: Offer) -> str:
    """Return the source of the module for the offered tools. The child must add `_call(tool, arguments)`."""
    taken = {*_HELPER_NAMES, *keyword.kwlist, *dir(builtins)}
    functions: list[str] = []
    names: list[str] = []
    for tool in offer.tools:
        name = identifier(tool["name"], taken)
        taken.add(name)
        names.append(name)
        functions.append(_function(name, tool))
    aliases = [
        f"{alias} = {target}\n" for alias, target in ALIASES.items() if target in names and alias not in names
    ]
    exported = f"__all__ = {sorted([*names, *_HELPER_NAMES])!r}\n"
    return _HEAD + exported + "\n\n" + "\n\n".join([_helpers(), *functions, "".join(aliases)])


def compiled(source: str) -> bytes:
    """Return the module's code as `marshal` data for interpreters of this version; it loads faster."""
    return marshal.dumps(compile(source, FILE, "exec", dont_inherit=True))


def identifier(name: str, taken: set[str] | frozenset[str] = frozenset()) -> str:
    """Return `name` as a free Python name: `from` becomes `from_`, `list-files` `list_files`."""
    chosen = re.sub(r"[^0-9A-Za-z_]", "_", name).lstrip("_") or "tool"
    if chosen[0].isdigit():
        chosen = "n" + chosen
    while keyword.iskeyword(chosen) or chosen in taken:
        chosen += "_"
    return chosen


def _function(name: str, tool: Mapping[str, Any]) -> str:
    parameters = _Parameters.of(tool)
    strips = tool["name"] in PASSED_ON
    signature = [*parameters.signature(), *(["**_stripped"] if strips else [])]
    joined = ", ".join(signature)
    if len(joined) > _WIDTH - len(name) - 24:
        joined = "\n    " + ",\n    ".join(signature) + ("" if strips else ",") + "\n"
    lines = [
        f"def {name}({joined}) -> dict[str, Any]:",
        textwrap.indent(_docstring(tool, parameters, strips), "    "),
        f"    _arguments = {{{', '.join(f'{own!r}: {python}' for own, python, _ in parameters.required)}}}",
    ]
    for own, python, _ in parameters.optional:
        lines += [f"    if {python} is not None:", f"        _arguments[{own!r}] = {python}"]
    lines.append(f"    return _call({tool['name']!r}, _arguments)\n")
    return "\n".join(lines)


class _Parameters:
    """Parameters as (name in the schema, name in Python, schema), the required ones first."""

    def __init__(
        self, required: list[tuple[str, str, Mapping]], optional: list[tuple[str, str, Mapping]]
    ) -> None:
        self.required = required
        self.optional = optional

    @classmethod
    def of(cls, tool: Mapping[str, Any]) -> _Parameters:
        schema = tool.get("parameters") or {}
        properties = schema.get("properties")
        wanted = PASSED_ON.get(tool["name"])
        needed = schema.get("required")
        needed = needed if isinstance(needed, list) else []
        required: list[tuple[str, str, Mapping]] = []
        optional: list[tuple[str, str, Mapping]] = []
        taken: set[str] = set()
        for own, kind in (properties if isinstance(properties, Mapping) else {}).items():
            if wanted is not None and own not in wanted:
                continue
            python = identifier(own, taken)
            taken.add(python)
            kind = kind if isinstance(kind, Mapping) else {}
            (required if own in needed else optional).append((own, python, kind))
        return cls(required, optional)

    def signature(self) -> list[str]:
        parts = [f"{python}: {annotation(kind)}" for _, python, kind in self.required]
        for _, python, kind in self.optional:
            default = _default(kind)
            shown = annotation(kind) + (" | None" if default == "None" else "")
            parts.append(f"{python}: {shown} = {default}")
        return parts


def annotation(schema: Mapping[str, Any], depth: int = 0) -> str:
    """Return the Python type of a JSON schema as text, `Any` if there is none."""
    if depth > 4:
        return "Any"
    choices = schema.get("enum")
    if isinstance(choices, list) and 0 < len(choices) <= 12:
        if all(isinstance(choice, (str, int, bool)) for choice in choices):
            return f"Literal[{', '.join(ascii(choice) for choice in choices)}]"
        return "Any"
    kind = schema.get("type")
    if isinstance(kind, list):
        return (
            " | ".join(dict.fromkeys(annotation({**schema, "type": one}, depth + 1) for one in kind)) or "Any"
        )
    several = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(several, list) and kind is None:
        shown = [annotation(one, depth + 1) for one in several if isinstance(one, Mapping)]
        return " | ".join(dict.fromkeys(shown)) or "Any"
    if kind == "array":
        items = schema.get("items")
        return f"list[{annotation(items, depth + 1) if isinstance(items, Mapping) else 'Any'}]"
    return _TYPES.get(kind, "Any") if isinstance(kind, str) else "Any"


def _default(schema: Mapping[str, Any]) -> str:
    """Return the default of a parameter as Python text.

    A mutable or unusual default is left to the tool.
    """
    default = schema.get("default")
    return ascii(default) if isinstance(default, (str, bool, int)) else "None"


def _docstring(tool: Mapping[str, Any], parameters: _Parameters, strips: bool) -> str:
    lines = [first_sentence(str(tool.get("description") or tool["name"]))]
    described = [
        textwrap.fill(f"{python}: {described}", _WIDTH, initial_indent="    ", subsequent_indent="        ")
        for _, python, kind in [*parameters.required, *parameters.optional]
        if (described := one_line(str(kind.get("description") or "")))
    ]
    if described:
        lines += ["", *described]
    if strips:
        lines += ["", "Runs in the foreground; background, pty and the like have no effect in a script."]
    text = "\n".join(lines).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if text.endswith('"'):
        text += " "
    return f'"""{text}\n"""' if len(lines) > 1 else f'"""{text}"""'


def first_sentence(text: str) -> str:
    """Return the first sentence of a description, cleaned, on one line of at most 300 characters."""
    line = " ".join(clean(text).split("\n\n", 1)[0].split())
    end = re.search(r"[.!?](?=\s+[^a-z\s])", line)
    return (line[: end.end()] if end else line)[:300]

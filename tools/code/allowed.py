"""Tools a script may call, and with which arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

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
"""Tools that read, filter and process. Everything else needs a reader, a person, or money for each call."""

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
"""Tools that exist but are no business of a script, whether or not this session has them."""

MCP_PREFIX = "mcp_"
"""Tools of MCP servers are for scripts too."""

PASSED_ON = {"terminal": frozenset({"command", "timeout", "workdir"})}
"""Tools of which a script gets only some parameters: commands of a script run in the foreground."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools one script may call. `known` are further registered names, for a better refusal."""

    tools: tuple[Mapping[str, Any], ...]
    known: frozenset[str] = frozenset()

    @classmethod
    def of(cls, definitions: Iterable[Mapping[str, Any]], known: frozenset[str] = frozenset()) -> Offer:
        """What of `definitions` is for scripts: they say so in `for_scripts`, or their name does.

        A name that comes twice counts once.
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
        """The name of the tool that `name` means."""
        return ALIASES.get(name, name)

    def refusal(self, name: str) -> str | None:
        """Why `name` cannot be called, or None when it can."""
        if name in self.names:
            return None
        if name in EXCLUDED or (name in self.known and not is_allowed(name)):
            return f"Tool '{name}' is not available in execute_code. Use it as a normal tool call instead."
        return f"Unknown tool: {name}. Available: {', '.join(self.names) or 'none'}"


def is_allowed(name: str) -> bool:
    """Whether scripts may call the tool `name` where a session has it."""
    return name in ALLOWED or name.startswith(MCP_PREFIX)


def restrict(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """`arguments` without those that make no sense in a script, such as `background`."""
    passed = PASSED_ON.get(name)
    if passed is None:
        return arguments
    return {key: value for key, value in arguments.items() if key in passed}

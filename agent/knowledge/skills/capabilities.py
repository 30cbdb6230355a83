"""The capabilities of a skill while it is in force: `allowed-tools` as a set.

The names are those of Hermes or of other programs; unknown ones allow nothing. A
pattern behind a name, as in `Bash(git:*)`, narrows what may be done by it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.knowledge.skills.skill import Skill
from agent.safety.permissions.rules import PermissionRule, RuleSet
from agent.safety.permissions.subjects import RuleSubject, Setting
from tools.services.actions import Action, DeletePath, Fetch, ReadPath, RunCommand, SendInput, WritePath
from tools.text.safe_text import clean

OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "bash": ("terminal", "process"),
    "bashoutput": ("process",),
    "killshell": ("process",),
    "shell": ("terminal", "process"),
    "read": ("read_file",),
    "edit": ("patch", "write_file"),
    "multiedit": ("patch", "write_file"),
    "write": ("patch", "write_file"),
    "notebookedit": ("patch", "write_file"),
    "grep": ("search",),
    "glob": ("search",),
    "ls": ("search",),
    "search_files": ("search",),
    "webfetch": ("web_extract",),
    "websearch": ("web_search",),
    "task": ("delegate_task", "subagents"),
    "agent": ("delegate_task", "subagents"),
    "todowrite": ("todo_write", "todo_read"),
    "todoread": ("todo_read",),
    "askuserquestion": ("clarify",),
    "skill": ("skill_view",),
}
"""Tools of other programs in lower case, and ours that do the same."""

_ENTRY = re.compile(r"([^\s()]+)(?:\((.*)\))?", re.DOTALL)
_RULED: tuple[tuple[tuple[type[Action], ...], str, frozenset[str]], ...] = (
    ((RunCommand, SendInput), "terminal", frozenset({"terminal", "process"})),
    ((ReadPath,), "read_file", frozenset({"read_file", "search"})),
    ((WritePath, DeletePath), "write_file", frozenset({"write_file", "patch"})),
    ((Fetch,), "fetch", frozenset({"web_extract", "web_search", "web_crawl"})),
)
"""Kinds of actions, the name that rules about them have, and the tools whose patterns are about them."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What may be called while one skill is in force."""

    skill: str
    tools: frozenset[str]
    patterns: Mapping[str, tuple[str, ...]]
    """For tools that may be used in part: the patterns as they were written."""
    unknown: tuple[str, ...] = ()
    """Entries that name no tool."""
    rules: RuleSet | None = None
    """The patterns, compiled."""

    def refusal(self, tool: str) -> str:
        """Why a tool may not be called, in a sentence; empty if it may."""
        if tool in self.tools:
            return ""
        listed = ", ".join(sorted(self.tools)) or "no tools at all"
        return (
            f"The skill {self.skill} allows only {listed} while it is in force, so {tool} is not run; "
            "go on without it, or tell the user."
        )

    def limit(self, action: Action) -> str:
        """Why an action of an allowed tool goes beyond what is allowed, as a clause; empty if it does not."""
        for kinds, rule, tools in _RULED:
            narrowed = [each for each in sorted(tools & self.patterns.keys()) if each == action.tool]
            if isinstance(action, kinds) and narrowed and self.rules is not None:
                if self.rules.allowed(action):
                    return ""
                written = ", ".join(self.patterns[narrowed[0]])
                return f"the skill {self.skill} allows {rule} only as {written}"
        return ""


def capabilities(skill: Skill, known: Collection[str], workspace: Path, home: Path) -> Capabilities | None:
    """What a skill allows; None if it says nothing about it. `known` are the tools there are."""
    entries = skill.allowed_tools
    if entries is None or "*" in entries:
        return None
    whole: set[str] = set()
    partly: dict[str, list[str]] = {}
    unknown: list[str] = []
    setting = Setting(workspace, home)
    rules: list[PermissionRule] = []
    for entry in entries:
        name, pattern = _parted(entry)
        tools = _named(name, known)
        if not tools:
            unknown.append(clean(entry)[:80])
        elif pattern is None:
            whole.update(tools)
        else:
            made = list(_rules(tools, pattern, setting))
            if not made:
                unknown.append(clean(entry)[:80])
                continue
            rules += made
            for tool in tools:
                partly.setdefault(tool, []).append(clean(entry)[:80])
    patterns = {tool: tuple(texts) for tool, texts in partly.items() if tool not in whole}
    tools = frozenset(whole | patterns.keys())
    return Capabilities(skill.name, tools, patterns, tuple(unknown), RuleSet(rules, setting))


def _parted(entry: str) -> tuple[str, str | None]:
    match = _ENTRY.fullmatch(entry.strip())
    if match is None:
        return entry, None
    pattern = None if match[2] is None else match[2].strip()
    return match[1], None if pattern in ("", "*", "**", ":*") else pattern


def _named(name: str, known: Collection[str]) -> tuple[str, ...]:
    """The tools a name means; those of servers need not be there yet."""
    if name in known or name.startswith("mcp__"):
        return (name,)
    return OTHER_NAMES.get(name.lower(), ())


def _rules(tools: Iterable[str], pattern: str, setting: Setting) -> Iterable[PermissionRule]:
    """The pattern as rules that allow; none if it cannot be understood, so that it allows nothing."""
    names = {rule for _, rule, about in _RULED if about & set(tools)}
    for name in sorted(names):
        for text in _translated(name, pattern):
            try:
                subject = RuleSubject(f"{name}({text})", setting)
            except ValueError:
                continue
            yield PermissionRule(text, "allow", subject, "permissions.yaml", 0)


def _translated(name: str, pattern: str) -> tuple[str, ...]:
    """A pattern of another program as patterns of rules."""
    if name == "terminal" and pattern.endswith(":*"):
        return pattern.removesuffix(":*"), f"{pattern.removesuffix(':*')} *"
    if name == "terminal" and pattern.endswith(" *"):
        return pattern.removesuffix(" *"), pattern
    if name == "fetch" and pattern.startswith("domain:"):
        host = pattern.removeprefix("domain:").strip()
        return f"https://{host}/**", f"http://{host}/**"
    return (pattern,)


class CapabilitiesInForce:
    """The capabilities of the skills of one agent's turn: what one of them forbids is forbidden."""

    def __init__(self, free: Collection[str]) -> None:
        """`free` are tools that have no effect, which no skill forbids."""
        self._free = frozenset(free)
        self._found: dict[str, Capabilities] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The skills that allow only some tools."""
        return tuple(self._found)

    def enter(self, found: Capabilities | None) -> None:
        """A skill is in force from now on, until `leave`."""
        if found is not None:
            self._found[found.skill] = found

    def leave(self) -> None:
        """Another turn begins: nothing is in force."""
        self._found.clear()

    def refusal(self, tool: str) -> str:
        """Why a tool may not be called now, in a sentence; empty if it may."""
        if tool in self._free:
            return ""
        return next((reason for each in self._found.values() if (reason := each.refusal(tool))), "")

    def limit(self, action: Action) -> str:
        """Why an action may not happen now, as a clause; empty if it may."""
        if not self._found or action.tool in self._free:
            return ""
        for each in self._found.values():
            if action.tool not in each.tools:
                return f"the skill {each.skill} does not allow {action.tool} while it is in force"
            if reason := each.limit(action):
                return reason
        return ""

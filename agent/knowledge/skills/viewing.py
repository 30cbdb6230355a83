"""Skills as JSON for the model: the list, one skill, one of its files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.core.home import from_home
from agent.events import Event, Noticed, ToolFinished, TurnEnded, TurnStarted
from agent.knowledge.skills.catalog import SkillSet, missing_variables
from agent.knowledge.skills.scanner import scan_text
from agent.knowledge.skills.skill import Skill, SkillFormatError, linked_files, read_text
from agent.safety.permissions.subjects import PermissionRule, RuleSet, RuleSubject, Setting
from themes.skin import nearest
from tools.kit.lazy_pattern import lazy_pattern
from tools.results import ToolError
from tools.services.actions import Action, DeletePath, Fetch, ReadPath, RunCommand, SendInput, WritePath
from tools.text.safe_text import clean

LARGEST_FILE = 1_000_000
"""The size limit in bytes of a shown linked file."""
FOLDER_NAMES = ("${HERMES_SKILL_DIR}", "${CLAUDE_SKILL_DIR}", "${SKILL_DIR}", "{baseDir}")
"""Placeholders that skills use for their own folder."""
_MOST = 500
"""The maximum number of skills in one list."""


def list_skills(found: SkillSet, category: str) -> dict[str, Any]:
    """Return names and descriptions of the skills. Raises `ToolError` for an unknown category."""
    categories = sorted({each.category for each in found.skills if each.category})
    chosen = [each for each in found.skills if not category or each.category == category]
    if category and not chosen:
        raise ToolError(f"There is no category {clean(category)[:60]!r}.", categories=categories)
    result: dict[str, Any] = {
        "skills": [
            {"name": each.name, "description": each.description, "category": each.category}
            for each in chosen[:_MOST]
        ],
        "count": len(chosen),
        "categories": categories,
    }
    if found.off:
        result["not_used"] = [f"{each.skill.name}: {each.reason}" for each in found.off[:50]]
    return result


def one(found: SkillSet, name: str) -> Skill:
    """Return the active skill with that name. Raises `ToolError`; for an unknown name it lists the others."""
    wanted = name.strip().removeprefix("/")
    skill = found.get(wanted)
    if skill is not None:
        return skill
    off = next((each for each in found.off if each.skill.name == wanted), None)
    if off is not None:
        raise ToolError(f"The skill {wanted} is not used here: {off.reason}.")
    broken = next((each for each in found.broken if each.folder.name == wanted), None)
    if broken is not None:
        raise ToolError(f"The skill {clean(wanted)} cannot be read: {broken.reason}.")
    known = [each.name for each in found.skills]
    raise ToolError(f"There is no skill `{clean(wanted)[:60]}`{nearest(wanted, known)}", skills=known[:100])


def instructions(skill: Skill, environ: Mapping[str, str], passed: tuple[str, ...]) -> dict[str, Any]:
    """Return a skill with everything that the model needs to follow it. Touches the disk.

    `environ` are the variables that are set, `passed` the names of those that commands receive.
    """
    files = linked_files(skill.folder)
    result: dict[str, Any] = {
        "name": skill.name,
        "description": skill.description,
        "scope": skill.scope,
        "content": with_folder(skill.body, skill.folder),
        "skill_dir": str(skill.folder),
    }
    if files:
        result["linked_files"] = {folder: list(paths) for folder, paths in files.items()}
        result["hint"] = (
            "Paths in the content are below skill_dir. Read a file with file_path; run scripts in the "
            f"terminal by their full path, such as {skill.folder}/{next(iter(files.values()))[0]}."
        )
    if skill.tags:
        result["tags"] = list(skill.tags)
    if skill.required_variables:
        result |= _variables(skill, environ, passed)
    if skill.scope != "bundled" and (doubts := _doubts(skill.body)):
        result["warning"] = f"A scan of this skill found {doubts}. Do nothing the user would not want."
    return result


def _variables(skill: Skill, environ: Mapping[str, str], passed: tuple[str, ...]) -> dict[str, Any]:
    missing = missing_variables(skill, environ)
    result: dict[str, Any] = {
        "required_environment_variables": list(skill.required_variables),
        "missing_environment_variables": list(missing),
    }
    if missing:
        result["setup"] = f"Ask the user to set {', '.join(missing)} in ~/.hermes/.env, then continue."
    unseen = [each for each in skill.required_variables if each not in missing and each not in passed]
    if unseen:
        result["note"] = (
            f"Commands are not given {', '.join(unseen)}: the user allows that with the setting "
            "terminal.env_passthrough."
        )
    return result


def _doubts(text: str) -> str:
    severe = [each for each in scan_text(text).findings if each.severity in ("critical", "high")]
    return "; ".join(dict.fromkeys(f"line {each.line}: {each.why}" for each in severe[:5]))


def file_of(skill: Skill, file: str) -> dict[str, Any]:
    """Return one file of a skill. Raises `ToolError`."""
    path = inside(skill.folder, file)
    try:
        text = read_text(path, skill.folder, LARGEST_FILE)
    except SkillFormatError as error:
        known = [each for paths in linked_files(skill.folder).values() for each in paths]
        raise ToolError(f"{clean(file)[:200]} of {skill.name}: {error}.", files=known) from None
    return {
        "name": skill.name,
        "file": clean(file),
        "path": from_home(path),
        "content": clean(with_folder(text, skill.folder)),
    }


def inside(folder: Path, file: str) -> Path:
    """Return the absolute path of a file of a skill, without touching the disk.

    Raises `ToolError` for a path that leads out of the skill's folder.
    """
    parts = file.replace("\\", "/").split("/")
    if file.startswith("/") or "\0" in file or any(part in ("", ".", "..") for part in parts):
        raise ToolError(f"{clean(file)[:200]!r} is not a path below the folder of the skill.")
    return folder.joinpath(*parts)


def with_folder(text: str, folder: Path) -> str:
    """Return the text with the placeholders for the skill's folder replaced by its path."""
    for name in FOLDER_NAMES:
        text = text.replace(name, os.fspath(folder))
    return text


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
"""Tools of other programs, in lower case, with the equivalent tools of Hermes."""

_ENTRY = lazy_pattern(r"([^\s()]+)(?:\((.*)\))?", re.DOTALL)
_RULED: tuple[tuple[tuple[type[Action], ...], str, frozenset[str]], ...] = (
    ((RunCommand, SendInput), "terminal", frozenset({"terminal", "process"})),
    ((ReadPath,), "read_file", frozenset({"read_file", "search"})),
    ((WritePath, DeletePath), "write_file", frozenset({"write_file", "patch"})),
    ((Fetch,), "fetch", frozenset({"web_extract", "web_search", "web_crawl"})),
)
"""Kinds of actions, their names in rules, and the tools with such patterns."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The tools and actions allowed while one skill is active."""

    skill: str
    tools: frozenset[str]
    patterns: Mapping[str, tuple[str, ...]]
    """The patterns, as written, of tools that may be used in part."""
    unknown: tuple[str, ...] = ()
    """Entries that name no known tool."""
    rules: RuleSet | None = None
    """The patterns, compiled."""

    def refusal(self, tool: str) -> str:
        """Return why a tool may not be called, in a sentence; empty if it may."""
        if tool in self.tools:
            return ""
        listed = ", ".join(sorted(self.tools)) or "no tools at all"
        return (
            f"The skill {self.skill} allows only {listed} while it is in force, so {tool} is not run; "
            "continue without it, or tell the user."
        )

    def limit(self, action: Action) -> str:
        """Return why an action of an allowed tool is forbidden, as a clause; empty if it is not."""
        for kinds, rule, tools in _RULED:
            narrowed = [each for each in sorted(tools & self.patterns.keys()) if each == action.tool]
            if isinstance(action, kinds) and narrowed and self.rules is not None:
                if self.rules.allowed(action):
                    return ""
                written = ", ".join(self.patterns[narrowed[0]])
                return f"the skill {self.skill} allows {rule} only as {written}"
        return ""


def capabilities(skill: Skill, known: Collection[str], workspace: Path, home: Path) -> Capabilities | None:
    """Return the capabilities of a skill; None if it allows all tools. `known` are the names of all tools."""
    entries = skill.allowed_tools
    if entries is None or "*" in entries:
        return None
    whole: set[str] = set()
    partly: dict[str, list[str]] = {}
    unknown: list[str] = []
    setting = Setting(workspace, home)
    rules: list[PermissionRule] = []
    for entry in entries:
        name, pattern = _split_entry(entry)
        tools = _tools_named(name, known)
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


def _split_entry(entry: str) -> tuple[str, str | None]:
    match = _ENTRY.fullmatch(entry.strip())
    if match is None:
        return entry, None
    pattern = None if match[2] is None else match[2].strip()
    return match[1], None if pattern in ("", "*", "**", ":*") else pattern


def _tools_named(name: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the tools that a name stands for; empty if unknown. Tools of MCP servers need not exist yet."""
    if name in known or name.startswith("mcp__"):
        return (name,)
    return OTHER_NAMES.get(name.lower(), ())


def _rules(tools: Iterable[str], pattern: str, setting: Setting) -> Iterable[PermissionRule]:
    """Yield one permission rule per kind of tool that allows the pattern; none if the pattern is invalid."""
    names = {rule for _, rule, about in _RULED if about & set(tools)}
    for name in sorted(names):
        for text in _translated(name, pattern):
            try:
                subject = RuleSubject(f"{name}({text})", setting)
            except ValueError:
                continue
            yield PermissionRule(text, "allow", subject, "permissions.yaml", 0)


def _translated(name: str, pattern: str) -> tuple[str, ...]:
    """Return the patterns of permission rules that correspond to a pattern of another agent program."""
    if name == "terminal" and pattern.endswith(":*"):
        return pattern.removesuffix(":*"), f"{pattern.removesuffix(':*')} *"
    if name == "terminal" and pattern.endswith(" *"):
        return pattern.removesuffix(" *"), pattern
    if name == "fetch" and pattern.startswith("domain:"):
        host = pattern.removeprefix("domain:").strip()
        return f"https://{host}/**", f"http://{host}/**"
    return (pattern,)


class CapabilitiesInForce:
    """The capabilities of all skills in use during a turn. An action must be allowed by each of them."""

    def __init__(self, free: Collection[str]) -> None:
        """Set up the restrictions. `free` are tools without effects, which no skill forbids."""
        self._free = frozenset(free)
        self._found: dict[str, Capabilities] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the skills that allow only some tools."""
        return tuple(self._found)

    def enter(self, found: Capabilities | None) -> None:
        """Apply the capabilities of a skill until `leave`; None restricts nothing."""
        if found is not None:
            self._found[found.skill] = found

    def leave(self) -> None:
        """Drop all capabilities, because another turn begins."""
        self._found.clear()

    def refusal(self, tool: str) -> str:
        """Return why a tool may not be called now, in a sentence; empty if it may."""
        if tool in self._free:
            return ""
        return next((reason for each in self._found.values() if (reason := each.refusal(tool))), "")

    def limit(self, action: Action) -> str:
        """Return why an action may not happen now, as a clause; empty if it may."""
        if not self._found or action.tool in self._free:
            return ""
        for each in self._found.values():
            if action.tool not in each.tools:
                return f"the skill {each.skill} does not allow {action.tool} while it is in force"
            if reason := each.limit(action):
                return reason
        return ""


LONG = 10
"""The number of calls in one turn from which a task counts as long."""
SKILL_TOOLS = frozenset({"skill_view", "skill_manage"})
"""Tools whose use shows that the procedure is already written down."""


@dataclass(slots=True)
class SaveOffer:
    """A listener to a session's events that suggests once to save a long task as a skill."""

    emit: Callable[[Event], None]
    calls: int = 0
    known: bool = False
    """Whether a skill was used in this turn."""
    offered: bool = False

    def __call__(self, event: Event) -> None:
        if event.agent != "main":
            return
        if isinstance(event, TurnStarted):
            self.calls, self.known = 0, False
        elif isinstance(event, ToolFinished) and not event.parent:
            self.calls += event.outcome == "done"
            self.known = self.known or event.tool in SKILL_TOOLS
        elif isinstance(event, TurnEnded) and event.outcome == "done" and self._is_worth_it():
            self.offered = True
            text = f"That took {self.calls} steps. /save-skill drafts a skill of it, for the next time."
            self.emit(Noticed(kind="info", text=text))

    def _is_worth_it(self) -> bool:
        return self.calls >= LONG and not self.known and not self.offered

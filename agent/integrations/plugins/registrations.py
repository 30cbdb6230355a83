"""Registrations of a plugin's code as data, so that a session knows them before the process starts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from agent.core.config.hook_list import HOOK_EVENTS, HookEvent
from agent.core.home import PRIVATE_FILE, Home, private_folder
from agent.errors import ConfigError
from agent.integrations.plugins.files import (
    TOOL_NAME,
    DeclaredCapabilities,
    OutsideError,
    SkippedPart,
    is_name,
    read_part,
)
from agent.knowledge.context.layer import PromptSection
from themes.loader import PLUGINS, list_skins
from tools.kit.files import write_atomically
from tools.text.safe_text import clean
from tools.text.words import brief

MOST = 64
"""The maximum number of registrations of one kind."""
LONGEST_DESCRIPTION = 4_000
LONGEST_SECTION = 4_000
"""The maximum number of characters of a section of the system prompt."""
LARGEST_SCHEMA = 20_000
"""The maximum number of characters of a tool's parameters as JSON."""
PROVIDER_KINDS = ("search", "memory", "image", "speech", "transcribe")
"""The kinds of services that a plugin can provide."""
_WORK = {
    "search": "answers searches of the web",
    "memory": "keeps the notes of memory, in place of your files",
    "image": "draws pictures",
    "speech": "reads texts aloud",
    "transcribe": "writes down recordings",
}
"""The description of each kind of service when the user is asked to approve it."""


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A tool for the model."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RegisteredCommand:
    """A slash command, or a command of `hermes`."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class RegisteredProvider:
    """A service of some kind that Hermes can use."""

    kind: str
    name: str

    @property
    def sentence(self) -> str:
        """A description of the service for the user who is asked to approve it."""
        return f"{self.name} ({self.kind}) {_WORK[self.kind]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registrations:
    """Everything that one plugin registered, after checking."""

    tools: tuple[RegisteredTool, ...] = ()
    commands: tuple[RegisteredCommand, ...] = ()
    cli_commands: tuple[RegisteredCommand, ...] = ()
    events: tuple[HookEvent, ...] = ()
    """The events for which it has hooks."""
    sections: tuple[PromptSection, ...] = ()
    skills: tuple[str, ...] = ()
    """Folders of skills, relative to the root of the plugin."""
    skins: tuple[str, ...] = ()
    """Files of skins, relative to the root of the plugin."""
    providers: tuple[RegisteredProvider, ...] = ()
    skipped: tuple[SkippedPart, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the registrations as JSON data, for files and listings."""
        return {each.name: [_plain(entry) for entry in getattr(self, each.name)] for each in fields(self)}

    @classmethod
    def of(cls, data: Any) -> Registrations:
        """Rebuild registrations from `to_json`'s result. Raises `ValueError`, `KeyError` or `TypeError`."""
        return cls(
            tools=tuple(RegisteredTool(**each) for each in data["tools"]),
            commands=tuple(RegisteredCommand(**each) for each in data["commands"]),
            cli_commands=tuple(RegisteredCommand(**each) for each in data["cli_commands"]),
            events=tuple(each for each in data["events"] if each in HOOK_EVENTS),
            sections=tuple(PromptSection(**each) for each in data["sections"]),
            skills=tuple(map(str, data["skills"])),
            skins=tuple(map(str, data["skins"])),
            providers=tuple(RegisteredProvider(**each) for each in data["providers"]),
            skipped=tuple(SkippedPart(**each) for each in data["skipped"]),
        )

    def titles(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return the registered names by kind, without empty kinds; the kinds are in words for the user."""
        kinds = (
            ("tools", tuple(each.name for each in self.tools)),
            ("slash commands", tuple(f"/{each.name}" for each in self.commands)),
            ("commands", tuple(f"hermes {each.name}" for each in self.cli_commands)),
            ("hooks", self.events),
            ("sections of the prompt", tuple(each.name for each in self.sections)),
            ("skills", self.skills),
            ("skins", self.skins),
            ("providers", tuple(f"{each.kind} {each.name}" for each in self.providers)),
        )
        return [(title, names) for title, names in kinds if names]


def _plain(entry: Any) -> Any:
    if isinstance(entry, str):
        return entry
    return {each.name: getattr(entry, each.name) for each in fields(entry)}


def check_registrations(entries: Any, granted: DeclaredCapabilities) -> Registrations:
    """Return those registrations from a plugin's process that are well-formed and declared.

    `entries` is untrusted: it should be a list of `{"kind": …, …}`. Rejected entries are listed with a
    reason.
    """
    reader = _Reader(granted)
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict):
            reader.take(entry)
    return reader.result()


class _Reader:
    def __init__(self, granted: DeclaredCapabilities) -> None:
        self._granted = granted
        self._found: dict[str, dict[str, Any]] = {}
        self._skipped: list[SkippedPart] = []

    def take(self, entry: dict[str, Any]) -> None:
        kind, name = str(entry.get("kind")), entry.get("name")
        if not isinstance(name, str):
            name = str(name)
        taken = getattr(self, f"_{kind}", None) if kind in _KINDS else None
        if taken is None:
            self._skip(kind, name, "there is nothing of that kind")
            return
        known = self._found.setdefault(kind, {})
        key = f"{entry.get('provider')} {name}" if kind == "provider" else name
        if key in known and kind != "hook":
            self._skip(kind, name, "it is registered twice")
        elif len(known) >= MOST:
            self._skip(kind, name, f"{MOST} are enough")
        else:
            found = taken(name, entry)
            if isinstance(found, SkippedPart):
                self._skip(kind, name, found.reason)
            else:
                known[key] = found

    def result(self) -> Registrations:
        def of(kind: str) -> tuple[Any, ...]:
            return tuple(self._found.get(kind, {}).values())

        return Registrations(
            tools=of("tool"),
            commands=of("command"),
            cli_commands=of("cli_command"),
            events=of("hook"),
            sections=of("prompt_section"),
            skills=of("skill"),
            skins=of("skin"),
            providers=of("provider"),
            skipped=tuple(self._skipped),
        )

    def _skip(self, kind: str, name: str, reason: str) -> None:
        if len(self._skipped) < MOST:
            self._skipped.append(SkippedPart(f"{brief(kind)} {brief(name)}", reason))

    def _tool(self, name: str, entry: dict[str, Any]) -> RegisteredTool | SkippedPart:
        import json

        if not TOOL_NAME.fullmatch(name):
            return _no("that is not a valid tool name")
        if name not in self._granted.tools:
            return _no("its plugin.yaml does not declare it in capabilities.tools")
        parameters = entry.get("parameters")
        if parameters is None:
            parameters = {"type": "object", "properties": {}}
        if not isinstance(parameters, dict) or parameters.get("type") != "object":
            return _no('its parameters are not a JSON schema of {"type": "object"}')
        if not isinstance(parameters.get("properties", {}), dict):
            return _no("the properties of its parameters are not an object")
        if len(json.dumps(parameters)) > LARGEST_SCHEMA:
            return _no(f"its parameters have more than {LARGEST_SCHEMA:,} characters")
        return RegisteredTool(name, _description(entry), clean_data(parameters))

    def _command(self, name: str, entry: dict[str, Any]) -> RegisteredCommand | SkippedPart:
        if not is_name(name):
            return _no("that is not a valid command name; use a-z, 0-9, - and .")
        return RegisteredCommand(name, _description(entry))

    _cli_command = _command

    def _hook(self, name: str, entry: dict[str, Any]) -> HookEvent | SkippedPart:
        if name not in HOOK_EVENTS:
            return _no("there is no such event")
        if name not in self._granted.events:
            return _no("its plugin.yaml does not declare it in capabilities.events")
        return cast("HookEvent", name)

    def _prompt_section(self, name: str, entry: dict[str, Any]) -> PromptSection | SkippedPart:
        from agent.knowledge.injection import scan

        text = entry.get("text")
        if not isinstance(text, str) or not text.strip():
            return _no("it has no text")
        if len(text) > LONGEST_SECTION:
            return _no(f"it has more than {LONGEST_SECTION:,} characters")
        found = [each for each in scan(text) if each.severity in ("high", "critical")]
        if found:
            return _no(f"it reads like an attack ({found[0].category})")
        return PromptSection(brief(name), clean(text).strip())

    def _skill(self, name: str, entry: dict[str, Any]) -> str | SkippedPart:
        return name if name else _no("it has no path")

    _skin = _skill

    def _provider(self, name: str, entry: dict[str, Any]) -> RegisteredProvider | SkippedPart:
        kind = entry.get("provider")
        if kind not in PROVIDER_KINDS:
            return _no(f"nothing asks providers of that kind; there is {', '.join(PROVIDER_KINDS)}")
        if not is_name(name):
            return _no("that is not a valid provider name; use a-z, 0-9, - and .")
        return RegisteredProvider(str(kind), name)


_KINDS = frozenset({"tool", "command", "cli_command", "hook", "prompt_section", "skill", "skin", "provider"})


def _no(reason: str) -> SkippedPart:
    return SkippedPart("", reason)


def _description(entry: dict[str, Any]) -> str:
    text = entry.get("description")
    return clean(text).strip()[:LONGEST_DESCRIPTION] if isinstance(text, str) else ""


def clean_data(value: Any) -> Any:
    """Return the data with control sequences removed from all texts."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [clean_data(each) for each in value]
    if isinstance(value, dict):
        return {clean(str(key)): clean_data(each) for key, each in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """A slash command of a plugin."""

    name: str
    description: str
    plugin: str


def place(home: Home, root: Path, skins: Sequence[str]) -> tuple[tuple[str, ...], tuple[SkippedPart, ...]]:
    """Copy skins, whose paths are relative to the plugin's folder, into the home; return the paths of the
    copied ones, and the skipped ones.
    """
    taken = {each.name for each in list_skins(home.skins)}
    placed: list[str] = []
    skipped: list[SkippedPart] = []
    for skin in skins:
        name = Path(skin).stem
        try:
            if name in taken:
                raise OutsideError("there is a skin of that name")
            content = read_part(root, skin)
            folder = private_folder(private_folder(home.skins) / PLUGINS)
            write_atomically(folder / f"{name}.yaml", content or b"", PRIVATE_FILE, follow_links=False)
        except (OutsideError, OSError, ConfigError) as error:
            skipped.append(SkippedPart(f"skin {brief(skin)}", str(error).rstrip(".")))
            continue
        taken.add(name)
        placed.append(skin)
    return tuple(placed), tuple(skipped)


def remove(home: Home, skins: Sequence[str]) -> None:
    """Delete the copies of skins in the home."""
    for skin in skins:
        path = home.skins / PLUGINS / f"{Path(skin).stem}.yaml"
        if os.path.lexists(path):
            path.unlink()

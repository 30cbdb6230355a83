"""A plugin as it lies in its folder: read, checked, nothing of it run.

Two forms are read as the same: an Agent Plugin (`plugin.json`, `skills/`, `mcp.json`, and what is ours
in `dev.hermes-tui/`), and a bare folder with `plugin.yaml` and `handler.py`. A part that is wrong is
skipped with a reason and disables no other one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agent.core.config.hook_list import Hook
from agent.integrations.plugins import extras, manifest, servers
from agent.integrations.plugins.capabilities import DeclaredCapabilities
from agent.integrations.plugins.extras import Extras, ExtrasError, read_extras, read_hooks
from agent.integrations.plugins.files import OutsideError, inside, read_part
from agent.integrations.plugins.manifest import NAMESPACE
from agent.integrations.plugins.problem import PluginError, SkippedPart
from agent.integrations.plugins.servers import PluginServer
from agent.knowledge.skills.frontmatter import SkillFormatError, validate
from agent.knowledge.skills.skill import load, read_text
from tools.text.words import brief

SKILLS = "skills"
MOST_SKILLS = 500

PluginForm = Literal["agent-plugin", "short"]


@dataclass(frozen=True, slots=True)
class PluginSkill:
    """A skill of a plugin."""

    name: str
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginPackage:
    """What was read of a plugin. Texts are cleaned of control bytes."""

    name: str
    version: str
    description: str
    root: Path
    """Its folder, without links."""
    form: PluginForm
    skills: tuple[PluginSkill, ...] = ()
    servers: tuple[PluginServer, ...] = ()
    handler: Path | None = None
    """Its code, without links; None if it has none that can be used."""
    hooks: tuple[Hook, ...] = ()
    """Commands that hear of events; they run behind the boundary of the plugin."""
    in_process: bool = False
    """Whether it wants to run within Hermes, without a boundary."""
    capabilities: DeclaredCapabilities = DeclaredCapabilities()  # noqa: RUF009 - frozen
    skipped: tuple[SkippedPart, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether it has code of its own, beside skills and servers."""
        return self.handler is not None or bool(self.hooks)

    def to_json(self) -> dict[str, Any]:
        """What `hermes plugin inspect --json` shows of it."""
        return {
            "name": self.name,
            "version": self.version,
            "description": self.description,
            "path": str(self.root),
            "form": self.form,
            "components": {
                "skills": [each.name for each in self.skills],
                "mcp_servers": [{"name": each.name, "type": each.kind} for each in self.servers],
                "handler": self.handler is not None,
                "hooks": [{"event": each.event, "command": each.command} for each in self.hooks],
            },
            "in_process": self.in_process,
            "capabilities": self.capabilities.to_json(),
            "skipped": [{"part": each.part, "reason": each.reason} for each in self.skipped],
        }


def read_plugin(folder: Path, data: Path) -> PluginPackage:
    """Read the plugin in a folder. `data` is where it keeps what is its own, which need not exist.

    Raises `PluginError` when the folder holds no plugin, or one that says nothing usable of itself.
    """
    try:
        root = folder.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise PluginError(f"There is no folder {brief(folder, 300)}; give that of a plugin.") from error
    if not root.is_dir():
        raise PluginError(f"{brief(folder, 300)} is no folder; give that of a plugin.")
    if os.path.lexists(root / manifest.FILE):
        return _agent_plugin(root, data)
    if os.path.lexists(root / extras.FILE):
        return _short(root, data)
    raise PluginError(
        f"{brief(folder, 300)} holds no plugin: there is neither {manifest.FILE} nor {extras.FILE} in it."
    )


def _agent_plugin(root: Path, data: Path) -> PluginPackage:
    about = manifest.parse(_fatal(root, manifest.FILE))
    skipped = list(about.skipped)
    own, prefix = Extras(), f"{NAMESPACE}/"
    if os.path.lexists(root / NAMESPACE):
        try:
            if not inside(root, root / NAMESPACE).is_dir():
                raise OutsideError("it is no folder")
            content = _optional(root, prefix + extras.FILE, skipped)
            if content is not None:
                own = read_extras(content, prefix + extras.FILE, named=False)
        except OutsideError as error:
            skipped.append(SkippedPart(NAMESPACE, str(error)))
            prefix = ""
        except ExtrasError as error:
            # Without what it declares, nothing could be granted to its code.
            skipped.append(SkippedPart(prefix + extras.FILE, str(error)))
            prefix = ""
    else:
        prefix = ""
    handler, hooks = _code(root, prefix, own.capabilities, skipped) if prefix else (None, ())
    return PluginPackage(
        name=about.name,
        version=about.version or own.version,
        description=about.description or own.description,
        root=root,
        form="agent-plugin",
        skills=_skills(root, skipped, strict=True),
        servers=_servers(root, data, skipped),
        handler=handler,
        hooks=hooks,
        in_process=own.in_process,
        capabilities=own.capabilities,
        skipped=(*skipped, *own.skipped),
    )


def _short(root: Path, data: Path) -> PluginPackage:
    skipped: list[SkippedPart] = []
    try:
        own = read_extras(_fatal(root, extras.FILE), extras.FILE, named=True)
    except ExtrasError as error:
        raise PluginError(f"{extras.FILE} in {brief(root, 300)} cannot be used: {error}.") from None
    handler, hooks = _code(root, "", own.capabilities, skipped)
    return PluginPackage(
        name=own.name,
        version=own.version,
        description=own.description,
        root=root,
        form="short",
        skills=_skills(root, skipped),
        servers=_servers(root, data, skipped),
        handler=handler,
        hooks=hooks,
        in_process=own.in_process,
        capabilities=own.capabilities,
        skipped=(*skipped, *own.skipped),
    )


def _code(
    root: Path, prefix: str, granted: DeclaredCapabilities, skipped: list[SkippedPart]
) -> tuple[Path | None, tuple[Hook, ...]]:
    """Its handler and its hooks."""
    handler: Path | None = None
    name = prefix + extras.HANDLER
    if os.path.lexists(root / name):
        try:
            handler = inside(root, root / name)
            if not handler.is_file():
                raise OutsideError("it is no plain file")
        except OutsideError as error:
            handler = None
            skipped.append(SkippedPart(name, str(error)))
    hooks: tuple[Hook, ...] = ()
    name = prefix + extras.HOOKS
    if (content := _optional(root, name, skipped)) is not None:
        try:
            found, wrong = read_hooks(content, name)
            skipped += wrong
            hooks = tuple(each for each in found if each.event in granted.events)
            skipped += [
                SkippedPart(f"{name}: {event}", "capabilities.events does not declare it")
                for event in dict.fromkeys(each.event for each in found if each not in hooks)
            ]
        except ExtrasError as error:
            skipped.append(SkippedPart(name, str(error)))
    return handler, hooks


def _skills(root: Path, skipped: list[SkippedPart], *, strict: bool = False) -> tuple[PluginSkill, ...]:
    """The skills right below `skills/`; deeper ones are not looked for. `strict`: each has to be valid."""
    folder = root / SKILLS
    if not os.path.lexists(folder):
        return ()
    try:
        if not inside(root, folder).is_dir():
            raise OutsideError("it is no folder")
        names = sorted(each.name for each in folder.iterdir())
    except (OutsideError, OSError) as error:
        skipped.append(SkippedPart(SKILLS, str(error)))
        return ()
    found: list[PluginSkill] = []
    for name in names[:MOST_SKILLS]:
        path = folder / name
        if not os.path.lexists(path / "SKILL.md"):
            continue
        try:
            skill = read_skill(root, path, strict=strict)
        except (OutsideError, SkillFormatError, OSError) as error:
            skipped.append(SkippedPart(f"{SKILLS}/{brief(name)}", str(error)))
            continue
        found.append(skill)
    if len(names) > MOST_SKILLS:
        skipped.append(
            SkippedPart(SKILLS, f"it has more than {MOST_SKILLS} folders; the others are not read")
        )
    return tuple(found)


def read_skill(root: Path, path: Path, *, strict: bool = False) -> PluginSkill:
    """The skill in a folder of the plugin. Raises `OutsideError`, `SkillFormatError` or `OSError`."""
    folder = inside(root, path)
    file = inside(root, folder / "SKILL.md")
    if not file.is_file():
        raise OutsideError("its SKILL.md is no plain file")
    if strict and (wrong := validate(read_text(file, root), path.name)):
        raise SkillFormatError(wrong[0][0].lower() + wrong[0][1:].rstrip("."))
    return PluginSkill(load(folder, "plugin").name, folder)


def _servers(root: Path, data: Path, skipped: list[SkippedPart]) -> tuple[PluginServer, ...]:
    content = _optional(root, servers.FILE, skipped)
    if content is None:
        return ()
    found, wrong = servers.parse(content, root, data)
    skipped += wrong
    return found


def _fatal(root: Path, name: str) -> bytes:
    """A file without which there is no plugin. Raises `PluginError`."""
    try:
        content = read_part(root, name)
    except (OutsideError, OSError) as error:
        raise PluginError(f"{name} in {brief(root, 300)} cannot be used: {_clause(error)}.") from None
    if content is None:
        raise PluginError(f"{name} in {brief(root, 300)} is gone.")
    return content


def _optional(root: Path, name: str, skipped: list[SkippedPart]) -> bytes | None:
    try:
        return read_part(root, name)
    except (OutsideError, OSError) as error:
        skipped.append(SkippedPart(name, _clause(error)))
        return None


def _clause(error: Exception) -> str:
    return (error.strerror or "it cannot be read") if isinstance(error, OSError) else str(error)

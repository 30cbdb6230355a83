"""A plugin as read from its folder: parsed and checked, without running any of it.

Two forms are supported: an Agent Plugin (`plugin.json`, `skills/`, `mcp.json`, and the files of Hermes in
`dev.hermes-tui/`), and a folder with `plugin.yaml` and `handler.py`. An invalid part is skipped with a
reason, and the other parts are still used.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from agent.core.config.document import parse as parse_yaml
from agent.core.config.hook_list import HOOK_EVENTS, Hook
from agent.integrations.plugins import files
from agent.integrations.plugins.files import (
    LONGEST_NAME,
    NAMESPACE,
    DeclaredCapabilities,
    OutsideError,
    PluginError,
    SkippedPart,
    inside,
    is_name,
    read_object,
    read_part,
)
from agent.integrations.plugins.files import capabilities_of as parse_capabilities
from agent.knowledge.skills.skill import SkillFormatError, load, read_text, validate
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.words import brief

SERVERS_FILE = "mcp.json"
SCHEMA = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"
ROOT, DATA = "PLUGIN_ROOT", "PLUGIN_DATA"
"""Variables and placeholders for the folder of the plugin, and for the folder of its own data."""

ServerKind = Literal["stdio", "streamable-http", "sse"]
_SERVER_FIELDS: Mapping[ServerKind, frozenset[str]] = {
    "stdio": frozenset({"type", "command", "args", "env", "cwd"}),
    "streamable-http": frozenset({"type", "url", "headers"}),
    "sse": frozenset({"type", "url", "headers"}),
}
_PLACEHOLDER = lazy_pattern(rf"\$\{{({ROOT}|{DATA})\}}")
_HEADER_NAME = lazy_pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = lazy_pattern(r"(?:[\x21-\x7e\x80-\xff](?:[\x20-\x7e\x80-\xff\t]*[\x21-\x7e\x80-\xff])?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginServer:
    """An MCP server as the plugin declares it; placeholders are not yet replaced."""

    name: str
    kind: ServerKind
    command: str = ""
    """The program: a bare name, or the path of a file in the plugin, without links."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    """The folder in which it runs; empty means the root of the plugin."""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def expand(self, root: Path, data: Path) -> PluginServer:
        """Return the server with its placeholders replaced once and the variables for both folders set; a
        remote server is unchanged.
        """
        if self.kind != "stdio":
            return self
        values = {ROOT: str(root), DATA: str(data)}
        env = {name: expand(value, values) for name, value in self.env.items()}
        return replace(
            self,
            args=tuple(expand(each, values) for each in self.args),
            env=env | values,
            cwd=str(_working_folder(self.cwd, root, data)),
        )


class _EntryError(ValueError):
    """An entry is not used. The text gives the reason as a clause."""


def expand(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with its placeholders replaced, though not those inside the inserted values."""
    return _PLACEHOLDER.sub(lambda found: values[found[1]], text)


def parse(content: bytes, root: Path, data: Path) -> tuple[tuple[PluginServer, ...], tuple[SkippedPart, ...]]:
    """Return the servers in a file, and the parts that are not used.

    `data` is the folder for the plugin's own data. Reads the disk.
    """
    try:
        document = read_object(content)
        for key in document:
            if key not in ("$schema", "mcpServers"):
                raise ValueError(f"the format does not know the field {brief(key)}")
        if document.get("$schema") != SCHEMA:
            raise ValueError(f"its $schema is not {SCHEMA}")
        servers = document.get("mcpServers")
        if not isinstance(servers, dict):
            raise ValueError("the field mcpServers is not an object")  # noqa: TRY004
    except ValueError as error:
        return (), (SkippedPart(SERVERS_FILE, str(error)),)
    found: list[PluginServer] = []
    skipped: list[SkippedPart] = []
    for name, entry in servers.items():
        try:
            found.append(_server(str(name), entry, root, data))
        except _EntryError as error:
            skipped.append(SkippedPart(f"{SERVERS_FILE}: {brief(name)}", str(error)))
    return tuple(found), tuple(skipped)


def _server(name: str, entry: Any, root: Path, data: Path) -> PluginServer:
    if not isinstance(entry, dict):
        raise _EntryError("it is not an object")
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in _SERVER_FIELDS:
        raise _EntryError("its type is not stdio, streamable-http or sse")
    known = _SERVER_FIELDS[cast("ServerKind", kind)]
    for key in entry:
        if key not in known:
            raise _EntryError(f"a server of type {kind} has no field {brief(key)}")
    if kind == "stdio":
        return _local(name, entry, root, data)
    url = _url(entry.get("url"))
    return PluginServer(name=name, kind=cast("ServerKind", kind), url=url, headers=_headers(entry))


def _local(name: str, entry: Mapping[str, Any], root: Path, data: Path) -> PluginServer:
    args = entry.get("args", [])
    if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        raise _EntryError("its args are not a list of texts")
    env = _texts(entry, "env")
    for reserved in (ROOT, DATA):
        if reserved in env:
            raise _EntryError(f"its env sets {reserved}, which is not its own to set")
    if any(not key or "=" in key or "\0" in key + value for key, value in env.items()):
        raise _EntryError("its env has a name that no variable can have")
    cwd = entry.get("cwd", "")
    if not isinstance(cwd, str) or ("cwd" in entry and not cwd):
        raise _EntryError("its cwd is not text")
    server = PluginServer(
        name=name,
        kind="stdio",
        command=_command(entry.get("command"), root),
        args=tuple(args),
        env=env,
        cwd=cwd,
    )
    _working_folder(cwd, root, data)
    return server


def _command(given: Any, root: Path) -> str:
    if not isinstance(given, str) or not given.strip() or "\0" in given:
        raise _EntryError("its command is missing")
    if given.startswith("./"):
        try:
            path = inside(root, root / given)
        except OutsideError as error:
            raise _EntryError(f"its command: {error}") from None
        if path == root or path.is_dir():
            raise _EntryError("its command is a folder")
        return str(path)
    if "/" in given or "\\" in given or given in (".", ".."):
        raise _EntryError("its command is neither the bare name of a program nor a path that begins with ./")
    if any(character.isspace() for character in given):
        raise _EntryError("its command is a line of the shell; give one program, and args by themselves")
    return given


def _working_folder(cwd: str, root: Path, data: Path) -> Path:
    """Return the folder in which a server runs.

    Raises `_EntryError` if it is neither in the plugin's folder nor in its data folder.
    """
    if not cwd:
        return root
    if cwd.startswith("./"):
        base, path = root, root / cwd
    elif re.fullmatch(rf"\$\{{{ROOT}\}}(/.*)?", cwd, re.DOTALL):
        base, path = root, Path(expand(cwd, {ROOT: str(root), DATA: str(data)}))
    elif re.fullmatch(rf"\$\{{{DATA}\}}(/.*)?", cwd, re.DOTALL):
        base, path = data, Path(expand(cwd, {ROOT: str(root), DATA: str(data)}))
    else:
        raise _EntryError(f"its cwd begins neither with ./ nor with ${{{ROOT}}} or ${{{DATA}}}")
    try:
        return inside(base.resolve(), path)
    except OutsideError as error:
        raise _EntryError(f"its cwd: {error}") from None


def _url(given: Any) -> str:
    if not isinstance(given, str):
        raise _EntryError("its url is missing")
    try:
        parts = urlsplit(given)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        raise _EntryError("its url cannot be read") from None
    if parts.scheme not in ("http", "https") or not host or any(each <= " " for each in given):
        raise _EntryError("its url is not an absolute address of http or https")
    if "@" in parts.netloc:
        raise _EntryError("its url holds a user or a password")
    if "#" in given:
        raise _EntryError("its url has a fragment")
    if parts.scheme == "http" and not _is_loopback(host):
        raise _EntryError("its url is not https, and not on this machine")
    return given


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _headers(entry: Mapping[str, Any]) -> Mapping[str, str]:
    headers = _texts(entry, "headers")
    folded = [name.lower() for name in headers]
    if len(set(folded)) != len(folded):
        raise _EntryError("its headers name one twice")
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise _EntryError(f"its header {brief(name)} is not a header of HTTP")
    return headers


def _texts(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    given = entry.get(key, {})
    if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
        raise _EntryError(f"its {key} is not an object of texts")
    return dict(given)


EXTRAS_FILE, HANDLER, HOOKS = "plugin.yaml", "handler.py", "hooks.yaml"
MOST_HOOKS = 64
LONGEST_WAIT = 60.0
"""The maximum timeout of a hook of `hooks.yaml`, in seconds."""
_EXTRAS_FIELDS = frozenset({"name", "version", "description", "in_process", "capabilities"})
_HOOK_FIELDS = frozenset({"command", "match", "timeout", "required"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """The content of a `plugin.yaml`."""

    name: str = ""
    version: str = ""
    description: str = ""
    in_process: bool = False
    """Whether it asks to run inside the process of Hermes, without a sandbox."""
    capabilities: DeclaredCapabilities = DeclaredCapabilities()  # noqa: RUF009 - frozen
    skipped: tuple[SkippedPart, ...] = ()


class ExtrasError(ValueError):
    """A file cannot be used at all. The message is a clause."""


def read_extras(content: bytes, origin: str, *, named: bool) -> Extras:
    """Return the content of a `plugin.yaml` called `origin`. Raises `ExtrasError`.

    With `named`, the file must give the plugin's name. Otherwise the manifest gives name and version, and
    those in this file are ignored.
    """
    data = _mapping(content)
    skipped = [
        SkippedPart(f"{origin}: {brief(key)}", "Hermes does not know this field")
        for key in data
        if key not in _EXTRAS_FIELDS
    ]
    name = data.get("name", "")
    if named and not is_name(name):
        raise ExtrasError(
            f"its name is not a name for a plugin; use 1 to {LONGEST_NAME} of a-z, 0-9, - and ., a letter or "
            "digit at both ends"
        )
    texts = {}
    for key in ("version", "description"):
        value = data.get(key, "")
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            skipped.append(SkippedPart(f"{origin}: {key}", "it is not text"))
            value = ""
        texts[key] = brief(value, 1_000)
    in_process = data.get("in_process", False)
    if not isinstance(in_process, bool):
        skipped.append(SkippedPart(f"{origin}: in_process", "it is neither true nor false"))
        in_process = False
    granted, wrong = parse_capabilities(data.get("capabilities"), origin)
    return Extras(
        name=name if named else "",
        version=texts["version"],
        description=texts["description"],
        in_process=in_process,
        capabilities=granted,
        skipped=(*skipped, *wrong),
    )


def read_hooks(content: bytes, origin: str) -> tuple[tuple[Hook, ...], tuple[SkippedPart, ...]]:
    """Return the hooks in the `hooks.yaml` called `origin`, which has the form of the setting `hooks`.

    The second value lists the parts that are not used. Raises `ExtrasError`.
    """
    hooks: list[Hook] = []
    skipped: list[SkippedPart] = []
    for event, entries in _mapping(content).items():
        if event not in HOOK_EVENTS:
            skipped.append(SkippedPart(f"{origin}: {brief(event)}", "there is no such event"))
            continue
        if not isinstance(entries, list):
            skipped.append(SkippedPart(f"{origin}: {event}", "it is not a list"))
            continue
        for number, given in enumerate(entries, 1):
            found = _hook(event, given)
            if isinstance(found, str):
                skipped.append(SkippedPart(f"{origin}: {event} {number}", found))
            elif len(hooks) >= MOST_HOOKS:
                skipped.append(SkippedPart(f"{origin}: {event} {number}", f"{MOST_HOOKS} hooks are enough"))
            else:
                hooks.append(found)
    return tuple(hooks), tuple(skipped)


def _hook(event: Any, given: Any) -> Hook | str:
    """Return a hook, or a text on why the entry is invalid."""
    if not isinstance(given, Mapping):
        return "it is not a mapping"
    for key in given:
        if key not in _HOOK_FIELDS:
            return f"a hook has no field {brief(key)}"
    command, match = given.get("command"), given.get("match", "*")
    timeout, required = given.get("timeout", 5), given.get("required", False)
    if not isinstance(command, str) or not command.strip():
        return "its command is missing"
    if not isinstance(match, str):
        return "its match is not text"
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= LONGEST_WAIT:
        return f"its timeout is not a number of seconds up to {LONGEST_WAIT:g}"
    if not isinstance(required, bool):
        return "its required is neither true nor false"
    return Hook(event, command, match, float(timeout), required)


def _mapping(content: bytes) -> dict[str, Any]:
    document = parse_yaml(content, "it")
    if document.problems:
        problem = document.problems[0]
        where = f" in line {problem.place.line}" if problem.place else ""
        raise ExtrasError(
            f"it is not YAML that can be used{where}: {brief(problem.message, 200).rstrip('.')}"
        )
    return document.data


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
    """The content of a plugin. Control characters are removed from its texts."""

    name: str
    version: str
    description: str
    root: Path
    """Its folder, with links resolved."""
    form: PluginForm
    skills: tuple[PluginSkill, ...] = ()
    servers: tuple[PluginServer, ...] = ()
    handler: Path | None = None
    """Its handler file, with links resolved; None if it has no usable one."""
    hooks: tuple[Hook, ...] = ()
    """Commands that run at events, inside the sandbox of the plugin."""
    in_process: bool = False
    """Whether it asks to run inside the process of Hermes, without a sandbox."""
    capabilities: DeclaredCapabilities = DeclaredCapabilities()  # noqa: RUF009 - frozen
    skipped: tuple[SkippedPart, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether the plugin has code of its own in addition to skills and servers."""
        return self.handler is not None or bool(self.hooks)

    def to_json(self) -> dict[str, Any]:
        """Return the data that `hermes plugin inspect --json` prints."""
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
    """Return the plugin in a folder. `data` is the folder for its own data, which need not exist.

    Raises `PluginError` if the folder contains no plugin, or one without a usable manifest.
    """
    try:
        root = folder.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise PluginError(f"There is no folder {brief(folder, 300)}; give that of a plugin.") from error
    if not root.is_dir():
        raise PluginError(f"{brief(folder, 300)} is not a folder; give that of a plugin.")
    if os.path.lexists(root / files.FILE):
        return _agent_plugin(root, data)
    if os.path.lexists(root / EXTRAS_FILE):
        return _short(root, data)
    raise PluginError(
        f"{brief(folder, 300)} holds no plugin: there is neither {files.FILE} nor {EXTRAS_FILE} in it."
    )


def _agent_plugin(root: Path, data: Path) -> PluginPackage:
    about = files.manifest_of(_fatal(root, files.FILE))
    skipped = list(about.skipped)
    own, prefix = Extras(), f"{NAMESPACE}/"
    if os.path.lexists(root / NAMESPACE):
        try:
            if not inside(root, root / NAMESPACE).is_dir():
                raise OutsideError("it is not a folder")
            content = _optional(root, prefix + EXTRAS_FILE, skipped)
            if content is not None:
                own = read_extras(content, prefix + EXTRAS_FILE, named=False)
        except OutsideError as error:
            skipped.append(SkippedPart(NAMESPACE, str(error)))
            prefix = ""
        except ExtrasError as error:
            # Without what it declares, nothing could be granted to its code.
            skipped.append(SkippedPart(prefix + EXTRAS_FILE, str(error)))
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
        own = read_extras(_fatal(root, EXTRAS_FILE), EXTRAS_FILE, named=True)
    except ExtrasError as error:
        raise PluginError(f"{EXTRAS_FILE} in {brief(root, 300)} cannot be used: {error}.") from None
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
    """Return the plugin's handler file (or None) and its hooks; unusable parts are added to `skipped`."""
    handler: Path | None = None
    name = prefix + HANDLER
    if os.path.lexists(root / name):
        try:
            handler = inside(root, root / name)
            if not handler.is_file():
                raise OutsideError("it is not a plain file")
        except OutsideError as error:
            handler = None
            skipped.append(SkippedPart(name, str(error)))
    hooks: tuple[Hook, ...] = ()
    name = prefix + HOOKS
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
    """Return the skills directly below `skills/`; deeper folders are not searched.

    Unusable ones are added to `skipped`, with `strict` also those with invalid fields.
    """
    folder = root / SKILLS
    if not os.path.lexists(folder):
        return ()
    try:
        if not inside(root, folder).is_dir():
            raise OutsideError("it is not a folder")
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
    """Return the skill in a folder of the plugin. Raises `OutsideError`, `SkillFormatError` or `OSError`."""
    folder = inside(root, path)
    file = inside(root, folder / "SKILL.md")
    if not file.is_file():
        raise OutsideError("its SKILL.md is not a plain file")
    if strict and (wrong := validate(read_text(file, root), path.name)):
        raise SkillFormatError(wrong[0][0].lower() + wrong[0][1:].rstrip("."))
    return PluginSkill(load(folder, "plugin").name, folder)


def _servers(root: Path, data: Path, skipped: list[SkippedPart]) -> tuple[PluginServer, ...]:
    content = _optional(root, SERVERS_FILE, skipped)
    if content is None:
        return ()
    found, wrong = parse(content, root, data)
    skipped += wrong
    return found


def _fatal(root: Path, name: str) -> bytes:
    """Return the content of a file that every plugin must have. Raises `PluginError`."""
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

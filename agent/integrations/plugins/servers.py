"""`mcp.json` of a plugin: the MCP servers it brings, each read by itself."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from agent.integrations.plugins.files import OutsideError, inside
from agent.integrations.plugins.manifest import read_object
from agent.integrations.plugins.problem import SkippedPart
from tools.text.words import brief

FILE = "mcp.json"
SCHEMA = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"
ROOT, DATA = "PLUGIN_ROOT", "PLUGIN_DATA"
"""Variables and placeholders for the folder of the plugin, and the folder where it keeps what is its own."""

ServerKind = Literal["stdio", "streamable-http", "sse"]
_FIELDS: Mapping[ServerKind, frozenset[str]] = {
    "stdio": frozenset({"type", "command", "args", "env", "cwd"}),
    "streamable-http": frozenset({"type", "url", "headers"}),
    "sse": frozenset({"type", "url", "headers"}),
}
_PLACEHOLDER = re.compile(rf"\$\{{({ROOT}|{DATA})\}}")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"(?:[\x21-\x7e\x80-\xff](?:[\x20-\x7e\x80-\xff\t]*[\x21-\x7e\x80-\xff])?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginServer:
    """A server as the plugin declares it; placeholders are not replaced yet."""

    name: str
    kind: ServerKind
    command: str = ""
    """One program: a bare name, or the path of one in the plugin, without links."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    """Where it runs; empty means the root of the plugin."""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def expanded(self, root: Path, data: Path) -> PluginServer:
        """The same with all placeholders replaced, once, and both variables set last."""
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
    """Why an entry is not used, as a clause."""


def expand(text: str, values: Mapping[str, str]) -> str:
    """`text` with its placeholders replaced; what comes in by that is not looked at again."""
    return _PLACEHOLDER.sub(lambda found: values[found[1]], text)


def parse(content: bytes, root: Path, data: Path) -> tuple[tuple[PluginServer, ...], tuple[SkippedPart, ...]]:
    """The servers in a file, and what is not used. `data` is the plugin's own folder. Looks at the disk."""
    try:
        document = read_object(content)
        for key in document:
            if key not in ("$schema", "mcpServers"):
                raise ValueError(f"the format does not know the field {brief(key)}")
        if document.get("$schema") != SCHEMA:
            raise ValueError(f"its $schema is not {SCHEMA}")
        servers = document.get("mcpServers")
        if not isinstance(servers, dict):
            raise ValueError("the field mcpServers is no object")  # noqa: TRY004
    except ValueError as error:
        return (), (SkippedPart(FILE, str(error)),)
    found: list[PluginServer] = []
    skipped: list[SkippedPart] = []
    for name, entry in servers.items():
        try:
            found.append(_server(str(name), entry, root, data))
        except _EntryError as error:
            skipped.append(SkippedPart(f"{FILE}: {brief(name)}", str(error)))
    return tuple(found), tuple(skipped)


def _server(name: str, entry: Any, root: Path, data: Path) -> PluginServer:
    if not isinstance(entry, dict):
        raise _EntryError("it is no object")
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise _EntryError("its type is not stdio, streamable-http or sse")
    known = _FIELDS[cast("ServerKind", kind)]
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
        raise _EntryError("its args are no list of texts")
    env = _texts(entry, "env")
    for reserved in (ROOT, DATA):
        if reserved in env:
            raise _EntryError(f"its env sets {reserved}, which is not its own to set")
    if any(not key or "=" in key or "\0" in key + value for key, value in env.items()):
        raise _EntryError("its env has a name that no variable can have")
    cwd = entry.get("cwd", "")
    if not isinstance(cwd, str) or ("cwd" in entry and not cwd):
        raise _EntryError("its cwd is no text")
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
    """Where a server runs. Raises `_EntryError` where that is neither in the plugin nor in its own folder."""
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
        raise _EntryError("its url is no absolute address of http or https")
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
            raise _EntryError(f"its header {brief(name)} is no header of HTTP")
    return headers


def _texts(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    given = entry.get(key, {})
    if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
        raise _EntryError(f"its {key} is no object of texts")
    return dict(given)

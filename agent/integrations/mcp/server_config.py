"""One server as it is configured: checked, with variables filled in, and known by a hash. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from agent.errors import ConfigError

if TYPE_CHECKING:
    from agent.core.config.schema import McpServerSettings

Transport = Literal["stdio", "http", "sse"]

START_TIME = 10.0
INSTALL_TIME = 120.0
"""Seconds a start has, and one that may first install the server."""

_INSTALLERS = frozenset({"npx", "bunx", "uvx", "pipx", "docker", "podman"})
_INSTALLING = {
    "npm": ("exec", "x"),
    "pnpm": ("dlx", "exec"),
    "yarn": ("dlx",),
    "bun": ("x",),
    "uv": ("tool", "run"),
    "deno": ("run",),
    "go": ("run",),
    "cargo": ("run",),
}
"""Programs that may install a server before they start it, and the first arguments with which they do."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    """What is known of signing in before the server is asked."""

    client_id: str = ""
    client_secret_env: str = ""
    client_metadata_url: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One server, as it was written: variables are not filled in yet."""

    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    env_passthrough: tuple[str, ...] = ()
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    timeout: float = 60.0
    """Seconds a call has."""
    connect_timeout: float = START_TIME
    """Seconds its start has, as the settings say; `start_time` is what it gets."""
    enabled: bool = True
    sandbox: bool = True
    network: bool = True
    readable: tuple[str, ...] = ()
    """Folders it reads although they lie in the home of Hermes: its own, where a plugin brings it."""
    writable: tuple[str, ...] = ()
    oauth: OAuthConfig = OAuthConfig()

    @property
    def start_time(self) -> float:
        """Seconds a start has: more than usual where it may be an installation and nothing else is set."""
        program = PurePath(self.command).name.lower().removesuffix(".cmd").removesuffix(".exe")
        first = next((each for each in self.args if not each.startswith("-")), "")
        installs = program in _INSTALLERS or first in _INSTALLING.get(program, ())
        return INSTALL_TIME if installs and self.connect_timeout == START_TIME else self.connect_timeout

    @property
    def identity(self) -> str:
        """The hash of what decides who answers; what is kept of another server does not count for this."""
        parts = (self.transport, self.command, list(self.args), self.url, self.cwd)
        return _hash(parts)

    @property
    def digest(self) -> str:
        """The hash of everything a person agrees to."""
        return _hash(asdict(self))

    @property
    def place(self) -> str:
        """Where it is, for a person: its command line or its address."""
        return self.url or " ".join((self.command, *self.args))

    @property
    def terms(self) -> tuple[str, ...]:
        """What a person agrees to besides its place, a line each; values of variables are left out."""
        lines: list[str] = []
        if self.command:
            network = "with the network" if self.network else "without the network"
            where = f"in the sandbox, {network}" if self.sandbox else "outside of the sandbox, as you"
            lines.append(f"started {where}")
        else:
            lines.append("reached over the network")
        for title, values in (
            ("variables", (*self.env, *self.env_passthrough)),
            ("headers", self.headers),
            ("folders it may change", self.writable if self.command else ()),
        ):
            if values:
                lines.append(f"{title}: {', '.join(sorted(set(values)))}")
        return tuple(lines)

    def offers(self, tool: str) -> bool:
        """Whether `include` and `exclude` let a tool through."""
        included = not self.include or any(fnmatchcase(tool, each) for each in self.include)
        return included and not any(fnmatchcase(tool, each) for each in self.exclude)


def server_config(name: str, given: McpServerSettings) -> ServerConfig:
    """The server `name` as the settings describe it. Raises `ConfigError` with what is wrong."""
    where = f"The MCP server {name!r}"
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{where} needs a name of letters, digits, `-`, `_` and `.`, at most 64 of them.")
    if bool(given.command.strip()) == bool(given.url.strip()):
        which = "both `command` and" if given.url.strip() else "neither `command` nor"
        raise ConfigError(f"{where} has {which} `url`; give one of them.")
    transport: Transport = given.transport or ("http" if given.url else "stdio")
    if (transport == "stdio") != bool(given.command):
        needs = "`command`" if transport == "stdio" else "`url`"
        raise ConfigError(f"{where} has the transport {transport}, which needs {needs}.")
    if given.url:
        _check_address(where, given.url)
    if "\0" in "".join((given.command, *given.args, given.cwd)):
        raise ConfigError(f"{where} has a NUL byte in its command; take it out.")
    oauth = given.oauth
    if oauth.client_metadata_url and urlsplit(oauth.client_metadata_url).scheme != "https":
        raise ConfigError(f"{where}: `oauth.client_metadata_url` has to be an https address.")
    return ServerConfig(
        name=name,
        transport=transport,
        command=given.command,
        args=tuple(given.args),
        env=dict(given.env),
        env_passthrough=tuple(given.env_passthrough),
        cwd=given.cwd,
        url=given.url,
        headers=dict(given.headers),
        include=tuple(given.include),
        exclude=tuple(given.exclude),
        timeout=given.timeout,
        connect_timeout=given.connect_timeout,
        enabled=given.enabled,
        sandbox=given.sandbox,
        network=given.network,
        writable=tuple(given.writable),
        oauth=OAuthConfig(
            client_id=oauth.client_id,
            client_secret_env=oauth.client_secret_env,
            client_metadata_url=oauth.client_metadata_url,
            scopes=tuple(oauth.scopes),
        ),
    )


def address_config(url: str) -> ServerConfig:
    """A server that is only named by its address. Raises `ConfigError`."""
    _check_address("The MCP server", url)
    return ServerConfig(name=urlsplit(url).hostname or "server", transport="http", url=url)


def _check_address(where: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        raise ConfigError(f"{where} has the address {url!r}, which is none.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_fine:
        raise ConfigError(f"{where} needs an address that begins with http:// or https://, not {url!r}.")
    if parts.username or parts.password:
        raise ConfigError(f"{where} has a name or password in its address; put it into `headers`.")


def _hash(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=list)
    return hashlib.sha256(text.encode("ascii")).hexdigest()

"""Configured servers: declared, checked, approved by their hash, and prepared for launch."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from agent.core.config.settings_file import UnreadableSettingsError, read_file
from agent.core.config.trust import project_root
from agent.core.consents import ConsentFile
from agent.core.home import Home
from agent.core.variables import fill_in
from agent.errors import ConfigError
from agent.integrations.mcp.launch import Confinement, Protocol, ServerLaunch, SignIn
from tools.kit.lazy_pattern import lazy_pattern
from tools.terminal.environment import child_environment
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.core.config.schema import McpServerSettings, SandboxSettings, Settings


Transport = Literal["stdio", "http", "sse"]

START_TIME = 10.0
GIVEN_TIME = 60.0
INSTALL_TIME = 120.0
"""The timeouts of a start in seconds: usual, of a server that an editor passes in, and with installation."""

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
"""Programs that may install a server before they start it, and the arguments with which they do so."""

_NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    """Sign-in settings that are known before the server is contacted."""

    client_id: str = ""
    client_secret_env: str = ""
    client_metadata_url: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One server as written in the configuration; references to variables are not yet replaced."""

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
    """The timeout of a call, in seconds."""
    connect_timeout: float = START_TIME
    """The timeout of its start in seconds, as configured; `start_time` is the one that is used."""
    enabled: bool = True
    sandbox: bool = True
    network: bool = True
    readable: tuple[str, ...] = ()
    """Folders in the home of Hermes that it may read: its own folder, if a plugin provides it."""
    writable: tuple[str, ...] = ()
    oauth: OAuthConfig = OAuthConfig()

    @property
    def start_time(self) -> float:
        """The timeout of a start in seconds.

        It is longer if the command may install the server first and the settings give no timeout.
        """
        program = PurePath(self.command).name.lower().removesuffix(".cmd").removesuffix(".exe")
        first = next((each for each in self.args if not each.startswith("-")), "")
        installs = program in _INSTALLERS or first in _INSTALLING.get(program, ())
        return INSTALL_TIME if installs and self.connect_timeout == START_TIME else self.connect_timeout

    @property
    def identity(self) -> str:
        """The hash of transport, command, address and folder.

        Data stored for a server with another hash is not used.
        """
        parts = (self.transport, self.command, list(self.args), self.url, self.cwd)
        return _hash(parts)

    @property
    def digest(self) -> str:
        """The hash of everything that the user approves."""
        return _hash(asdict(self))

    @property
    def place(self) -> str:
        """The command line or URL of the server, as it is shown to the user."""
        return self.url or " ".join((self.command, *self.args))

    @property
    def terms(self) -> tuple[str, ...]:
        """What the user approves besides command or URL, one line each. Values of variables are left out."""
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
        """Return whether `include` and `exclude` allow a tool."""
        included = not self.include or any(fnmatchcase(tool, each) for each in self.include)
        return included and not any(fnmatchcase(tool, each) for each in self.exclude)


def server_config(name: str, given: McpServerSettings) -> ServerConfig:
    """Return the server `name` of the settings. Raises `ConfigError`."""
    where = f"The MCP server {name!r}"
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{where} needs a name of letters, digits, `-`, `_` and `.`, at most 64 of them.")
    if bool(given.command.strip()) == bool(given.url.strip()):
        which = "both `command` and" if given.url.strip() else "neither `command` nor"
        forms = f"`hermes mcp add {name} --url URL` or `hermes mcp add {name} -- COMMAND`"
        raise ConfigError(f"{where} has {which} `url`; give one of them, as in {forms}.")
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
    taken = _fields(given.model_dump(exclude={"transport", "oauth"}))
    return ServerConfig(
        name=name, transport=transport, oauth=OAuthConfig(**_fields(oauth.model_dump())), **taken
    )


def _fields(dumped: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as fields, with tuples instead of lists."""
    return {name: tuple(each) if isinstance(each, list) else each for name, each in dumped.items()}


def address_config(url: str) -> ServerConfig:
    """Return the configuration of a server that is only given by its URL. Raises `ConfigError`."""
    _check_address("The MCP server", url)
    return ServerConfig(name=urlsplit(url).hostname or "server", transport="http", url=url)


def _check_address(where: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        raise ConfigError(f"{where} has the address {url!r}, which is not valid.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_fine:
        raise ConfigError(f"{where} needs an address that begins with http:// or https://, not {url!r}.")
    if parts.username or parts.password:
        raise ConfigError(f"{where} has a name or password in its address; put it into `headers`.")


def _hash(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=list)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class ServerAgreement(ConsentFile):
    """The approved servers of projects, by the hash of project and server."""

    def __init__(self, folder: Path) -> None:
        """Open the approvals in `folder`, the folder for servers in the home."""
        super().__init__(folder / "agreed.json")

    def holds(self, root: Path, config: ServerConfig) -> bool:
        """Return whether exactly this server of the project at `root` is approved."""
        return _key(root, config) in self.all()

    def all(self) -> dict[str, tuple[str, str]]:
        """Return name and project of each approved server by its hash.

        Both are empty texts if they were not stored.
        """
        data = self.data()
        agreed, servers = data.get("agreed"), data.get("servers")
        known = servers if isinstance(servers, dict) else {}
        return {
            key: _place(known.get(key))
            for key in (agreed if isinstance(agreed, list) else ())
            if isinstance(key, str)
        }

    def agree(self, root: Path, config: ServerConfig) -> None:
        """Approve a server in its current form. Raises `ConfigError`."""
        with self.change() as data:
            self._write(data, self.all() | {_key(root, config): (config.name, str(root))})

    def withdraw(self, key: str) -> bool:
        """Withdraw the approval with this hash; return False if there is none. Raises `ConfigError`."""
        with self.change() as data:
            agreed = self.all()
            found = agreed.pop(key, None)
            self._write(data, agreed)
        return found is not None

    def _write(self, data: dict[str, Any], agreed: Mapping[str, tuple[str, str]]) -> None:
        data["agreed"] = sorted(agreed)
        data["servers"] = {key: list(place) for key, place in agreed.items() if any(place)}


def _place(found: object) -> tuple[str, str]:
    match found:
        case [str(name), str(root)]:
            return name, root
        case _:
            return "", ""


def _key(root: Path, config: ServerConfig) -> str:
    return hashlib.sha256(f"{root}\0{config.digest}".encode("utf-8", "surrogatepass")).hexdigest()


PROJECT_FILE = ".mcp.json"
MOST = 100
"""The maximum number of servers of one project that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredServer:
    """One server of the settings, of a project or of a plugin, and whether it may be used."""

    config: ServerConfig
    origin: Literal["settings", "project", "plugin"]
    agreed: bool = True
    """Whether the user approved it; those of the user's own settings count as approved."""
    root: Path | None = None
    """The root of the project that declares it; None for others."""

    @property
    def usable(self) -> bool:
        return self.agreed and self.config.enabled


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredServers:
    """All declared servers by name, those of the settings first, and the problems with the others."""

    servers: tuple[DeclaredServer, ...]
    problems: tuple[str, ...] = ()

    def find_server(self, name: str) -> DeclaredServer:
        """Return the server called `name`. Raises `ConfigError`, which lists the existing ones."""
        for server in self.servers:
            if server.config.name == name:
                return server
        known = ", ".join(server.config.name for server in self.servers) or "none yet"
        raise ConfigError(
            f"There is no MCP server {name!r} ({known}); add it with `hermes mcp add {name} …`."
        )


def declared_servers(settings: Settings, folder: Path, workspace: Path) -> DeclaredServers:
    """Return the servers of the settings and of the project around `workspace`.

    `folder` is the folder for servers in the home folder.
    """
    found: dict[str, DeclaredServer] = {}
    problems: list[str] = []
    for name, given in settings.mcp_servers.items():
        try:
            found[name] = DeclaredServer(config=server_config(name, given), origin="settings")
        except ConfigError as error:
            problems.append(str(error))
    root = project_root(workspace)
    agreement = ServerAgreement(folder)
    for name, entry in _project_entries(root, problems).items():
        if name in found:
            problems.append(
                f"The MCP server {name} of {PROJECT_FILE} is left out: the settings have one of that name."
            )
            continue
        try:
            config = _project_config(name, entry, problems)
        except ConfigError as error:
            problems.append(f"{PROJECT_FILE}: {error}")
            continue
        agreed = agreement.holds(root, config)
        found[name] = DeclaredServer(config=config, origin="project", agreed=agreed, root=root)
    return DeclaredServers(servers=tuple(found.values()), problems=tuple(problems))


def add_server(home: Home, declared: DeclaredServers, name: str, entry: Mapping[str, Any]) -> ServerConfig:
    """Write a server into config.yaml and return it. Raises `ConfigError`; then nothing is written.

    `declared` are the existing servers, `entry` is the value for `mcp_servers.NAME`.
    """
    from agent.core.config.edit import put_entry
    from agent.core.config.schema import McpServerSettings

    if any(each.config.name == name and each.origin == "settings" for each in declared.servers):
        raise ConfigError(f"There is an MCP server {name!r} already; remove it, or choose another name.")
    config = server_config(name, McpServerSettings.model_validate(entry))
    put_entry(home, ("mcp_servers", name), {key: value for key, value in entry.items() if value != []})
    return config


def given_servers(
    servers: Sequence[tuple[str, Mapping[str, Any]]], taken: Collection[str]
) -> tuple[list[DeclaredServer], list[str]]:
    """Return the servers that a user interface passes for one session. Pure.

    The second list has a sentence for each that was left out. They count as the user's own, because they come
    from the editor in use. Variables in them are not replaced.
    """
    found: dict[str, DeclaredServer] = {}
    problems: list[str] = []
    for given, entry in servers[:MOST]:
        name = re.sub(r"[^A-Za-z0-9._-]", "_", given).lstrip("._-")[:64] or "server"
        why = ""
        if name in taken or name in found:
            why = "another server has its name"
        elif any("${" in str(text) for text in (*entry.get("args", ()), *entry.get("env", {}).values())):
            why = "what looks like a variable cannot be handed on as it is"
        if not why:
            try:
                config = _project_config(name, dict(entry), problems)
                if config.start_time == START_TIME:
                    # An editor has no setting for it, and its machine may be busy.
                    config = replace(config, connect_timeout=GIVEN_TIME)
                found[name] = DeclaredServer(config=config, origin="settings")
                continue
            except ConfigError as error:
                why = str(error)
        problems.append(f"The MCP server {clean(given)[:64]} of the editor is left out: {why}")
    return list(found.values()), [each if each.endswith(".") else f"{each}." for each in problems]


def _project_entries(root: Path, problems: list[str]) -> Mapping[str, Any]:
    try:
        content = read_file(root / PROJECT_FILE, follow=False)
    except UnreadableSettingsError as error:
        problems.append(f"{PROJECT_FILE} cannot be read: {error}.")
        return {}
    if content is None:
        return {}
    try:
        servers = json.loads(content).get("mcpServers", {})
        if not isinstance(servers, dict):
            raise TypeError
    except (ValueError, AttributeError, TypeError, RecursionError):
        problems.append(f'{PROJECT_FILE} is not a JSON object with "mcpServers"; its servers are left out.')
        return {}
    if len(servers) > MOST:
        problems.append(f"{PROJECT_FILE} has {len(servers)} servers, of which {MOST} are read.")
    return dict(list(servers.items())[:MOST])


def _project_config(name: str, entry: Any, problems: list[str]) -> ServerConfig:
    """Return a server of a project file, in the form that other programs use too. Raises `ConfigError`."""
    from pydantic import ValidationError

    from agent.core.config.schema import McpServerSettings

    if not isinstance(entry, dict):
        raise ConfigError(f"the server {name!r} is not an object; give it `command` or `url`.")
    known = {key: value for key, value in entry.items() if key in McpServerSettings.model_fields}
    kind = entry.get("type")
    if kind is not None:
        known["transport"] = {"streamable-http": "http", "streamable_http": "http"}.get(kind, kind)
    if entry.get("disabled") is True:
        known["enabled"] = False
    unknown = sorted(set(entry) - set(McpServerSettings.model_fields) - {"type", "disabled"})
    if isinstance(timeout := entry.get("timeout"), (int, float)) and not isinstance(timeout, bool):
        # Milliseconds, as the programs that write this file count.
        known["timeout"] = min(max(timeout / 1000, 0.001), 3_600)
    if isinstance(oauth := entry.get("oauth"), dict):
        known["oauth"], strange = _project_oauth(oauth)
        unknown += [f"oauth.{key}" for key in strange]
    if unknown:
        keys = clean(", ".join(map(str, unknown)))[:200]
        problems.append(f"{PROJECT_FILE}: what {name} says under {keys} is not known and is left out.")
    try:
        return server_config(name, McpServerSettings.model_validate(known))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"the server {name!r} has a wrong `{where}`: {clean(first['msg']).lower()}."
        ) from None


def _project_oauth(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the sign-in of a server in the form of the settings, and the unknown keys."""
    from agent.core.config.schema import McpOAuthSettings

    names = {"clientId": "client_id", "scope": "scopes", "clientMetadataUrl": "client_metadata_url"}
    ours = {names.get(str(key), str(key)): value for key, value in given.items()}
    if isinstance(scopes := ours.get("scopes"), str):
        ours["scopes"] = scopes.split()
    known = {key: value for key, value in ours.items() if key in McpOAuthSettings.model_fields}
    return known, sorted(set(ours) - set(known))


_TRUST = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_WAY_OUT = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEnvironment:
    """Settings that all servers of a session share."""

    home: Home
    workspace: Path
    files: Path
    """The folder for results that are too large for the conversation."""
    sandbox: SandboxSettings
    variables: Mapping[str, str]
    """The user's variables, including those of `~/.hermes/.env`."""
    probes: bool = False
    """Whether servers that failed are tried again automatically."""
    interactive: bool = False
    """Whether the user can be asked to open a URL to sign in."""
    protocol: Protocol = "auto"
    renew: bool = False
    """Whether to sign in again even if tokens are stored."""

    @property
    def of_process(self) -> dict[str, str]:
        """The environment of the host process: variables for network access, and no secrets."""
        wanted = {*_TRUST, *_WAY_OUT, *(name.upper() for name in _WAY_OUT), "PATH", "HOME", "LANG", "LC_ALL"}
        return {name: value for name, value in self.variables.items() if name in wanted}


def launch_of(config: ServerConfig, around: LaunchEnvironment) -> ServerLaunch:
    """Return everything needed to start or reach a server. Raises `ConfigError`."""
    where, variables = f"The MCP server {config.name}", around.variables
    folder = around.home.servers
    oauth = config.oauth
    kept = f"{config.name}-{config.identity[:16]}"
    return ServerLaunch(
        name=config.name,
        transport=config.transport,
        folder=str(folder / "places" / kept),
        tokens=str(token_path(folder, config)),
        files=str(around.files),
        command=tuple(fill_in(part, variables, where) for part in (config.command, *config.args))
        if config.command
        else (),
        env=_environment(config, around, where),
        cwd=str(around.workspace / Path(fill_in(config.cwd, variables, where)).expanduser()),
        url=fill_in(config.url, variables, where),
        headers={name: fill_in(value, variables, where) for name, value in config.headers.items()},
        roots=(str(around.workspace),),
        timeout=config.timeout,
        connect_timeout=config.start_time,
        protocol=around.protocol,
        confinement=_confinement(config, around),
        sign_in=SignIn(
            interactive=around.interactive,
            client_id=oauth.client_id,
            client_secret=variables.get(oauth.client_secret_env, "") if oauth.client_secret_env else "",
            client_metadata_url=oauth.client_metadata_url,
            scopes=oauth.scopes,
            renew=around.renew,
        ),
    )


def token_path(folder: Path, config: ServerConfig) -> Path:
    """Return the path of a server's token file. `folder` is the folder for servers in the home folder."""
    return folder / "tokens" / f"{config.name}-{config.identity[:16]}.json"


def _environment(config: ServerConfig, around: LaunchEnvironment, where: str) -> dict[str, str]:
    if not config.command:
        return {}
    inherited = child_environment(around.variables, config.env_passthrough)
    own = {name: fill_in(value, around.variables, where) for name, value in config.env.items()}
    return {**inherited, **own}


def _confinement(config: ServerConfig, around: LaunchEnvironment) -> Confinement | None:
    if not config.sandbox or not config.command:
        return None
    sandbox = around.sandbox
    return Confinement(
        mode=sandbox.mode,
        workspace=str(around.workspace),
        home=str(around.home.root),
        network=config.network,
        readable=config.readable,
        writable=config.writable,
        hidden=tuple(sandbox.hidden),
        memory=sandbox.memory * 1_000_000,
        environ={name: value for name, value in around.variables.items() if name in _PLACES},
    )


_PLACES = ("HOME", "SSH_AUTH_SOCK", "GPG_AGENT_INFO", "XDG_RUNTIME_DIR", "WAYLAND_DISPLAY", "TMUX")

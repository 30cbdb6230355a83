"""Orders to start servers: variables filled in, environment, sandbox. Starts nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.core.variables import filled
from agent.integrations.mcp.launch import Confinement, Protocol, ServerLaunch, SignIn
from agent.integrations.mcp.server_config import ServerConfig
from tools.terminal.environment import child_environment

if TYPE_CHECKING:
    from agent.core.config.schema import SandboxSettings

_TRUST = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_WAY_OUT = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEnvironment:
    """What all servers of a session have in common."""

    home: Home
    workspace: Path
    files: Path
    """Folder for what is too large for the conversation."""
    sandbox: SandboxSettings
    variables: Mapping[str, str]
    """The person's variables, with those of `~/.hermes/.env`."""
    probes: bool = False
    """Whether servers that failed are tried again by themselves."""
    interactive: bool = False
    """Whether a person can be sent to an address to sign in."""
    protocol: Protocol = "auto"
    renew: bool = False
    """Whether to sign in anew."""

    @property
    def of_process(self) -> dict[str, str]:
        """What the process between inherits: the way to the network, and no secrets."""
        wanted = {*_TRUST, *_WAY_OUT, *(name.upper() for name in _WAY_OUT), "PATH", "HOME", "LANG", "LC_ALL"}
        return {name: value for name, value in self.variables.items() if name in wanted}


def launch_of(config: ServerConfig, around: LaunchEnvironment) -> ServerLaunch:
    """Everything that is needed to start or reach a server. Raises `ConfigError`."""
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
        command=tuple(filled(part, variables, where) for part in (config.command, *config.args))
        if config.command
        else (),
        env=_environment(config, around, where),
        cwd=str(around.workspace / Path(filled(config.cwd, variables, where)).expanduser()),
        url=filled(config.url, variables, where),
        headers={name: filled(value, variables, where) for name, value in config.headers.items()},
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
    """Where it is kept what signing in to a server gave; `folder` is the home's for servers."""
    return folder / "tokens" / f"{config.name}-{config.identity[:16]}.json"


def _environment(config: ServerConfig, around: LaunchEnvironment, where: str) -> dict[str, str]:
    if not config.command:
        return {}
    inherited = child_environment(around.variables, config.env_passthrough)
    own = {name: filled(value, around.variables, where) for name, value in config.env.items()}
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

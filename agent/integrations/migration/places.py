"""The agents whose things can be taken over, and where each keeps them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from agent.errors import ConfigError
from agent.integrations.migration import claude, codex, hermes, opencode
from agent.integrations.migration.found import Findings

AGENTS: Mapping[str, str] = {
    "claude": "Claude Code (~/.claude)",
    "codex": "Codex (~/.codex)",
    "opencode": "OpenCode (~/.local/share/opencode, ~/.config/opencode)",
    "hermes": "the Hermes Agent that came before (~/.hermes)",
}


def look(agent: str, given: str, home: Path, environ: Mapping[str, str]) -> Findings:
    """What an agent has: in the folder `given`, or where it usually is. Blocks.

    Raises `ConfigError` for an agent that is not known or a folder that is not there.
    """
    if agent not in AGENTS:
        raise ConfigError(f"There is no import from {agent}; there is one from {', '.join(AGENTS)}.")
    user = Path(environ.get("HOME") or Path.home())
    root = Path(given).expanduser() if given else _usual(agent, user, environ)
    settings = _settings(given, root, user, environ) if agent == "opencode" else root
    if not root.is_dir() and not settings.is_dir():
        raise ConfigError(f"{root} is no folder; say with --from where {agent} keeps its things.")
    if root.resolve() == home.resolve() and agent != "hermes":
        raise ConfigError(f"{root} is the home of this Hermes; name the folder of {agent}.")
    if agent == "opencode":
        return opencode.look(root, settings)
    looks: dict[str, Callable[[Path], Findings]] = {
        "claude": claude.look,
        "codex": codex.look,
        "hermes": hermes.look,
    }
    return looks[agent](root)


def _usual(agent: str, user: Path, environ: Mapping[str, str]) -> Path:
    variable = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}.get(agent, "")
    if given := environ.get(variable, ""):
        return Path(given).expanduser()
    if agent == "opencode" and (data := environ.get("XDG_DATA_HOME", "")):
        return Path(data) / "opencode"
    folders = {"claude": claude, "codex": codex, "opencode": opencode, "hermes": hermes}
    return user / folders[agent].FOLDER


def _settings(given: str, root: Path, user: Path, environ: Mapping[str, str]) -> Path:
    """Where OpenCode keeps its settings; with --from in the same folder, or in `config` inside it."""
    if given:
        return root / "config" if (root / "config").is_dir() else root
    if config := environ.get("XDG_CONFIG_HOME", ""):
        return Path(config) / "opencode"
    return user / opencode.SETTINGS

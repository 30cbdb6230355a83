"""Services of plugins without an open session: dictation, and checks for `hermes doctor`. Reads the disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.config.known_secrets import known_secrets
from agent.core.config.loader import load
from agent.core.home import Home
from agent.integrations.plugins.consent import PluginConsents
from agent.integrations.plugins.installing import PluginEnvironment
from agent.integrations.plugins.session_plugins import SessionPlugins, found_plugins
from agent.integrations.senses.service import Dictation
from agent.session.wiring.plugin_senses import plugin_services

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings


def service_names(home: Home, workspace: Path, loaded: LoadedSettings) -> dict[str, str]:
    """Return the names of the plugin services in use, by tool. Starts no plugin."""
    plugins = _plugins(home, workspace, loaded)
    return {} if plugins is None else {tool: each.name for tool, each in plugin_services(plugins).items()}


def begin_dictation(home: Home, environ: Mapping[str, str], workspace: Path) -> Dictation:
    """Open one dictation. Raises `HermesError` if recording or transcription is not available."""
    loaded = load(home, dict(environ), workspace)
    plugins = _plugins(home, workspace, loaded)
    if plugins is None:
        return Dictation(loaded, environ)
    return Dictation(loaded, environ, plugin_services(plugins).get("transcribe"), plugins.aclose)


def _plugins(home: Home, workspace: Path, loaded: LoadedSettings) -> SessionPlugins | None:
    """Return the enabled plugins; None if the user has agreed to none of them.

    The sandbox is only tested if there are plugins, because the test is slow.
    """
    if not PluginConsents(home.plugin_consent).read():
        return None
    variables = loaded.environ
    mode = loaded.settings.sandbox.mode
    around = PluginEnvironment.of(home, workspace, variables, mode, known_secrets(variables))
    return found_plugins(around, lambda _text: None)

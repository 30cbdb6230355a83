"""Changes to settings whose values must name something that exists: skins, providers, formats, tools."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.config.edit import set_setting
from agent.core.config.problem import dotted_key
from agent.errors import ConfigError
from themes.skin import nearest

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings
    from agent.core.home import Home

_MODELS = frozenset(
    {
        *("model.name", "model.fallbacks", "context.summary_model", "safety.smart.model", "vision.model"),
        *("heartbeat.model", "recall.embeddings"),
    }
)
"""Settings that hold models; `PROVIDER/NAME` must name an existing provider."""


def change_setting(home: Home, key: str, text: str, warnings: list[str] | None = None) -> Any:
    """Set the dotted `key` to the value of `text`, and return that value. May send requests to model servers.

    A sentence about each model that its server does not list is added to `warnings`. Raises `ConfigError` as
    `set_setting` does, and for an unknown name, with the nearest known one.
    """

    found = [] if warnings is None else warnings

    def require_known(path: Sequence[str | int], value: Any) -> None:
        names = [str(each) for each in (value if isinstance(value, list) else [value]) if each]
        if names and (said := _unknown(home, tuple(map(str, path)), names, found)):
            raise ConfigError(f"{said[0].upper()}{said[1:].rstrip('.')}{'' if said.endswith('?') else '.'}")

    return set_setting(home, key, text, require_known)


def _unknown(home: Home, path: tuple[str, ...], names: Sequence[str], warnings: list[str]) -> str:
    """Return a sentence about the first unknown name; empty if all are known. Reads the disk.

    Sentences about names that are accepted but doubtful are added to `warnings`.
    """
    match path:
        case ("display", "skin"):
            from themes.loader import load_skin

            found = load_skin(names[0], home.skins)
            return "" if found.skin.name == names[0] else found.problems[0].message
        case ("display", "personality"):
            from themes.personalities import personalities

            known = [each.name for each in personalities()]
            return _missing("personality", [names[0].strip().lower()], known)
        case ("providers", *_, "format"):
            from agent.model.format_registry import FORMATS

            return _missing("wire format", names, FORMATS.names())
        case ("providers", *_, "dialect"):
            from agent.model import dialect

            return _missing("dialect", names, dialect.names(home.root / dialect.FOLDER))
        case ("memory", "provider"):
            from agent.session.wiring.plugin_memory import AUTO, FILES

            return _missing("provider of notes", names, [AUTO, FILES, *_plugin_services(home, "memory")])
        case ("web", "search", "providers"):
            return _missing("search service", names, _search_services(home))
        case ("web", "addresses", service):
            return _missing("search service", [service], _search_services(home))
        case ("tools", "enabled" | "disabled" | "direct"):
            from agent.automation.schedule.book import missing_toolset

            return missing_toolset(home, _load(home).settings, Path.cwd(), names)
        case ("heartbeat", "deliver"):
            from agent.automation.schedule.job import unknown_delivery

            return unknown_delivery(names[0])
        case ("recall", "embeddings") if names[0] in ("auto", "off"):
            return ""
        case _ if dotted_key(path) in _MODELS:
            return asyncio.run(_unknown_model(home, names, warnings))
        case _:
            return ""


async def _unknown_model(home: Home, names: Sequence[str], warnings: list[str]) -> str:
    from agent.model.providers import missing_provider, resolve, unlisted_notice, unlisted_problem
    from agent.model.server_watch import ServerWatches

    loaded, servers = _load(home), ServerWatches()
    alone = loaded.settings.model.model_copy(update={"fallbacks": []})
    settings = loaded.settings.model_copy(update={"model": alone})
    for name in names:
        if missing := missing_provider(settings, loaded.environ, name):
            return missing
        try:
            target = await servers.inform(resolve(settings, loaded.environ, name)[0])
        except ConfigError:
            continue  # Its key may come later.
        if problem := unlisted_problem(target):
            return problem
        warnings += filter(None, [unlisted_notice(target)])
    return ""


def _missing(kind: str, names: Sequence[str], known: Sequence[str]) -> str:
    wrong = next((name for name in names if name not in known), None)
    if wrong is None:
        return ""
    said = f"there is no {kind} `{wrong[:60]}`"
    near = nearest(wrong, known)
    return said + (near if near != "." or kind == "personality" else f"; there are {', '.join(known)}.")


def _load(home: Home) -> LoadedSettings:
    from agent.core.config.loader import load

    return load(home, os.environ)


def _search_services(home: Home) -> list[str]:
    from agent.integrations.web.search.services import known_services

    return [*known_services(), *_plugin_services(home, "search")]


def _plugin_services(home: Home, kind: str) -> list[str]:
    from agent.integrations.plugins.shelf import plugin_service_names

    return plugin_service_names(home, Path.cwd(), kind)

"""The models from which a user can choose, each with its known facts and the reason if it cannot be used.

No list is complete: providers offer more models than are listed here. Any name that `agent.model.providers`
accepts can be chosen as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from agent.core.home import Home
from agent.errors import ConfigError
from agent.model.addresses import is_loopback
from agent.model.catalog import PROVIDERS, TITLES, UNKNOWN, ModelInfo
from agent.model.detect import PORTS, DetectedServer
from agent.model.local.sources import installed_files, model_file
from agent.model.providers import BASE_URL, CUSTOM, MODEL, Target, resolve

if TYPE_CHECKING:
    from agent.core.config.schema import Settings

Origin = Literal["settings", "provider", "server", "local", "demo"]

OFFERED: Mapping[str, tuple[str, ...]] = {
    "anthropic": (
        "claude-opus-5",
        "claude-sonnet-5",
        "claude-fable-5",
        "claude-opus-4-8",
        "claude-sonnet-4-6",
        "claude-opus-4-5",
        "claude-sonnet-4-5",
        "claude-haiku-4-5",
    ),
    "openai": (
        "gpt-5.5",
        "gpt-5.4-mini",
        "gpt-5.4-nano",
        "gpt-5.3-codex",
        "gpt-5.2",
        "gpt-5.1",
        "gpt-5",
        "gpt-5-mini",
        "gpt-5-nano",
        "gpt-4.1",
        "gpt-4.1-mini",
        "o3",
        "o4-mini",
    ),
    "gemini": ("gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite"),
    "deepseek": ("deepseek-chat", "deepseek-reasoner", "deepseek-v4-flash", "deepseek-v4-pro"),
    "xai": ("grok-4", "grok-code-fast-1", "grok-3", "grok-3-mini"),
}
"""Well-known models, by the provider that makes them, spelled as its API expects them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """One model on the list."""

    name: str
    """The name to choose, as `agent.model.providers.resolve` accepts it."""
    label: str
    """The name by which a session shows the model (`Engine.model`)."""
    origin: Origin
    info: ModelInfo = UNKNOWN
    problem: str = ""
    """A sentence on why it cannot be used now; empty if it can."""
    missing_key: str = ""
    """The variable for the key, if the key is missing; otherwise empty."""
    default: bool = False
    """True if the settings or the environment choose it."""


def choices(settings: Settings, environ: Mapping[str, str], home: Home) -> list[ModelChoice]:
    """Return the models of settings, providers and this machine, usable ones first. Reads the home folder."""
    named = _Names(settings, environ, home)
    found = [
        *named.configured_choices(),
        *_local(settings, home, named),
        *named.makers(),
        *named.open_ended(),
    ]
    return merge_choices([*found, named.choice("demo", "demo")])


def served_choices(
    settings: Settings, environ: Mapping[str, str], home: Home, servers: Sequence[DetectedServer]
) -> list[ModelChoice]:
    """Return the models of servers found on this machine, and a hint for each server without models."""
    named = _Names(settings, environ, home)
    found: list[ModelChoice] = []
    for server in servers:
        found += [named.choice(f"{server.name}/{model}", "server") for model in server.models]
        if not server.models:
            name, title = f"{server.name}/…", TITLES.get(server.name, server.name)
            problem = f"{title} runs at {server.base_url} without a model; load one there."
            found.append(ModelChoice(name=name, label=name, origin="server", problem=problem))
    return found


def merge_choices(found: Iterable[ModelChoice]) -> list[ModelChoice]:
    """Return each model once, usable ones first, otherwise in the given order."""
    once: dict[str, ModelChoice] = {}
    for choice in found:
        known = once.get(choice.label)
        if known is None or (known.problem and not choice.problem):
            once[choice.label] = choice
    return sorted(once.values(), key=lambda choice: bool(choice.problem))


def ports(settings: Settings, environ: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return names and ports of servers that may run on this machine: from `OPENAI_BASE_URL`, the settings,
    and default ones.
    """
    places = [(name, _port(each.base_url)) for name, each in settings.providers.items()]
    places.insert(0, (CUSTOM, _port(environ.get(BASE_URL, "").strip())))
    own = {port: name for name, port in places if port}
    usual = {port: name for name, port in PORTS.items() if port not in own and name not in settings.providers}
    return [(name, port) for port, name in (own | usual).items()]


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port if is_loopback(url) else None
    except ValueError:
        return None


class _Names:
    """Resolves names of models with one set of settings and one environment."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], home: Home) -> None:
        alone = settings.model.model_copy(update={"fallbacks": []})
        self._settings = settings.model_copy(update={"model": alone})
        self._fallbacks = [name.strip() for name in settings.model.fallbacks]
        self._environ = environ
        self._home = home
        self._default = (environ.get(MODEL, "") or settings.model.name).strip()

    def choice(self, name: str, origin: Origin) -> ModelChoice:
        """Return the model with this name as a choice, with the reason if it cannot be used."""
        default = name == self._default
        try:
            target = self._target(name)
        except ConfigError as error:
            return ModelChoice(
                name=name,
                label=name,
                origin=origin,
                info=self._known_info(name),
                problem=str(error),
                missing_key=self._missing_key(name),
                default=default,
            )
        default = default or target.label == self._default
        return ModelChoice(name=name, label=target.label, origin=origin, info=target.info, default=default)

    def configured_choices(self) -> Iterator[ModelChoice]:
        """Yield the models named in the settings and the environment."""
        for name in dict.fromkeys(filter(None, [self._default, *self._fallbacks])):
            yield self.choice(name, _origin_of(name))
        for provider, each in self._settings.providers.items():
            for model in each.models:
                yield self.choice(f"{provider}/{model}", "settings")

    def makers(self) -> Iterator[ModelChoice]:
        """Yield well-known models of the built-in providers."""
        for provider, models in OFFERED.items():
            if provider in self._settings.providers or (self._own_address and provider == "openai"):
                continue
            for model in models:
                choice = self.choice(f"{provider}/{model}", "provider")
                # Without the key of the provider, an endpoint of one's own would be asked for the name.
                if choice.problem or choice.label == choice.name:
                    yield choice

    def open_ended(self) -> Iterator[ModelChoice]:
        """Yield the providers whose models are not listed here, as choices without a model."""
        own = [name for name, each in self._settings.providers.items() if not each.models]
        usual = [name for name, each in PROVIDERS.items() if each.key_env and name not in OFFERED]
        for name in dict.fromkeys([*own, *usual]):
            shown = f"{name}/…"
            reached = self.choice(f"{name}/model", "provider")
            problem = reached.problem and f"{name} needs a key; put it into {reached.missing_key}."
            problem = problem or f"Name the model: / and then {name}/MODEL."
            yield ModelChoice(
                name=shown, label=shown, origin="provider", problem=problem, missing_key=reached.missing_key
            )

    @property
    def _own_address(self) -> bool:
        return bool(self._environ.get(BASE_URL, "").strip())

    def _target(self, name: str) -> Target:
        """Return the model with this name. Raises `ConfigError` if it cannot be used."""
        target = resolve(self._settings, self._environ, name)[0]
        if target.kind == "local":
            model_file(self._home, target.path or self._settings.local.model)
        return target

    def _missing_key(self, name: str) -> str:
        provider = name.partition("/")[0]
        own = self._settings.providers.get(provider)
        known = PROVIDERS.get(provider)
        variable = (own.api_key_env if own else "") or (known.key_env if known else "")
        return variable if variable and not self._environ.get(variable, "").strip() else ""

    def _known_info(self, name: str) -> ModelInfo:
        """Return the known facts about a model whose key is missing."""
        variable = self._missing_key(name)
        if not variable:
            return UNKNOWN
        try:
            return resolve(self._settings, {**self._environ, variable: "key"}, name)[0].info
        except ConfigError:
            return UNKNOWN


def _origin_of(name: str) -> Origin:
    if name == "demo":
        return "demo"
    return "local" if name == "local" or name.startswith("local:") else "settings"


def _local(settings: Settings, home: Home, named: _Names) -> Iterator[ModelChoice]:
    """Yield the model files in the home folder as choices, first the one that `local` means."""
    yield named.choice("local", "local")
    try:
        used = model_file(home, settings.local.model)
        others = [path for path in installed_files(home) if not _same(path, used)]
    except ConfigError:
        return
    for path in others:
        name = f"local:{path}"
        if name.isprintable():
            yield replace(named.choice(name, "local"), label=name)


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False

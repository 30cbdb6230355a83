"""The model picker's access to files, environment and network. Everything here may block or wait."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from agent.core.home import Home
from agent.errors import HermesError

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings
    from agent.model.key_check import KeyCheck, KeyProvider, ServerCheck
    from agent.model.local.pull import Listener
    from agent.model.local.sources import Weights
    from agent.model.model_choices import ModelChoice
    from agent.model.provider_book import ProviderAnswer
    from agent.model.providers import NoModelError

AGAIN = "⏎ continues where it stopped."


@dataclass(frozen=True, slots=True)
class Offers:
    """What a user without a usable model can set up at once: providers with a key, and local models."""

    providers: tuple[KeyProvider, ...] = ()
    """The providers for which a key can be entered."""
    weights: Weights | None = None
    """The local model that would be fetched; None if its settings are invalid."""
    small: Weights | None = None
    """A smaller local model; None if the settings name another one than the default."""
    local: bool = False
    """True if a local model is present and can run."""
    problem: str = ""
    """The reason why no local model can run here yet; empty if one can."""


class ModelMenu:
    """Reads the available models of one workspace, and stores a choice."""

    def __init__(self, workspace: Path, environ: Mapping[str, str] = os.environ) -> None:
        self._workspace = workspace
        self._environ = dict(environ)
        self._home = Home.locate(self._environ)

    async def list_choices(self) -> list[ModelChoice]:
        """Return the models of the settings, known providers and this machine, without network access."""
        return await asyncio.to_thread(self._list)

    async def detect_choices(self) -> list[ModelChoice]:
        """Return the models of servers that run on this machine; takes up to a third of a second."""
        from agent.model.detect import detect
        from agent.model.model_choices import ports, served_choices

        loaded = await asyncio.to_thread(self._load)
        servers = await detect(ports(loaded.settings, loaded.environ))
        return await asyncio.to_thread(served_choices, loaded.settings, loaded.environ, self._home, servers)

    async def keep(self, name: str) -> str:
        """Make a model the default of new sessions; return a notice. Raises `ConfigError`."""
        from agent.api.known_names import change_setting
        from agent.model.providers import MODEL

        warnings: list[str] = []
        await asyncio.to_thread(change_setting, self._home, "model.name", name, warnings)
        loaded = await asyncio.to_thread(self._load)
        if (other := loaded.environ.get(MODEL, "").strip()) and other != name:
            return f"{name} is kept in config.yaml, but {MODEL} is set to {other} and counts more."
        return " ".join([f"New sessions begin with {name}.", *warnings])

    async def offers(self) -> Offers:
        """Return the providers and local models that can be set up. Reads the settings, not the network."""
        return await asyncio.to_thread(self._offers)

    async def check(self, provider: KeyProvider, key: str) -> KeyCheck:
        """Ask the provider whether it accepts the key."""
        from agent.model.key_check import check_key

        return await check_key(provider, key)

    async def keep_key(self, provider: KeyProvider, key: str) -> None:
        """Store a provider's key in the home folder, for this and later sessions. Raises `ConfigError`."""
        await asyncio.to_thread(self._keep_key, provider, key)

    def _keep_key(self, provider: KeyProvider, key: str) -> None:
        from agent.core.config.edit import set_setting
        from agent.core.config.env_file import keep_key

        keep_key(self._home, provider.variable, key)
        own = self._load().settings.providers.get(provider.name)
        if own is not None and not own.api_key_env:
            # Without this, the key would only be used for the built-in address.
            set_setting(self._home, f"providers.{provider.name}.api_key_env", provider.variable)

    async def problem_of(self, model: str) -> str:
        """Return why a model cannot be used, without network access; empty if no reason is known."""
        return await asyncio.to_thread(self._problem_of, model)

    def _problem_of(self, model: str) -> str:
        from agent.model.providers import resolve

        loaded = self._load()
        try:
            resolve(loaded.settings, loaded.environ, model)
        except HermesError as error:
            return str(error)
        return ""

    async def server(self, address: str, key: str) -> ServerCheck:
        """Query the server at an address, and store it as a provider if it works. Raises `ConfigError`."""
        from agent.model.key_check import check_server

        loaded = await asyncio.to_thread(self._load)
        own = loaded.settings.providers
        found = await check_server(address, key, {name for name in own if own[name].base_url})
        if not found.problem:
            await asyncio.to_thread(self._keep_server, found, key)
        return found

    def _keep_server(self, found: ServerCheck, key: str) -> None:
        from agent.core.config.edit import set_setting
        from agent.core.config.env_file import keep_key
        from agent.model.key_check import key_variable

        place = f"providers.{found.name}"
        set_setting(self._home, f"{place}.base_url", found.base_url)
        set_setting(self._home, f"{place}.format", found.format)
        if key:
            variable = key_variable(found.name)
            set_setting(self._home, f"{place}.api_key_env", variable)
            keep_key(self._home, variable, key)

    async def provider_rows(self) -> list[dict[str, Any]]:
        """Return a row of facts for each provider, as `hermes providers list --json` prints them."""
        from agent.model.provider_book import provider_rows

        return await asyncio.to_thread(lambda: provider_rows(self._home, self._load()))

    async def ask_provider(self, name: str) -> ProviderAnswer:
        """Check a provider with a request that costs nothing. Raises `ConfigError` for an unknown name."""
        from agent.model.provider_book import ask_provider

        return await ask_provider(await asyncio.to_thread(self._load), name)

    async def remove_provider(self, name: str) -> Callable[[], Awaitable[None]]:
        """Remove a provider from the user's settings; return what restores it. Raises `ConfigError`."""
        from agent.model.provider_book import remove_provider

        back = await asyncio.to_thread(lambda: remove_provider(self._home, self._load(), name))
        return partial(asyncio.to_thread, back)

    def fetch(self, weights: Weights, listener: Listener, stop: Event) -> None:
        """Fetch a local model; blocks. Raises `HermesError`, or `StoppedError` once `stop` is set."""
        from agent.model.local.pull import pull

        pull(weights, self._home.models, listener, stop=stop, again=AGAIN)

    async def of_provider(self, provider: str, names: Sequence[str]) -> list[ModelChoice]:
        """Return a provider's models: those in `names`; without names the known ones, or those it reports."""
        from agent.model.key_check import check_key, key_providers

        found = await asyncio.to_thread(self._of_provider, provider, names)
        if names or any(not each.problem for each in found):
            return found
        loaded = await asyncio.to_thread(self._load)
        for each in key_providers(loaded.settings, loaded.environ):
            if each.name == provider and each.is_set:
                check = await check_key(each, loaded.environ[each.variable].strip())
                if check.models:
                    return await asyncio.to_thread(self._of_provider, provider, check.models)
                return [replace(model, problem=check.problem or model.problem) for model in found]
        return found

    def _of_provider(self, provider: str, names: Sequence[str]) -> list[ModelChoice]:
        from agent.model.detect import DetectedServer
        from agent.model.model_choices import choices, served_choices

        loaded = self._load()
        if names:
            server = DetectedServer(provider, "", tuple(names))
            found = served_choices(loaded.settings, loaded.environ, self._home, (server,))
            return [replace(each, origin="provider") for each in found]
        listed = choices(loaded.settings, loaded.environ, self._home)
        return [each for each in listed if each.name.startswith(f"{provider}/")]

    def _offers(self) -> Offers:
        from agent.model.key_check import key_providers
        from agent.model.local.server import MISSING
        from agent.model.local.sources import installed_files, weights_for

        loaded = self._load()
        local = loaded.settings.local
        problem = "" if can_run_local() else MISSING
        small: Weights | None = None
        weights: Weights | None = None
        try:
            weights = weights_for(local.url, local.sha256)
            small = None if local.url else weights_for("", "", small=True)
        except HermesError as error:
            problem = str(error)
        here = bool(local.model) or bool(installed_files(self._home))
        providers = key_providers(loaded.settings, loaded.environ)
        return Offers(providers, weights, small, here and not problem, problem)

    def _list(self) -> list[ModelChoice]:
        from agent.model.model_choices import choices

        loaded = self._load()
        return choices(loaded.settings, loaded.environ, self._home)

    def _load(self) -> LoadedSettings:
        from agent.core.config.loader import load

        return load(self._home, self._environ, self._workspace)


def can_run_local() -> bool:
    """Return whether the package that runs a local model is installed."""
    return find_spec("xllamacpp") is not None


TOUR = "Take the tour with a scripted model; it runs right away"
NAME_ONE = "Name a model: provider/name …"
SERVER = "Name a server: its address, and its key if it wants one …"
KEY = "Enter a key of a provider: "
MODELS_SHOWN = 4
"""The number of models that are offered from each server on this machine."""
PROVIDERS_NAMED = 3


class Way(NamedTuple):
    """A choice in the first dialog: a way to get a model."""

    title: str
    act: Literal["use", "key", "models", "fetch", "name", "server"]
    model: str = ""
    weights: Weights | None = None
    provider: KeyProvider | None = None
    is_default: bool = False
    """True if the cursor may start on this choice."""


def ways(problem: NoModelError, offers: Offers) -> list[Way]:
    """Return the choices for getting a model, the most reliable first. Pure."""
    found = [
        Way(f"{server.name}/{model} – runs on this machine", "use", f"{server.name}/{model}", is_default=True)
        for server in problem.servers
        for model in server.models[:MODELS_SHOWN]
    ]
    for each in offers.providers:
        if each.is_set:
            found.append(
                Way(
                    f"Choose a model of {each.name}; its key is set", "models", provider=each, is_default=True
                )
            )
    found += _local(offers)
    if offers.providers:
        named = ", ".join(each.name for each in offers.providers[:PROVIDERS_NAMED])
        found += [Way(f"{KEY}{named}, …", "key"), Way(SERVER, "server")]
    return [*found, Way(NAME_ONE, "name"), Way(TOUR, "use", "demo")]


def _local(offers: Offers) -> list[Way]:
    if offers.local:
        return [Way("Use the local model; it is here", "use", "local", is_default=True)]
    if offers.weights is None:
        return []
    titles = ("Fetch the local model{} and use it", "Fetch a smaller one{}, for machines with little memory")
    return [
        Way(title.format(_size(each)), "fetch", weights=each, is_default=at == 0)
        for at, (title, each) in enumerate(zip(titles, (offers.weights, offers.small), strict=True))
        if each is not None
    ]


def gigabytes(size: int) -> str:
    """Return a size as `1.1 GB`. Pure."""
    return f"{size / 1e9:.1f} GB"


def _size(weights: Weights) -> str:
    return f" ({gigabytes(weights.size)})" if weights.size else f" {weights.title}"

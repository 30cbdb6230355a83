"""Listing, checking and removing providers, for the command line and the application."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings


def provider_rows(home: Home, loaded: LoadedSettings) -> list[dict[str, Any]]:
    """Return a row of facts for every provider: those in the settings first, then built-in ones."""
    from agent.model.addresses import plain_address
    from agent.model.catalog import PROVIDERS
    from agent.model.dialect_book import learned_of
    from agent.model.providers import address_of, seller

    own = loaded.settings.providers
    rows: list[dict[str, Any]] = []
    names: list[str] = [*own, *(name for name in PROVIDERS if name not in own)]
    if variable_of(loaded, "OPENAI_BASE_URL") and "custom" not in own:
        names.append("custom")
    for name in names:
        known = PROVIDERS.get(name)
        if name in own:
            url = address_of(loaded.settings, loaded.environ, name)
            sold = PROVIDERS.get(seller(url))
            usual = known.key_env if known is not None and known is sold else ""
            key = own[name].api_key_env or usual
            format = own[name].format or (sold.format if sold else "chat")
        elif known is not None:
            url, key, format = known.base_url, known.key_env, known.format
        else:
            url, key, format = variable_of(loaded, "OPENAI_BASE_URL"), "OPENAI_API_KEY", "chat"
        row = {
            "name": name,
            "base_url": url if url.startswith("${") else plain_address(url),
            "format": format,
            "key_env": key,
            "key_set": bool(variable_of(loaded, key)),
            "built_in": name not in own and known is not None,
            "learned": len(learned_of(home.root, name)),
        }
        rows.append(row)
    return rows


def provider_row(home: Home, loaded: LoadedSettings, name: str) -> dict[str, Any]:
    """Return the row of one provider. Raises `ConfigError` if none has this name."""
    for row in provider_rows(home, loaded):
        if row["name"] == name:
            return row
    raise ConfigError(f"There is no provider {name!r}; `hermes providers` lists them.")


def variable_of(loaded: LoadedSettings, name: str) -> str:
    """Return the value of an environment variable, without surrounding spaces; empty if there is none."""
    return loaded.environ.get(name, "").strip() if name else ""


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """The result of one request to a provider."""

    problem: str = ""
    """A sentence; empty if the provider answers."""
    url: str = ""
    models: tuple[str, ...] = ()
    key: str = ""
    """A clause on the key that continues “It answers”, such as that it is accepted; may be empty."""


async def ask_provider(loaded: LoadedSettings, name: str) -> ProviderAnswer:
    """Send one free request to a provider, and return the result. Raises `ConfigError` for an unknown one."""
    from agent.model.addresses import plain_address
    from agent.model.catalog import PROVIDERS
    from agent.model.key_check import KeyProvider, check_key
    from agent.model.providers import reach, seller

    try:
        target = reach(loaded.settings, loaded.environ, name)
    except ConfigError as error:
        if name not in loaded.settings.providers and name not in PROVIDERS:
            raise
        return ProviderAnswer(str(error))
    path = PROVIDERS[sold].key_path if (sold := seller(target.base_url)) else "models"
    asked = KeyProvider(
        name=name,
        variable=target.key_hint or "the key",
        base_url=target.base_url,
        format=target.format,
        path=path,
        headers=target.headers,
        secrets=target.secrets,
        is_named=bool(target.key_hint),
    )
    found = await check_key(asked, target.api_key, listed=path == "models")
    key = f" and takes the key in {target.key_hint}" if target.api_key else ""
    unsent = "; no key was sent" if target.key_hint and not target.api_key else ""
    return ProviderAnswer(found.problem, plain_address(target.base_url), found.models, key or unsent)


def remove_provider(home: Home, loaded: LoadedSettings, name: str) -> Callable[[], None]:
    """Remove a provider from config.yaml, with its learned rules; return a function that restores it there.

    Raises `ConfigError` if it is not in that file.
    """
    from agent.core.config.edit import drop_entry
    from agent.model.dialect_book import forget

    row = provider_row(home, loaded, name)
    if row["built_in"]:
        way = f"unset {row['key_env']}" if row["key_set"] else "it is only used where you name it"
        raise ConfigError(
            f"{name} is built in and stays; {way}, or put another address in its place with "
            f"`hermes providers add {name} --url URL`."
        )
    if (back := drop_entry(home, ("providers", name))) is None:
        where = "OPENAI_BASE_URL; unset it" if name == "custom" else "other settings; take it out there"
        raise ConfigError(f"{name} does not stand in {home.config} but comes from {where}.")
    forget(home.root, name)
    return back

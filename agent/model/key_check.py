"""Checks whether a provider takes a key, with one request that costs nothing, before it is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.model.addresses import is_loopback
from agent.model.builtin_providers import PROVIDERS, Provider
from agent.model.detect import names_in
from agent.model.format_registry import FORMATS
from agent.model.transport.failures import Failures

if TYPE_CHECKING:
    from agent.config.schema import Settings

TIME_LIMIT = 20.0
"""Seconds a provider has to answer."""
LARGEST_ANSWER = 8 << 20
_REFUSED = (401, 403)
_BUSY = 429
"""A key that is used too much is a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyProvider:
    """A provider that needs a key, and the variable that holds it."""

    name: str
    variable: str
    base_url: str
    format: str
    path: str = "models"
    """What below the address answers only to a valid key."""
    is_set: bool = False
    """Whether the variable holds something already."""


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """What a provider said to a key."""

    problem: str = ""
    """One sentence, empty if the key was taken. The key is never part of it."""
    models: tuple[str, ...] = ()
    """The models it offers, as far as the same answer tells."""


def key_providers(settings: Settings, environ: Mapping[str, str]) -> tuple[KeyProvider, ...]:
    """The providers that take a key: those of the settings first, then the built-in ones."""
    return tuple(_providers(settings, environ))


def _providers(settings: Settings, environ: Mapping[str, str]) -> Iterator[KeyProvider]:
    for name, own in settings.providers.items():
        if own.api_key_env:
            known = PROVIDERS.get(name, Provider(base_url=own.base_url))
            yield KeyProvider(
                name=name,
                variable=own.api_key_env,
                base_url=own.base_url,
                format=own.format or known.format,
                is_set=bool(environ.get(own.api_key_env, "").strip()),
            )
    for name, each in PROVIDERS.items():
        if each.key_env and name not in settings.providers:
            yield KeyProvider(
                name=name,
                variable=each.key_env,
                base_url=each.base_url,
                format=each.format,
                path=each.key_path,
                is_set=bool(environ.get(each.key_env, "").strip()),
            )


async def check_key(provider: KeyProvider, key: str) -> KeyCheck:
    """Ask the provider once with the key. Never raises; what went wrong is the `problem`."""
    import httpx2

    failures = Failures(
        provider=provider.name,
        base_url=provider.base_url,
        key_hint=provider.variable,
        api_key=key,
        stall_timeout=TIME_LIMIT,
    )
    if not key.isascii() or not key.isprintable() or " " in key:
        return KeyCheck("The key is empty or holds characters that no key has; copy it anew.")
    try:
        local = is_loopback(provider.base_url)
    except ValueError:
        return KeyCheck(f"The address of {provider.name} is wrong; mend providers.{provider.name}.base_url.")
    if not local and not provider.base_url.startswith("https://"):
        return KeyCheck(f"{provider.base_url} is not encrypted; keys are only sent to https:// addresses.")
    url = f"{provider.base_url.rstrip('/')}/{provider.path}"
    headers = dict(FORMATS.get(provider.format).headers(key))
    try:
        async with (
            httpx2.AsyncClient(timeout=TIME_LIMIT, follow_redirects=False, trust_env=not local) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > LARGEST_ANSWER:
                    break
    except Exception as error:
        return KeyCheck(str(failures.transport(error)))
    if response.status_code < 300 or response.status_code == _BUSY:
        return KeyCheck(models=_models(bytes(body)))
    if response.status_code in _REFUSED:
        return KeyCheck(f"{provider.name} does not take this key ({response.status_code}); copy it anew.")
    return KeyCheck(str(failures.refused(response.status_code, response.headers, bytes(body))))


def _models(body: bytes) -> tuple[str, ...]:
    """The names in a list of models; none if it is something else."""
    try:
        return names_in(json.loads(body)) or ()
    except (ValueError, RecursionError):
        return ()

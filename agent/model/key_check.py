"""A check whether a provider accepts a key, with one free request, before the key is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent.core.variables import fill_in
from agent.errors import ConfigError, HermesError
from agent.model.addresses import below, is_loopback, list_of_models, plain_address
from agent.model.catalog import PROVIDERS, Provider
from agent.model.detect import names_in
from agent.model.format_registry import FORMATS
from agent.model.providers import address_of, checked_url, seller
from agent.model.transport.failures import Failures, kind_of, read_complaint

if TYPE_CHECKING:
    from agent.core.config.schema import Settings

TIME_LIMIT = 20.0
"""Seconds that a provider has to answer."""
LARGEST_ANSWER = 8 << 20
_REFUSED = (401, 403)
_NOT_THERE = (404, 405, 501)
_BUSY = 429
"""The status for too many requests: the key is valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyProvider:
    """A provider that needs a key, and the environment variable that holds it."""

    name: str
    variable: str
    base_url: str
    format: str
    path: str = "models"
    """A path below the address that answers only if the key is valid."""
    is_named: bool = True
    """True if `variable` is the name of a variable; otherwise it is words such as `the key`."""
    is_set: bool = False
    """True if the variable already has a value."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further headers of each request."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Further secrets that error messages must not repeat."""


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """The result of a request with a key."""

    problem: str = ""
    """A sentence; empty if the key was accepted. It never contains the key."""
    models: tuple[str, ...] = ()
    """The models that the provider offers, if the same answer lists them."""
    about_key: bool = False
    """True if the problem is that the key is wrong or missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCheck:
    """The result of a check of the server at an address."""

    problem: str = ""
    """A sentence; empty if a server answers there."""
    about_key: bool = False
    """True if the problem is that the key is wrong or missing."""
    name: str = ""
    """A free name for it as a provider."""
    base_url: str = ""
    format: str = ""
    models: tuple[str, ...] = ()


def key_providers(settings: Settings, environ: Mapping[str, str]) -> tuple[KeyProvider, ...]:
    """Return the providers that need a key: first those in the settings that name a variable, then built-in
    ones, then the others in the settings.
    """
    return tuple(_providers(settings, environ))


def key_variable(provider: str) -> str:
    """Return the name of the variable for the key of a provider that does not name one."""
    name = f"{re.sub(r'[^A-Z0-9]', '_', provider.upper())}_API_KEY"
    return f"_{name}" if name[0].isdigit() else name


def _providers(settings: Settings, environ: Mapping[str, str]) -> Iterator[KeyProvider]:
    unnamed: list[KeyProvider] = []
    for name, own in settings.providers.items():
        address = _substitute(address_of(settings, environ, name), environ)
        known = PROVIDERS.get(name, Provider(base_url=address))
        variable = own.api_key_env or known.key_env
        provider = KeyProvider(
            name=name,
            variable=variable or key_variable(name),
            base_url=address,
            format=own.format or known.format,
            headers={header: _substitute(text, environ) for header, text in own.headers.items()},
            is_set=bool(environ.get(variable, "").strip()) if variable else False,
        )
        if variable:
            yield provider
        else:
            unnamed.append(provider)
    for name, each in PROVIDERS.items():
        if each.key_env and name not in settings.providers:
            yield KeyProvider(
                name=name,
                variable=each.key_env,
                base_url=_substitute(each.base_url, environ),
                format=each.format,
                path=each.key_path,
                is_set=bool(environ.get(each.key_env, "").strip()),
            )
    yield from unnamed


def _substitute(text: str, environ: Mapping[str, str]) -> str:
    """Return `text` with its variables replaced by their values; unchanged if one is missing."""
    try:
        return fill_in(text, environ, "")
    except ConfigError:
        return text


async def check_server(address: str, key: str, taken: Collection[str]) -> ServerCheck:
    """Return the models and the wire format of the server at an address, from a few small requests.

    `taken` are names of providers in use. Never raises; errors are in `problem`.
    """
    try:
        url = checked_url(_with_scheme(address), "What you wrote")
        name = seller(url) or _name_of(url, taken)
    except (HermesError, ValueError) as error:
        return ServerCheck(problem=str(error))
    found = KeyCheck()
    bare = not urlsplit(url).path
    for place in [below(url, "v1"), url] if bare else [url]:
        for format in ("chat", "anthropic") if key else ("chat",):
            provider = KeyProvider(name="", variable="the key", is_named=False, base_url=place, format=format)
            found = await check_key(provider, key, listed=True)
            if not found.problem:
                spoken_form = format if format == "anthropic" else await _form(place, key)
                return ServerCheck(name=name, base_url=place, format=spoken_form, models=found.models)
    return ServerCheck(problem=found.problem, about_key=found.about_key)


async def _form(url: str, key: str) -> str:
    """Return the wire format of a server: the first one whose path exists, or `chat`."""
    import httpx2

    async with httpx2.AsyncClient(timeout=TIME_LIMIT, trust_env=not is_loopback(url)) as client:
        for format, path in (
            ("chat", "chat/completions"),
            ("responses", "responses"),
            ("anthropic", "messages"),
        ):
            try:
                headers = dict(FORMATS.get(format).headers(key))
                answer = await client.post(below(url, path), headers=headers, json={})
            except httpx2.HTTPError:
                continue
            if answer.status_code not in _NOT_THERE:
                return format
    return "chat"


def _with_scheme(address: str) -> str:
    """Return an address with a scheme: its own, http for this machine, or https. Pure."""
    plain = address.strip()
    if "://" in plain:
        return plain
    try:
        return f"http://{plain}" if is_loopback(f"http://{plain}") else f"https://{plain}"
    except ValueError:
        return plain


def _name_of(url: str, taken: Collection[str]) -> str:
    """Return a free name for the provider at an address: `local-8000`, or the main part of the host. Pure."""
    parts = urlsplit(url)
    labels = [each for each in (parts.hostname or "").split(".") if each not in ("api", "www")]
    plain = "".join(c if c.isalnum() and c.isascii() else "-" for c in labels[0] if c != ":").strip("-")
    name = f"local-{parts.port or 80}" if is_loopback(url) or not plain or plain.isdigit() else plain.lower()
    return next(each for at in count(1) if (each := name if at == 1 else f"{name}-{at}") not in taken)


async def check_key(provider: KeyProvider, key: str, *, listed: bool = False) -> KeyCheck:
    """Send the provider one request with the key; return the result. Never raises; errors are in `problem`.

    With `listed`, an answer without a list of models counts as a problem, and the key may be empty.
    """
    import httpx2

    failures = Failures(
        provider=provider.name,
        base_url=provider.base_url,
        key_hint=provider.variable,
        api_key=key,
        secrets=provider.secrets,
        stall_timeout=TIME_LIMIT,
    )
    if not key.isascii() or not key.isprintable() or " " in key:
        return KeyCheck(
            "The key is empty or holds characters that no key has; copy it again.", about_key=True
        )
    try:
        local = is_loopback(provider.base_url)
    except ValueError:
        return KeyCheck(
            f"The address of {provider.name} is wrong; correct it: "
            f"`hermes config set providers.{provider.name}.base_url URL`."
        )
    if key and not local and not provider.base_url.startswith("https://"):
        return KeyCheck(f"{failures.address} is not encrypted; keys are only sent to https:// addresses.")
    asked = list_of_models(provider.base_url, provider.path)
    url = plain_address(asked)
    headers = {**FORMATS.get(provider.format).headers(key), **provider.headers}
    try:
        async with (
            httpx2.AsyncClient(timeout=TIME_LIMIT, follow_redirects=False, trust_env=not local) as client,
            client.stream("GET", asked, headers=headers) as response,
        ):
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > LARGEST_ANSWER:
                    break
    except Exception as error:
        return KeyCheck(str(failures.transport(error)))
    if response.status_code < 300 or response.status_code == _BUSY:
        models = _models(bytes(body))
        if listed and models is None:
            return KeyCheck(f"What answers at {url} gives no list of models; is the address complete?")
        return KeyCheck(models=models or ())
    if listed and response.status_code in _NOT_THERE:
        return KeyCheck(
            f"Nothing at {url} gives a list of models ({response.status_code}); is that its address?"
        )
    complaint = read_complaint(bytes(body))
    is_refused = response.status_code in _REFUSED and not (
        complaint.page is not None and response.status_code == 403
    )
    if not key and (is_refused or kind_of(complaint, response.status_code) == "auth"):
        wants = f"The server at {failures.address} wants a key ({response.status_code})"
        if provider.is_named:
            wants += f", and none was sent because {provider.variable} is not set; put it into that variable"
        elif provider.name:
            wants += f"; name the variable that holds it: {failures.setting('api_key_env', 'VARIABLE')}"
        return KeyCheck(f"{wants}.", about_key=True)
    if is_refused:
        who = provider.name or f"The server at {failures.address}"
        problem = f"{who} does not take this key ({response.status_code}); copy it again."
        return KeyCheck(problem, about_key=True)
    failures = replace(failures, provider=provider.name or "The server")
    return KeyCheck(str(failures.refusal_error(response.status_code, response.headers, bytes(body))))


def _models(body: bytes) -> tuple[str, ...] | None:
    """Return the names in a list of models; None for other data."""
    try:
        return names_in(json.loads(body))
    except (ValueError, RecursionError):
        return None

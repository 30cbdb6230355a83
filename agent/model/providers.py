"""Resolution of models and providers from settings and environment: address, key, model, tool mode.

A model is named `name`, `provider/name`, `local`, `local:/path.gguf` or `demo`. The name is taken from the
command line, otherwise from `HERMES_MODEL`, otherwise from `model.name` in config.yaml. Nothing is guessed:
neither a model, nor a provider whose key is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit, urlunsplit

from agent.core.variables import fill_in, variable_names
from agent.errors import ConfigError
from agent.model.addresses import is_azure, is_loopback
from agent.model.catalog import FREE, PROVIDERS, TITLES, UNKNOWN, ModelInfo, Provider, lookup
from agent.model.format_registry import DEFAULT_FORMAT, FORMATS
from agent.model.protocol import ToolMode
from tools.text.redact import is_secret_name

if TYPE_CHECKING:
    from agent.core.config.schema import ProviderSettings, Settings
    from agent.model.detect import DetectedServer

BASE_URL = "OPENAI_BASE_URL"
KEY = "OPENAI_API_KEY"
MODEL = "HERMES_MODEL"
SHORTEST_SECRET = 8
"""The fewest characters of a value that is masked: shorter ones would occur in ordinary text."""
LISTED_MODELS = 8
"""The maximum number of a server's models that a notice lists."""
CUSTOM = "custom"
"""The name of the provider at `OPENAI_BASE_URL`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One model that can be used, and everything needed for requests to it."""

    kind: Literal["chat", "local", "demo"]
    provider: str
    model: str
    """The name by which the provider knows the model."""
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    more_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further keys, by the variables that hold them."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values of variables in headers and in the address's query, which are never shown."""
    format: str = DEFAULT_FORMAT
    """The name of the wire format."""
    dialect: str = ""
    """The dialect that the settings name; empty for the one that fits provider, host or model."""
    tool_mode: ToolMode = "native"
    info: ModelInfo = UNKNOWN
    key_hint: str = ""
    """The environment variable that holds the key; empty if none is needed."""
    path: str = ""
    """The file with the weights of a local model, if it was named; otherwise empty."""
    chosen: ModelInfo = UNKNOWN
    """The part of `info` set in the settings."""
    mode_chosen: bool = False
    """True if the settings choose the tool mode."""
    is_server: bool = False
    """True if it is a gateway or a private server, which is queried for its models."""
    untooled: bool = False
    """True if calls are sent as text because the server reports that its template has no tools."""
    provider_guessed: bool = False
    """True if the name is `maker/model`, whose first part is not a provider."""
    listed: tuple[str, ...] = ()
    """The models that the server lists, if this one is not among them; otherwise empty."""

    @property
    def label(self) -> str:
        """The name of this model as it is shown; unique among the targets of a session."""
        return self.provider if self.kind != "chat" else f"{self.provider}/{self.model}"

    def request_headers(self) -> dict[str, str]:
        """Return the headers of a request: the key as the wire format sends it, and those in the settings.

        Raises `ConfigError` for a format that cannot be loaded.
        """
        own = FORMATS.get(self.format).headers(self.api_key.strip())
        named = {name.lower() for name in self.headers}
        return {**{name: value for name, value in own.items() if name.lower() not in named}, **self.headers}


class NoModelError(ConfigError):
    """Raised if no model is chosen. The message lists the next steps, one per line."""

    def __init__(
        self,
        keys: Sequence[str] = (),
        servers: Sequence[DetectedServer] = (),
        problems: Sequence[str] = (),
    ) -> None:
        super().__init__("\n".join([*problems, _ways_on(keys, servers)]))
        self.problems = tuple(problems)
        """Problems with the settings, which may be the reason why no model is chosen."""
        self.keys = tuple(keys)
        """Variables of providers that are set: for their key, or `OPENAI_BASE_URL`."""
        self.servers = tuple(servers)

    def with_servers(self, servers: Sequence[DetectedServer], problems: Sequence[str] = ()) -> NoModelError:
        """Return the error with servers found on this machine among its steps, after `problems` with the
        settings.
        """
        return NoModelError(self.keys, servers, problems)


class UnusableModelError(ConfigError):
    """Raised if the chosen model cannot be used; another model may be usable."""


def resolve(
    settings: Settings, environ: Mapping[str, str], model_override: str | None = None
) -> list[Target]:
    """Return the model to use, followed by the fallbacks in order.

    Raises `NoModelError` if no model is chosen, `UnusableModelError` if it cannot be reached as configured,
    `ConfigError` if a fallback cannot.
    """
    resolver = _Resolver(settings, environ)
    chosen = (model_override or "").strip() or _variable(environ, MODEL) or settings.model.name.strip()
    if not chosen:
        raise NoModelError(resolver.keys_set())
    try:
        targets = [resolver.target(chosen)]
    except ConfigError as error:
        raise UnusableModelError(str(error)) from None
    if targets[0].kind != "demo":
        for name in filter(None, map(str.strip, settings.model.fallbacks)):
            target = resolver.target(name)
            if target.kind == "demo":
                raise ConfigError("The demo model answers nothing; take it out of model.fallbacks.")
            if target.label not in {known.label for known in targets}:
                targets.append(target)
    return targets


def reach(settings: Settings, environ: Mapping[str, str], provider: str) -> Target:
    """Return the target of a provider, without a model. Raises `ConfigError`, also if the key is missing."""
    return _Resolver(settings, environ).provider(provider)


def missing_provider(settings: Settings, environ: Mapping[str, str], model: str) -> str:
    """Return a sentence on why no provider can serve this model; empty if one can, even if its key is
    missing.
    """
    provider, slash, name = model.partition("/")
    resolver = _Resolver(settings, environ)
    try:
        if slash and not (name and resolver.means_provider(provider)):
            resolver.home_of(model)
    except ConfigError as error:
        return str(error)
    return ""


class _Resolver:
    """Resolves names of models with one set of settings and one environment."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = environ
        self._custom_url = _variable(environ, BASE_URL)

    def target(self, wanted: str) -> Target:
        """Return the target of a model name. Raises `ConfigError`."""
        if not wanted.isprintable():
            raise ConfigError("The name of the model has characters that cannot be printed; write it again.")
        if wanted == "demo":
            return Target(kind="demo", provider="demo", model="demo", info=FREE)
        if wanted == "local" or wanted.startswith("local:"):
            return self._local(wanted.removeprefix("local").removeprefix(":"))
        provider, _, name = wanted.partition("/")
        if name and self.means_provider(provider):
            return self._chat(provider, name)
        return replace(self._chat(self.home_of(wanted), wanted), provider_guessed="/" in wanted)

    def provider(self, name: str) -> Target:
        """Return the target of a provider, with an empty model name. Raises `ConfigError`."""
        known = name in self._settings.providers or name in PROVIDERS or (name == CUSTOM and self._custom_url)
        if not known:
            raise ConfigError(f"There is no provider {name!r}; `hermes providers` lists them.")
        return self._chat(name, "")

    def keys_set(self) -> list[str]:
        """Return the set environment variables that hold the address or the key of a provider."""
        configured = [provider.api_key_env for provider in self._settings.providers.values()]
        names = [BASE_URL, *configured, *(provider.key_env for provider in PROVIDERS.values())]
        return [name for name in dict.fromkeys(names) if name and _variable(self._environ, name)]

    def _local(self, path: str) -> Target:
        return Target(
            kind="local",
            provider="local",
            model="local",
            tool_mode="schema",
            info=replace(FREE, context_window=self._settings.local.context),
            path=path,
        )

    def means_provider(self, name: str) -> bool:
        """Return whether `name` in `name/…` is a provider and not a part of the model's name."""
        own = self._settings.providers.get(name)
        if own is not None and (own.base_url or name not in PROVIDERS):
            return True
        if name not in PROVIDERS:
            return name == CUSTOM and bool(self._custom_url)
        # Private endpoints often name models after their makers: `openai/gpt-oss-20b`.
        return not self._custom_url or (name != "openai" and self._usable(name))

    def _usable(self, name: str) -> bool:
        key = PROVIDERS[name].key_env
        return not key or bool(_variable(self._environ, key))

    def home_of(self, model: str) -> str:
        """Return the provider of a model named without one. Raises `ConfigError` if none or several are
        possible.
        """
        listed = [name for name, provider in self._settings.providers.items() if model in provider.models]
        if len(listed) == 1:
            return listed[0]
        if self._custom_url:
            return CUSTOM
        own = [name for name, each in self._settings.providers.items() if each.base_url]
        if len(own) == 1:
            return own[0]
        maker = next((name for name, each in PROVIDERS.items() if _makes(each, model)), "")
        if maker and self._usable(maker):
            return maker
        usable = [name for name, each in PROVIDERS.items() if each.key_env and self._usable(name)]
        if len(usable) == 1 and (not maker or PROVIDERS[usable[0]].resells):
            return usable[0]
        if maker:
            return maker
        raise ConfigError(_no_home(model, usable or list(self._settings.providers), self._settings.providers))

    def _chat(self, name: str, model: str) -> Target:
        own = self._settings.providers.get(name)
        provider = self._provider(name, own)
        key = _variable(self._environ, provider.key_env)
        _check_key(key, provider.key_env)
        if not key and provider.key_env and not is_loopback(provider.base_url):
            raise ConfigError(self._missing_key(name, model, provider))
        # The options of a local server determine what it really offers.
        known = None if is_loopback(provider.base_url) else lookup(model, seller(provider.base_url))
        chosen = UNKNOWN.overridden(own.models.get(model) if own else None)
        info = (known or UNKNOWN).overridden(own.models.get(model) if own else None)
        headers = self._headers(name, own, provider.base_url, key)
        secrets = [_variable(self._environ, each) for each in secret_variables(own)]
        secrets += [text.rpartition(" ")[2] for each, text in headers.items() if is_secret_name(each)]
        mode = info.tool_mode or (own.tool_mode if own and "tool_mode" in own.model_fields_set else None)
        return Target(
            kind="chat",
            provider=name,
            model=model,
            base_url=provider.base_url,
            api_key=key,
            more_keys=self._more_keys(own, provider.key_env) if key else {},
            headers=headers,
            secrets=tuple(each for each in dict.fromkeys(secrets) if len(each) >= SHORTEST_SECRET),
            format=_format(info.format or provider.format, name),
            tool_mode=mode or "native",
            dialect=own.dialect if own else "",
            info=info,
            key_hint=provider.key_env,
            chosen=chosen,
            mode_chosen=mode is not None,
            is_server=is_loopback(provider.base_url) or not seller(provider.base_url),
        )

    def _headers(self, name: str, own: ProviderSettings | None, url: str, key: str) -> Mapping[str, str]:
        """Return the headers in the settings, plus the key if the provider expects it in a custom header."""
        given = own.headers if own else {}
        place = f"providers.{name}.headers"
        made = {header: fill_in(text, self._environ, place) for header, text in given.items()}
        azure = name == "azure" or (own is not None and own.dialect == "azure") or is_azure(url)
        if key and azure and "api-key" not in {header.lower() for header in made}:
            made["api-key"] = key
        return made

    def _more_keys(self, own: ProviderSettings | None, first: str) -> dict[str, str]:
        """Return the additional keys that the settings name, by variable. Raises `ConfigError` for an invalid
        one.
        """
        found: dict[str, str] = {}
        for variable in own.more_key_envs if own else ():
            key = _variable(self._environ, variable)
            _check_key(key, variable)
            if key and variable != first:
                found[variable] = key
        return found

    def _provider(self, name: str, own: ProviderSettings | None) -> Provider:
        """Return address, key variable and format of a provider. Raises `ConfigError` if it is invalid."""
        if own is not None and not own.base_url:
            usual = self._provider(name, None)
            return replace(usual, key_env=own.api_key_env or usual.key_env, format=own.format or usual.format)
        if own is not None:
            place = f"providers.{name}.base_url"
            url = checked_url(fill_in(own.base_url, self._environ, place), place)
            # A key is sent only to its provider's address, unless the settings say otherwise.
            usual = PROVIDERS[name].key_env if name in PROVIDERS and seller(url) == name else ""
            return Provider(base_url=url, key_env=own.api_key_env or usual, format=own.format or spoken(url))
        if name not in PROVIDERS and not (name == CUSTOM and self._custom_url):
            raise ConfigError(
                f"The provider {name} has no address; give it one: "
                f"`hermes config set providers.{name}.base_url https://host/v1`."
            )
        if name == CUSTOM:
            url = checked_url(self._custom_url, BASE_URL)
            return Provider(base_url=url, key_env=KEY, format=spoken(url))
        known = PROVIDERS[name]
        if not _variable(self._environ, known.key_env):
            return known
        return replace(known, base_url=fill_in(known.base_url, self._environ, f"The provider {name}"))

    def _missing_key(self, name: str, model: str, provider: Provider) -> str:
        where = f"{provider.base_url} ({BASE_URL})" if name == CUSTOM else name
        what = f"The model {model} at {where}" if model else f"The provider {where}"
        sentence = f"{what} needs a key; put it into {provider.key_env}"
        reseller = PROVIDERS["openrouter"].key_env
        if model and name != "openrouter" and name != CUSTOM and _variable(self._environ, reseller):
            sentence += f", or write openrouter/{name}/{model} to use {reseller}"
        return f"{sentence}."


def secret_variables(own: ProviderSettings | None) -> list[str]:
    """Return the variables in headers or the query of the address, whose values are secret."""
    if own is None:
        return []
    return [
        name
        for text in (*own.headers.values(), own.base_url.partition("?")[2])
        for name in variable_names(text)
    ]


def address_of(settings: Settings, environ: Mapping[str, str], provider: str) -> str:
    """Return the address of a provider in the settings or built in, variables not filled in; empty if there
    is none.
    """
    if (own := settings.providers.get(provider)) is not None and own.base_url:
        return own.base_url
    if provider == CUSTOM:
        return _variable(environ, BASE_URL)
    return PROVIDERS[provider].base_url if provider in PROVIDERS else ""


def _makes(provider: Provider, model: str) -> bool:
    return any(model.startswith(family) for family in provider.families)


def seller(url: str) -> str:
    """Return the name of the built-in provider at an address; empty if there is none."""
    host = urlsplit(url).netloc
    return next((name for name, each in PROVIDERS.items() if urlsplit(each.base_url).netloc == host), "")


def spoken(url: str) -> str:
    """Return the wire format of the built-in provider at an address, or the default format."""
    name = seller(url)
    return PROVIDERS[name].format if name else DEFAULT_FORMAT


def _format(name: str, provider: str) -> str:
    """Return `name` if it is a known wire format. Raises `ConfigError` otherwise."""
    known = FORMATS.names()
    if name not in known:
        raise ConfigError(
            f"There is no wire format {name!r} (providers.{provider}.format); known are {', '.join(known)}."
        )
    return name


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip() if name else ""


def _check_key(key: str, variable: str) -> None:
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            f"The key in {variable} holds a blank, a line break or a special character, which no key has; "
            "copy it again."
        )


def checked_url(url: str, place: str) -> str:
    """Return `url` without spaces around it and without the path of an endpoint.

    Raises `ConfigError`, whose message names `place`, the setting that holds it.
    """
    plain = url.strip()
    try:
        parts = urlsplit(plain)
        path = parts.path.rstrip("/")
        for endpoint in ("/chat/completions", "/messages", "/responses"):
            path = path.removesuffix(endpoint).rstrip("/")
        # A query is kept in each request, as Azure and some gateways require.
        plain = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        secret = parts.username is not None or parts.password is not None
    except ValueError:
        sound, secret = False, False
    if secret:
        raise ConfigError(f"{place} holds a name or a password; put the key into an environment variable.")
    if not sound or not plain.isprintable() or " " in plain:
        raise ConfigError(f"{place} is not an address of an API; it usually looks like https://host/v1.")
    return plain


def _no_home(model: str, choices: Sequence[str], own: Iterable[str]) -> str:
    from difflib import get_close_matches

    provider, slash, name = model.partition("/")
    near = get_close_matches(provider.lower(), [*own, *PROVIDERS], n=1, cutoff=0.7) if slash else []
    guess = f"; did you mean {near[0]}/{name}?" if near else "."
    if choices:
        example = f"{choices[0]}/{model}"
        if near:
            return f"There is no provider {provider!r}{guess} If it is a maker, write for example {example}."
        return f"It is open which provider serves {model}: {', '.join(choices)}; write for example {example}."
    said = f"No provider is configured for the model {model}"
    if not slash:
        return f"{said}; set {BASE_URL} and {KEY}, or write provider/{model}, such as openrouter/{model}."
    ways = f"`hermes providers` lists those there are; `hermes providers add {provider} --url URL` adds one"
    return f"{said}{guess} {ways}."


def unlisted_problem(target: Target) -> str:
    """Return why a target is probably a mistake: the first part of its name is neither a provider nor a maker
    on the server's list. Empty if it is not.
    """
    maker = target.model.partition("/")[0]
    if not target.listed or not target.provider_guessed:
        return ""
    if any(name.startswith(f"{maker}/") for name in target.listed):
        return ""
    return (
        f"There is no provider {maker!r}, and {_not_listed(target)} `hermes providers` lists the providers; "
        f"write {target.label} to ask {target.provider} for it all the same."
    )


def unlisted_notice(target: Target) -> str:
    """Return a notice if the server of a target does not list its model; otherwise an empty text."""
    if not target.listed:
        return ""
    said = _not_listed(target)
    return f"{said[0].upper()}{said[1:]} Lists can be out of date, so it is asked for it all the same."


def _not_listed(target: Target) -> str:
    from difflib import get_close_matches

    name = target.model.rpartition("/")[2].lower()
    last_parts = {each.rpartition("/")[2].lower(): each for each in reversed(target.listed)}
    if close := get_close_matches(name, last_parts, n=1, cutoff=0.6):
        mend = f"; did you mean {target.provider}/{last_parts[close[0]]}?"
    else:
        more = f" and {len(target.listed) - LISTED_MODELS} more" if len(target.listed) > LISTED_MODELS else ""
        mend = f", only {', '.join(target.listed[:LISTED_MODELS])}{more}."
    return f"the list of {target.provider} does not have {target.model}{mend}"


def _ways_on(keys: Sequence[str], servers: Sequence[DetectedServer]) -> str:
    key = f"set {KEY}, OPENROUTER_API_KEY, ANTHROPIC_API_KEY or another, and {MODEL}=provider/name"
    if keys:
        owners = {BASE_URL: CUSTOM} | {
            provider.key_env: name for name, provider in PROVIDERS.items() if provider.key_env
        }
        known = [name for name in keys if name in owners]
        example = owners[known[0]] if known else "provider"
        key = f"{' and '.join(keys)} {'is' if len(keys) == 1 else 'are'} set; add {MODEL}={example}/<model>"
    server = "start Ollama, LM Studio, llama.cpp or vLLM, then name its model: hermes --model ollama/<model>"
    if servers:
        server = "; ".join(_offer(found) for found in servers)
    return "\n".join(
        (
            "No model is chosen yet. `hermes setup` asks for one, step by step. Or set it yourself:",
            f"  a key:    {key}",
            f"  a server: {server}",
            "  offline:  hermes model pull, then hermes --model local",
            "To look around first, without any model: hermes --demo",
        )
    )


def _offer(server: DetectedServer) -> str:
    title = f"the server of {BASE_URL}" if server.name == CUSTOM else TITLES.get(server.name, server.name)
    if not server.models:
        return f"{title} runs at {server.base_url} without a model; load one there"
    first, *others = server.models
    more = f" (and {len(others)} more)" if others else ""
    return f"{title} runs here: hermes --model {server.name}/{first}{more}"
